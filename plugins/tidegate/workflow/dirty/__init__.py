"""Dirty rows become data."""
