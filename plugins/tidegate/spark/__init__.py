"""Starts Spark jobs, keeps warm sessions, ends what hangs."""
