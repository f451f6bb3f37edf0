"""Where records come from: one folder for each kind of source."""
