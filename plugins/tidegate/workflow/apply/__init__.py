"""Landed batches of change events are merged into a keyed table."""
