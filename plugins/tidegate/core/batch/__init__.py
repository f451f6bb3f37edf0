"""Batches: their states, plans, sums, refusals; the jobs that write them."""
