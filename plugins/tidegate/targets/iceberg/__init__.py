"""Iceberg: its tables behind the target port (C1 to C10), catalogues, files by the storage port."""
