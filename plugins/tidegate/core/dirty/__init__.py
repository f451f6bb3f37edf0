"""Dirty rows become data: redrives."""
