"""Rows of finished files become rows of new ones without being decoded again: joined to one file, or moved to places.

Each source is compared with its manifest's entry, and what is written is counted and hashed again from the rows.
"""
