"""A window from ready to published: archive, publication and its fence, verification, catch-up of many."""
