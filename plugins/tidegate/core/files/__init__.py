"""Entries, receipts and balances of files; overflow partitions; merges of small files; landed files."""
