"""The command line. Modules import click, rich and the core; everything else when a command runs."""
