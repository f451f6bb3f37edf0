"""A redrive as a Spark job: `land.py` on a plan of mode `redrive`, through spark-submit, and Kafka is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit.audits import balanced
from tests.dirty.redrives import mend, odd, once
from tests.integration.submitting import by_submit
from tests.world import World, make_pipeline, record
from tidegate.adapters.dirty_rows import DirtyProcess
from tidegate.workflow.dirty import redrive, rehearsal


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    pipeline = make_pipeline(f"file://{tmp_path}/lake/readings")
    made = World(tmp_path, pipeline)
    yield made
    made.close()


def test_spark_reads_dirty_files(world: World) -> None:
    for number in range(2):
        for partition in (0, 1):
            records = [odd(f"{i}", 0.1) if i % 2 else record(f"{i}", 0.2) for i in range(50)]
            world.produce(*records, b"never", partition=partition)
        world.ingest(f"r{number}")
    mend(world)
    ctx = world.context()
    said: list[str] = []
    ctx.launcher = by_submit(said.append)
    with DirtyProcess() as reader:
        tried = rehearsal.rehearse(ctx, reader)
    assert [(c.rows, c.readable) for c in tried.changes] == [(100, 100), (4, 0)], tried
    assert (tried.rows["data"], tried.rows["dirty"]) == (100, 4)
    said.clear()
    redrive.plan(ctx, "redrive 1")
    found = redrive.carry_out(ctx, "redrive 1")
    assert (found.rows, found.data, found.dirty) == (104, 100, 4), said
    assert any("read 104 records, wrote 104 rows" in line for line in said), said
    world.close()
    once(world)
    balanced(world)
