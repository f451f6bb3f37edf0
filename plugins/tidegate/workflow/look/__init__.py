"""Gathers what is shown and measured."""
