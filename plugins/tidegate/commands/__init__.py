"""The commands of `tidegate`. Modules import click only; everything else when a command runs."""
