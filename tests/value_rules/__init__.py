"""docs/types.md, tested: its examples, and a second implementation that is compared with the engine."""
