"""Keyed tables in Iceberg behind the target port (M1, M3, M4, C1 to C6): a merge of batches is one commit."""
