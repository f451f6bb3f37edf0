"""Ledgers of 0.1.0 with a refused batch each, in its own words.

    PYTHONPATH=<old checkout>/plugins:<old checkout> python tests/upgrade/old_refusals.py <folder>

Only names of 0.1.0 may be used here.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any


def main(place: Path) -> None:
    from tidegate.core.errors import BatchRefused
    from tidegate.core.pipeline import DirtyLimits

    from tests.world import TOPIC, World, record
    from tidegate.workflow import ingest

    def dirty(world: Any) -> None:
        world.change_spec(dirty=DirtyLimits(0, None))
        world.produce(record("a", 0.1), b"not json")

    def unknown(world: Any) -> None:
        world.change_spec(format=replace(world.pipeline.format, unknown_fields="fail"))
        world.produce(record("a", 0.1), record("b", 0.2) | {"other": 7})

    def lost(world: Any) -> None:
        world.produce(record("a", 0.1), record("b", 0.2))

    for prepare in (dirty, unknown, lost):
        (place / prepare.__name__).mkdir()
        world = World(place / prepare.__name__)
        prepare(world)
        ingest.plan(world.context(), "r1")
        if prepare is lost:
            world.kafka.trim(TOPIC, 0, 1)
        try:
            ingest.write(world.context(), "r1")
        except BatchRefused:
            world.close()
        else:
            raise AssertionError(prepare)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
