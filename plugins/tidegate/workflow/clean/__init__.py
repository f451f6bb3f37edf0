"""Deletes what nobody can need any more."""
