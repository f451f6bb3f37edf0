"""Days of keyed tables: what a day is built on, what stands at its end."""
