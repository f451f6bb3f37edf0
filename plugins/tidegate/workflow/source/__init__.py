"""A log that was cut below what is unread."""
