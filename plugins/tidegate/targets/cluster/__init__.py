"""A table of another cluster as a further system: a window's files are copied, checked there, and shown."""
