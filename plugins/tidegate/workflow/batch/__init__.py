"""A batch from plan to landed: ingest, sealing, landing."""
