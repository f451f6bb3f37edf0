"""The rules: they decide from gathered facts and return what to do. Standard library only, no I/O, no clock."""
