"""Starts Spark jobs, keeps warm sessions, ends jobs that hang."""
