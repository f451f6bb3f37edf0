"""PostgreSQL as the source of mirrors."""
