"""The compiled pipeline; which columns it may get; what a sample of messages proposes."""
