"""Reopening a published window: late rows become part of its next generation, once, and leave the late table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.world import World, record, window
from tidegate.workflow import archive, reopen


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Hour 0 is published with two rows; two late ones lie in the late table."""
    w = World(tmp_path)
    w.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("c0", 2.5))
    w.produce(record("d0", 3.5), partition=1)
    w.ingest("r1")
    w.archive(0)
    w.produce(record("late 1", 0.2), record("late 2", 0.3, "new"), record("fine", 2.6))
    w.ingest("r2")
    return w


def reopened(world: World, hour: int = 0) -> archive.Published:
    ctx = world.context()
    published = reopen.reopen(ctx, window(hour), "a test")
    if published.new:
        archive.announced(ctx, published)
    world.close()
    return published


def test_late_rows_become_part_of_the_next_generation(world: World) -> None:
    assert world.table("__late") == [(0, 3), (0, 4)]
    published = reopened(world)
    assert (published.new, published.generation, published.rows) == (True, 2, 4)
    assert world.by_window()["00"] == [(0, 0), (0, 1), (0, 3), (0, 4)]
    assert world.table("__late") == []
    assert not reopened(world).new
