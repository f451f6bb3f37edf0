"""A model checker of the batch and hour protocol; README.md says how it is run."""
