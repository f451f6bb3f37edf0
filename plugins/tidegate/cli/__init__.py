"""The command line. Modules import click only; everything else when a command runs."""
