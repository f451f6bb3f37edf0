"""A ledger that was restored: what storage remembers is written back."""
