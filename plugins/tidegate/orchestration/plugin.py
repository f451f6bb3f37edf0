"""The plugin by its name of 0.1.0: a `plugins/tidegate_plugin.py` that was not replaced, or a wheel's entry point."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """By name: `tidegate.plugin` itself needs the other modules of this folder."""
    return getattr(import_module("tidegate.plugin"), name)
