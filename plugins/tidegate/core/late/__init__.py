"""Late rows join a published window: reopenings."""
