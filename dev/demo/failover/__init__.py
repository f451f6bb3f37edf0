"""`make demo-failover`: a source's second site."""
