"""Counts by another system: the port, and what a difference means for a window."""
