"""A log that was cut below what was planned."""
