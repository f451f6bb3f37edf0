"""Files of late and dirty rows that a batch or a generation takes up."""
