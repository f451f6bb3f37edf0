"""Keyed tables (mirrors): the newest row of each key, merged from landed batches of change events (M1 to M8)."""
