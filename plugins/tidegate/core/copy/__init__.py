"""The first full copy of a mirror's source table, and reading it again: rules S1 to S10."""
