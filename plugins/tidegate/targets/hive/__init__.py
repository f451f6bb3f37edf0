"""Hive: its catalogue, metastore, sessions and SQL."""
