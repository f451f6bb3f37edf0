"""For those who work on Tidegate: set-up, wheels, real services on this machine, the demo. Not in the wheel."""
