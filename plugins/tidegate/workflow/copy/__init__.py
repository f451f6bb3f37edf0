"""Reads a mirror's source table in chunks (S1 to S7); `workflow.apply` merges what was read."""
