"""Sends what people and consumers are told."""
