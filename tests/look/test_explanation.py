"""`tidegate explain` in words to act on: who blocks, what it lacks, when it is expected, what helps, what is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import HOUR, T0, TOPIC, World, record, window
from tidegate.core.base.plain import to_plain
from tidegate.workflow.batch import ingest
from tidegate.workflow.look.explanation import Explanation, explain
from tidegate.workflow.look.status import glances, status
from tidegate.workflow.publish import archive

MINUTE = 60_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.clock.advance(-100 * HOUR)  # T0
    yield world
    world.close()


def told(world: World, hour: int) -> Explanation:
    ctx = world.context()
    return explain(ctx, ctx.ledger.reads, window(hour))  # type: ignore[attr-defined]


def live(world: World, **windows: object) -> None:
    """Two partitions whose events are as old as the clock, an ingest run every 10 minutes from 00:10 to 02:00."""
    world.change_spec(windows=replace(world.pipeline.windows, watermark_delay_ms=30 * MINUTE, **windows))
    for run in range(1, 13):
        world.clock.advance(10 * MINUTE)
        for p in (0, 1):
            if p == 0 or run <= 6:
                world.produce(record(f"{p}-{run}", run / 6 - 0.01), partition=p)
        world.ingest(f"r{run}")


def test_blocked_by_a_partition_whose_producer_is_idle(world: World) -> None:
    live(world, idle="wait")
    found = told(world, 0)
    assert found.summary == (
        "blocked by partition 1: last event 2013-01-05T00:59:24Z, watermark 2013-01-05T00:29:24Z is 31 min short; "
        "idle since 2013-01-05T01:00Z; expected readiness unknown: the watermark of partition 1 has not moved in the "
        "last 60 min"
    )
    assert "partition 1 needs a later record" in found.next_step
    assert not found.published


def test_a_drained_partition_is_not_idle_while_records_wait_in_kafka(world: World) -> None:
    live(world, idle="wait")
    for n in range(3):
        world.produce(record(f"new-{n}", 3.5), partition=1)
    world.clock.advance(2 * HOUR)

    def asked(hour: int) -> Explanation:
        ctx = world.context()
        return explain(ctx, ctx.ledger.reads, window(hour), world.kafka.look(TOPIC))  # type: ignore[attr-defined]

    found = asked(0)
    assert "is 31 min short; 3 records wait there that no batch has read;" in found.summary
    assert "idle since" not in found.summary
    wait = "records wait: 3 in partition 1; "
    assert found.next_step == f"{wait}readings.ingest has no schedule: airflow dags trigger readings.ingest"
    world.change_spec(ingest=replace(world.pipeline.ingest, schedule="@hourly"))
    assert asked(0).next_step == (
        f"{wait}the next run of readings.ingest reads them; no batch has landed for 2.0 h: is it paused, or failing? "
        "Look at its runs"
    )
    ledger = world.context().ledger
    ledger.pauses.pause("readings", ["ingest"], "no power", None, None)
    assert asked(0).next_step.startswith(f"{wait}readings.ingest is paused on purpose since 2013-01-05T04:00Z by ")
    assert asked(0).next_step.endswith(": no power; to go on: tidegate unpause readings --only ingest")
    assert "idle since" in told(world, 0).summary, "nobody has asked Kafka"


def test_blocked_and_expected_by_its_pace(world: World) -> None:
    live(world, idle="clock")
    found = told(world, 1)
    assert found.forecast is not None
    assert found.forecast.at_ms == T0 + 2 * HOUR + 30 * MINUTE + 36_000
    assert found.summary.startswith("blocked by 2 of 2: partition 0: last event 2013-01-05T01:59:24Z")
    assert found.summary.endswith("expected ready 2013-01-05T02:30:36Z (by the pace of partition 0 in the last 60 min)")
    assert to_plain(found)["forecast"]["partition"] == 0
    assert "nothing if later records are to come" in found.next_step


def test_blocked_by_an_open_transaction(world: World) -> None:
    live(world, idle="clock")
    world.kafka.begin(TOPIC, 1)
    world.produce(record("held", 1.9), partition=1)
    world.clock.advance(HOUR)
    world.produce(record("on", 2.99))
    world.ingest("r")
    found = told(world, 1)
    assert found.summary.startswith(
        "blocked by partition 1: an open transaction holds it since 2013-01-05T03:00Z, from offset 6 on; expected "
        "readiness unknown: the open transaction of partition 1"
    )
    assert found.next_step.startswith("nothing yet: ")
    world.clock.advance(15 * MINUTE)
    assert "kafka-transactions.sh find-hanging" in told(world, 1).next_step


def test_blocked_by_a_backlog(world: World) -> None:
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=4))
    world.clock.advance(10 * HOUR)
    world.produce(*[record(f"a{i}", i / 10) for i in range(40)])
    world.ingest("r1")
    assert "more is waiting to be ingested" in told(world, 0).summary
    assert (
        told(world, 0).next_step == "nothing if readings.ingest is running: it still has to read partition 0 to its end"
    )
    world.clock.advance(5 * MINUTE)
    world.ingest("r2")
    found = told(world, 0)
    assert found.forecast is not None
    assert found.forecast.at_ms == world.clock.now_ms() + 16 * MINUTE + 15_000, "0.4 h in 5 minutes, 1.3 h to go"


def test_nothing_has_landed_yet(world: World) -> None:
    found = told(world, 0)
    assert found.summary == "not ready: no batch has landed yet: run the ingest DAG (an empty topic has none)"
    assert found.forecast is None


def test_the_first_batch_is_on_its_way(world: World) -> None:
    """Nobody is told to run what is running, on any screen."""
    world.produce(record("a", 0.1), record("b", 3.1))
    ctx, steps = world.context(), {
        "PLANNED": (ingest.plan, "is planned, and about to be written"),
        "WRITING": (lambda c, run: c.ledger.batches.take(c.ledger.batches.open(c.name), "0" * 32), "is being written"),
        "SEALED": (ingest.write, "is written, and about to land"),
    }  # fmt: skip
    for state, (step, words) in steps.items():
        step(ctx, "r1")
        reason = f"no batch has landed yet: batch 1 {words} ({state})"
        assert told(world, 0).summary == f"not ready: {reason}"
        assert archive.ready(ctx, window(0)).reason == reason
        waits = status(ctx, ctx.ledger.reads, None).next_window
        reads, now_ms = ctx.ledger.reads, world.clock.now_ms()
        glance = glances([world.pipeline], {}, reads, now_ms)[ctx.name]
        assert waits is not None
        assert glance.next_window is not None
        assert waits.reason == glance.next_window.reason == reason
    batch = ctx.ledger.batches.open(ctx.name)
    assert batch is not None
    ctx.ledger.batches.block(batch, "odd")
    assert archive.ready(ctx, window(0)).reason.endswith("batch 1 is SEALED, and waits for somebody")


def test_a_published_window_says_what_it_rests_on(world: World) -> None:
    live(world, idle="clock")
    world.archive(0)
    world.produce(record("late", 0.4), partition=1)
    world.ingest("late")
    found = told(world, 0)
    assert found.published
    assert found.grounds is not None
    assert (found.grounds.rows, len(found.grounds.batches), found.grounds.closing_batch) == (12, 6, 13)
    assert [(p.partition, p.rows, p.first, p.last) for p in found.grounds.partitions] == [(0, 6, 0, 5), (1, 6, 0, 5)]
    assert found.forecast is None
    assert found.view.generations[0].digest
