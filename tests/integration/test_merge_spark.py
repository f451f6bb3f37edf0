"""A merge and a reopening as Spark jobs: `land.py` on a plan of mode `merge` and `reopen`, through spark-submit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.submitting import by_submit
from tests.world import World, make_pipeline, record, window
from tidegate.core.spec.pipeline import Merge
from tidegate.workflow.late import reopen
from tidegate.workflow.publish import archive


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    pipeline = make_pipeline(f"file://{tmp_path}/lake/readings")
    made = World(tmp_path, replace(pipeline, archive=replace(pipeline.archive, merge=Merge(min_files=2, local_size=1))))
    yield made
    made.close()


def test_spark_merges_a_window(world: World) -> None:
    for number in range(3):
        world.produce(record(f"a{number}", 0.1), record(f"b{number}", 0.2, "b"), record("later", 2.5))
        world.produce(record("later", 2.5), partition=1)
        world.ingest(f"r{number}")
    said: list[str] = []
    ctx = world.context()
    ctx.launcher = by_submit(said.append)
    archive.publish(ctx, window(0))
    generation = ctx.ledger.windows.generation("readings", window(0), 1)
    world.close()
    assert sorted(f.rows for f in generation.files) == [3, 3], (world.said, said)  # type: ignore[union-attr]
    assert any("merged 6 rows of 6 files into 2" in line for line in said)
    assert world.by_window()["00"] == [(0, n) for n in (0, 1, 3, 4, 6, 7)]


def test_spark_reopens_a_window(world: World) -> None:
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("c0", 2.5))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.produce(record("late 1", 0.2), record("late 2", 0.3, "new"))
    world.ingest("r2")
    said: list[str] = []
    ctx = world.context()
    ctx.launcher = by_submit(said.append)
    published = reopen.reopen(ctx, window(0))
    world.close()
    assert (published.generation, published.rows) == (2, 4)
    assert any("copied 2 rows, added 2 late rows, in 4 files" in line for line in said), said
    assert world.by_window()["00"] == [(0, 0), (0, 1), (0, 3), (0, 4)]
    assert world.table("__late") == []
