"""What is wrong with a set-up, and how to fix it."""
