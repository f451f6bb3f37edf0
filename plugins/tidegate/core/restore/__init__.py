"""What storage remembers when a ledger has lost commits (R11)."""
