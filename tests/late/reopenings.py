"""A published window that late rows wait for, reopened; what must hold afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from tests.audit.audits import balanced
from tests.world import World, record, window
from tidegate.workflow.late import reopen
from tidegate.workflow.publish import archive

BOTH = [(0, 0), (0, 1), (0, 3), (0, 4)]
WORK = "lake/readings/_tidegate"


def begun(world: World) -> World:
    """Hour 0 is published with two rows of batch 1; two of batch 2 are late for it, at offsets 3 and 4."""
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("c0", 2.5))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.produce(record("late 1", 0.2), record("late 2", 0.3, "new"), record("fine", 2.6))
    world.ingest("r2")
    assert world.table("__late") == [(0, 3), (0, 4)]
    return world


def reopened(world: World, hour: int = 0, over_budget: bool = False) -> archive.Published:
    ctx = world.context()
    published = reopen.reopen(ctx, window(hour), "a test", over_budget)
    if published.new:
        archive.announced(ctx, published)
    world.close()
    return published


def once(world: World, rows: list[tuple[int, int]], late: Sequence[tuple[int, int]] = ()) -> None:
    """Hour 0 has these rows, the late table those, and the audit is content."""
    assert world.by_window()["00"] == rows
    assert world.table("__late") == list(late)
    balanced(world)
