"""Writes back to a restored ledger the records that storage keeps."""
