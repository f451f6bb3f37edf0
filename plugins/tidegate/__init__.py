"""Tidegate: message-queue topics become Hive hours, exactly once."""

__version__ = "0.2.0.dev0"
