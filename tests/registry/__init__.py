"""The client of schema registries, asked by readers of messages, against a real registry: `make test-registry`."""
