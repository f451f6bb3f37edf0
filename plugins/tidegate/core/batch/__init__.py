"""Batches: their states, plans, sums, thresholds; the jobs that write them."""
