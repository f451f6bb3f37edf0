"""A window from ready to published: archive, publication, swap, verification, catch-up of many."""
