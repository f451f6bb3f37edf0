"""Asks another system for the counts of windows."""
