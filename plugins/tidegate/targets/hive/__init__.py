"""Hive: its tables behind the target port (R2, R4, R8), catalogue, metastore, sessions and SQL."""
