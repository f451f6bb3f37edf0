"""Every attack by its name; each is a function of a `Stage`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

from tests.mutants import attacks_batches, attacks_cleaning, attacks_ledger, attacks_windows
from tests.mutants.stage import Stage

Attack = Callable[[Stage], None]


def _of(module: ModuleType) -> dict[str, Attack]:
    return {
        name: f
        for name, f in inspect.getmembers(module, inspect.isfunction)
        if f.__module__ == module.__name__
        and not name.startswith("_")
        and list(inspect.signature(f).parameters) == ["stage"]
    }


ATTACKS: dict[str, Attack] = _of(attacks_batches) | _of(attacks_windows) | _of(attacks_ledger) | _of(attacks_cleaning)
