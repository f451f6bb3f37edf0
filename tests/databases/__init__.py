"""Source databases on real servers."""
