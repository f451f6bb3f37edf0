"""A table without a log: each window is one reading of it."""
