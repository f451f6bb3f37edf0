"""Where windows go: one folder for each kind of table."""
