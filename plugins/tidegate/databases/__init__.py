"""Source databases of mirrors: what a copy reads of them, by the kind of database."""
