"""The promise, proved: coverage of offsets, records, what is stranded, the daily check."""
