"""Tables: their paths, definitions, partitions, and changes that may still be executed (R8)."""
