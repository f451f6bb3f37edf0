"""How a generation of a window is built: assembled, merged, extended, rebuilt, restored."""
