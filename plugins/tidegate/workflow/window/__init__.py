"""Windows that wait, are overdue, or stopped half-way."""
