"""What may be deleted (R7)."""
