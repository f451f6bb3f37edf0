"""Gathers facts, lets the core decide, applies what it says. Talks to ports only."""
