"""Rebuilds windows, one or a range, and rolls them back."""
