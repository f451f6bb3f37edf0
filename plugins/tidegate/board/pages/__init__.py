"""The board's pages as plain values: gathered from the ledger and the specs, rendered by templates."""
