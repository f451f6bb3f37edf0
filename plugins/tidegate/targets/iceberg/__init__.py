"""Iceberg: what its files hold."""
