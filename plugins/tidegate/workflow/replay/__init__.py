"""Windows are rebuilt, one or a range of them, or rolled back."""
