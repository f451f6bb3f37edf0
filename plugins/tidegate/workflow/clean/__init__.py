"""Deletes files that no task or reader can need any more."""
