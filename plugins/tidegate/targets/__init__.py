"""Where rows go: one folder for each kind of table, of windows or of merged batches."""
