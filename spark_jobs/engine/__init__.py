"""The worker: a task fetches, decodes, routes and writes its exact offset ranges in one pass."""
