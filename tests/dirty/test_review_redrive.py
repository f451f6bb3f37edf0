"""Redriven rows in windows that are replayed beside rows of Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit.audits import in_process
from tests.dirty.redrives import mend, odd, redriven
from tests.hooks import Hook
from tests.world import TOPIC, World, record
from tidegate.core.base.errors import CatalogueError, NotReady, TidegateError
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import JobPart, ReplayPlan, isolation_of
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import DIRTY, FileEntry
from tidegate.core.window.lateness import Floor
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.dirty import redrive

ENTRY = FileEntry(
    path="dirty/a",
    kind=DIRTY,
    window_ms=None,
    values=(),
    rows=1,
    bytes=1,
    min_event_ms=None,
    max_event_ms=None,
    checksum=0,
    partitions=(),
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def deep(world: World) -> None:
    world.close()
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process, Depth(coordinates=True))
    world.close()
    assert report.problems == ()
    assert report.balanced


def test_a_recreated_topics_rows_stand_beside_redriven_ones_of_the_old(world: World) -> None:
    """With the same coordinates; Kafka has no record of the old topic any more."""
    world.produce(odd("old0", 0.1), odd("old1", 0.5))
    world.produce(odd("oldz", 1.1), partition=1)
    world.ingest("r1")
    world.kafka.create(TOPIC, 2)
    world.produce(record("new0", 0.2), record("new1", 1.2), record("new2", 1.6))
    world.produce(record("newz", 1.7), odd("newy", 1.8), partition=1)
    world.context().ledger.pipelines.accept_topic("readings", "id-1", "id-2", "test")
    world.ingest("r2")
    mend(world)
    redriven(world, "red1")
    redriven(world, "red2")
    world.produce(record("f", 9), record("f", 9))
    world.produce(record("f", 9), partition=1)
    world.ingest("r3")
    world.archive(0)
    world.archive(1)
    before = world.by_window()
    mend(world, "$.third")
    assert world.replay(0).new
    assert world.replay(1).new
    assert world.by_window() == before
    deep(world)


def test_a_redrives_isolation_is_not_that_of_the_records_between_its_rows() -> None:
    floor, pinned = Floor(0), {"source": {"isolation": "read_uncommitted"}}
    kafka = JobPart(batch_id=1, clock_ms=0, floor=floor, ranges=(OffsetRange(TOPIC, 0, 5, 9),))
    files = JobPart(
        batch_id=2,
        clock_ms=0,
        floor=floor,
        ranges=(OffsetRange(TOPIC, 0, 0, 20),),
        pinned=pinned,
        sources=(Source(1, ENTRY, ()),),
    )
    pipeline = {"source": {"isolation": "read_committed"}}
    for parts in ((kafka, files), (files, kafka)):
        plan = ReplayPlan(
            attempt="a", attempt_dir="d", pipeline=pipeline, bootstrap={}, topic=TOPIC, topic_id="id", parts=parts,
            nonce="nonce",
        )  # fmt: skip
        assert isolation_of(plan, OffsetRange(TOPIC, 0, 6, 8)) == "read_committed"


def test_dirty_rows_whose_table_is_owed_are_not_called_clean(world: World) -> None:
    """Hive is away since the batch landed; a redrive waits for it, and takes them up once it answers."""
    away: list[bool] = [True]
    told: list[str] = []

    def fails(*_: object) -> None:
        if away:
            raise CatalogueError("the endpoint is away")

    def wait(error: TidegateError) -> None:
        told.append(str(error.args[0]))
        away.clear()

    world.wrap = lambda name, port: Hook(port, before={"add_partitions": fails}) if name == "catalogue" else port
    world.produce(odd("a0", 0.1), record("a1", 0.2))
    world.ingest("r1")
    mend(world)
    with pytest.raises(NotReady, match="dirty rows of batch 1 and 0 more are not in the dirty table yet"):
        redrive.plan(world.context(), "red1")
    found = list(redrive.all_of(world.context(), None, wait))
    assert [f.data for f in found] == [1]
    assert told == ["readings: dirty rows of batch 1 and 0 more are not in the dirty table yet"]
    deep(world)
