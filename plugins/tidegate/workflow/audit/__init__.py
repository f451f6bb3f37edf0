"""Gathers what the audit compares: ledger, files, catalogue, Kafka."""
