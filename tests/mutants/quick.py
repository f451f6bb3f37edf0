"""What makes many small worlds cheap, and is no part of what they show."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from tests import world
from tidegate.ledger.store import make_engine


def quick(ledger: Path | None = None) -> None:
    """For the rest of this process: no power cuts, one engine (with its compiled statements) for each database.

    `ledger`: an empty, migrated one, so that not every process has to make it."""
    os.fsync = lambda _: None  # type: ignore[assignment]
    world.make_engine = functools.cache(make_engine)  # type: ignore[attr-defined]
    if ledger is not None:
        world._empty_ledger = lambda: ledger  # type: ignore[assignment]
