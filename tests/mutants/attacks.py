"""Every attack by its name; each is a function of a `Stage`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

from tests.mutants import (
    attacks_batches,
    attacks_catchup,
    attacks_cleaning,
    attacks_failover,
    attacks_iceberg,
    attacks_iceberg_files,
    attacks_late,
    attacks_ledger,
    attacks_redrive,
    attacks_reopen,
    attacks_replay,
    attacks_schema,
    attacks_windows,
    attacks_zones,
)
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


_MODULES = (
    attacks_batches,
    attacks_windows,
    attacks_ledger,
    attacks_failover,
    attacks_iceberg,
    attacks_iceberg_files,
    attacks_cleaning,
    attacks_schema,
    attacks_redrive,
    attacks_late,
    attacks_reopen,
    attacks_replay,
    attacks_zones,
    attacks_catchup,
)
ATTACKS: dict[str, Attack] = {name: attack for module in _MODULES for name, attack in _of(module).items()}
