"""Tidegate: message-queue topics become Hive hours, exactly once."""

__version__ = "0.1.0"
