"""The rules: decided from gathered facts, they return what to do. Standard library only, no I/O, no clock."""
