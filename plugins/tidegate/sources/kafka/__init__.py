"""Kafka as the control plane sees it."""
