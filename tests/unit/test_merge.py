"""Small files of a window are merged before it is published (R3): same rows, same digest, fewer files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import World, make_pipeline, record, window
from tidegate.core.receipt import content_digest


def merging(pipeline, min_files: int | None = 2):
    run = pipeline.archive
    return replace(pipeline, archive=replace(run, merge=replace(run.merge, min_files=min_files)))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, merging(make_pipeline(f"file://{tmp_path}/lake/readings")))
    yield made
    made.close()


def three_batches(world: World) -> None:
    """Hour 0 has three files of site a and one of site b."""
    world.produce(record("a0", 0.1), record("b0", 0.2, "b"))
    world.ingest("r1")
    world.produce(record("a1", 0.3), record("a2", 0.4), partition=1)
    world.ingest("r2")
    world.produce(record("a3", 0.5))
    world.produce(record("later", 2.5))
    world.produce(record("later", 2.5), partition=1)
    world.ingest("r3")


def hour(world: World):
    ledger = world.context().ledger
    number = ledger.windows.get("readings", window(0)).newest
    return ledger.windows.generation("readings", window(0), number)


def test_three_files_become_one(world: World) -> None:
    three_batches(world)
    ctx = world.context()
    landed = ctx.ledger.windows.landed_files("readings", window(0), (1, 2, 3))
    published = world.archive(0)
    assert published.digest == content_digest(f.entry for f in landed)
    files = hour(world).files
    assert sorted((dict(f.values)["site"], f.rows) for f in files) == [("a", 4), ("b", 1)]
    assert world.by_window()["00"] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
