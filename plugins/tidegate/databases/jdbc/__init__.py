"""Databases that have a driver for JDBC: tables without a log are read from them, by a Java in this process (JPype)."""
