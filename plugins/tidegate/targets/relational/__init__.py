"""Relational databases as further systems: a window is deleted, inserted and named by its token in one transaction."""
