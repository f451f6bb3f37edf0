"""The proof of the promise: coverage of offsets, records, stranded rows, the daily check."""
