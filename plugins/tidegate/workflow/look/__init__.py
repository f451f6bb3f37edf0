"""Gathers views and measures."""
