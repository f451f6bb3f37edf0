"""Cases of event time where the engine's routing matters: what moves a watermark, what is late, what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import HOUR, T0, TOPIC, World, record, window
from tidegate.core.base.errors import NotReady
from tidegate.core.source.port import LogState
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import global_watermark, watermarks
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive

MINUTE, DAY = 60_000, 24 * HOUR
YEAR = 365 * 24


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """At T0, live: events are as old as the clock."""
    world = World(tmp_path)
    world.clock.advance(-100 * HOUR)
    world.change_spec(windows=replace(world.pipeline.windows, idle="clock", watermark_delay_ms=30 * MINUTE))
    yield world
    world.close()


def go_to(world: World, hour: float) -> None:
    world.clock.advance(T0 + round(hour * HOUR) - world.clock.now_ms())


def ready(world: World, hour: int) -> Certificate:
    return archive.ready(world.context(), window(hour))


def six_hours(number: int) -> WindowKey:
    return WindowKey(T0 + number * 6 * HOUR, T0 + (number + 1) * 6 * HOUR)


def watermark(world: World) -> float | None:
    """The global one, in hours."""
    facts = world.context().ledger.windows.facts("readings")
    mark = global_watermark(watermarks(world.pipeline.windows, facts))
    return None if mark is None else (mark - T0) / HOUR


@pytest.mark.parametrize("future", ["accept", "dirty"])
def test_a_record_of_next_year_closes_nothing(world: World, future: str) -> None:
    """accept: it is data of its window, which stays open for a year. dirty: it says why."""
    world.change_spec(event_time=replace(world.pipeline.event_time, future=future))
    go_to(world, 2)
    world.produce(record("a", 0.5), record("next year", YEAR), record("b", 1.9))
    world.produce(record("c", 1.9), partition=1)
    world.ingest("r1")
    assert watermark(world) == 1.5, "by the clock"
    assert ready(world, 0).ready
    assert not ready(world, 1).ready
    assert not ready(world, YEAR).ready
    world.archive(0)
    assert world.by_window() == {"00": [(0, 0)]}
    ledger = world.context().ledger
    rows = sum(t.rows for t in ledger.windows.owed("readings", window(YEAR), [1]))  # type: ignore[attr-defined]
    assert rows == (1 if future == "accept" else 0)
    assert world.table("__dirty") == ([] if future == "accept" else [(0, 1)])


def test_kafka_timestamps_of_next_year_close_nothing(world: World) -> None:
    world.change_spec(event_time=replace(world.pipeline.event_time, path=None, future="accept"))
    go_to(world, 2)
    for at in (0.5, YEAR, 1.9):
        world.kafka.append(TOPIC, 0, b'{"id": "a"}', timestamp_ms=T0 + round(at * HOUR))
    world.kafka.append(TOPIC, 1, b'{"id": "b"}', timestamp_ms=T0 + round(1.9 * HOUR))
    world.kafka.append(TOPIC, 1, b'{"id": "none"}', timestamp_ms=-1)
    world.ingest("r1")
    assert watermark(world) == 1.5, "by the clock"
    world.archive(0)
    assert world.by_window() == {"00": [(0, 0)]}
    assert world.table("__dirty") == [(1, 1)]


def test_rows_without_a_usable_event_time_move_nothing(world: World) -> None:
    go_to(world, 2)
    world.produce(record("a", 1.9))
    world.produce({"id": "b", "at": "soon"}, {"id": "c"}, {"id": "d", "at": None}, b"{", partition=1)
    world.ingest("r1")
    facts = world.context().ledger.windows.facts("readings")
    assert facts.partitions[1].max_event_ms is None
    assert facts.partitions[1].advanced_ms == world.clock.now_ms()
    assert len(world.table("__dirty")) == 4
    assert ready(world, 0).ready, "partition 1 is drained, and what is dirty belongs to no window"


def test_a_row_before_windows_start_is_late_and_counts(world: World) -> None:
    go_to(world, 2)
    world.change_spec(windows=replace(world.pipeline.windows, idle="wait"))
    world.produce(record("a", 1.9))
    world.produce(record("old", -1.0), partition=1)
    world.ingest("r1")
    assert world.table("__late") == [(1, 0)]
    assert ready(world, 0).blockers == (1,)
    assert "last event 2013-01-04T23:00Z" in ready(world, 0).reason


def test_an_oldest_possible_event_breaks_nothing(world: World) -> None:
    """Its watermark, with a long delay, is before the year 1."""
    world.change_spec(windows=replace(world.pipeline.windows, idle="wait", watermark_delay_ms=30 * DAY))
    first = -62_135_596_800_000 + 2 * DAY
    world.produce({"id": "oldest", "at": first})
    world.produce(record("a", -0.1), partition=1)
    world.ingest("r1")
    assert world.table("__late") == [(0, 0), (1, 0)]
    assert ready(world, 0).blockers == (0, 1)
    world.produce(record("b", -0.05))
    world.ingest("r2")


def test_a_partition_that_is_added_later(world: World) -> None:
    go_to(world, 2)
    for p in (0, 1):
        world.produce(record(f"{p}", 1.9), partition=p)
    world.ingest("r1")
    world.kafka.add_partitions(TOPIC, 3)
    assert ready(world, 0).ready, "nobody has met it"
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=3))
    world.produce(record("x", 1.95), record("y", 2.9), partition=2)
    for p in (0, 1):
        world.produce(record(f"{p}+", 2.95), partition=p)
    go_to(world, 3)
    world.ingest("r2")
    blocked = ready(world, 1)
    assert blocked.blockers == (2,)
    assert "more is waiting to be ingested" in blocked.reason
    with pytest.raises(NotReady):
        world.archive(1)
    world.ingest("r3")
    world.archive(1)
    assert world.by_window()["01"] == [(0, 0), (1, 0), (2, 0)]


def test_a_topic_that_is_sent_again(world: World) -> None:
    """Rows of closed hours are late, those of open ones are data again; no hour closes by it."""
    go_to(world, 2)
    sent = [record("a", 0.2), record("b", 1.2), record("c", 1.9)]
    for p in (0, 1):
        world.produce(*sent, partition=p)
    world.ingest("r1")
    world.archive(0)
    for run, clock in ((2, 2.3), (3, 2.9)):
        go_to(world, clock)
        for p in (0, 1):
            world.produce(*sent, partition=p)
        world.ingest(f"r{run}")
        assert (watermark(world) or 0) < 2, "nothing new was sent"
    assert world.table("__late") == [(0, 3), (0, 6), (1, 3), (1, 6)]
    assert not ready(world, 1).ready


def test_the_first_start_of_a_week(world: World) -> None:
    """Capped batches over uneven partitions; every day that is ready is closed at once, and nothing is ever late."""
    spec = world.pipeline
    world.change_spec(
        windows=replace(spec.windows, size_ms=DAY),
        partition_by=("date", "site"),
        ingest=replace(spec.ingest, max_records=25),
    )
    world.kafka.add_partitions(TOPIC, 4)
    go_to(world, 7 * 24)
    world.produce(*[record(f"a{i}", i * 3) for i in range(56)])
    world.produce(*[record(f"b{i}", i * 1.5) for i in range(112)], partition=1)
    world.produce(record("c", 100), partition=2)
    closed, run = 0, 0
    days = [replace(window(0), start_ms=T0 + d * DAY, end_ms=T0 + (d + 1) * DAY) for d in range(7)]
    while run < 30:
        run += 1
        if world.ingest(f"r{run}") is None:
            if closed == 6:
                break
            world.clock.advance(HOUR)  # then partition 2, whose only record was old, counts as idle
        if run == 3:
            assert {2, 3} <= set(archive.ready(world.context(), days[4]).blockers), "no clock for what is so old"
        while closed < 7 and archive.ready(world.context(), days[closed]).ready:
            archive.publish(world.context(), days[closed])
            closed += 1
        world.clock.advance(MINUTE)
    assert closed == 6, "the last day has not passed"
    assert world.table("__late") == []
    assert len(world.table()) == 6 * (8 + 16) + 1


def test_a_source_that_stopped_for_a_day(world: World) -> None:
    """What it kept comes first, a little at a time: every window takes its rows, and none is late."""
    world.change_spec(windows=replace(world.pipeline.windows, size_ms=6 * HOUR))
    go_to(world, 1)
    for p in (0, 1):
        world.produce(record(f"{p}", 0.95), partition=p)
    world.ingest("r1")
    closed, run = 0, 1
    for minute in range(0, 50, 10):
        go_to(world, 25 + minute / 60)
        for p in (0, 1):
            kept = [record(f"{p}.{minute}.{i}", 1 + minute * 0.48 + i * 2.3) for i in range(2)]
            world.produce(*kept, partition=p)
        run += 1
        world.ingest(f"r{run}")
        while archive.ready(world.context(), part := six_hours(closed)).ready:
            archive.publish(world.context(), part)
            closed += 1
    assert closed == 3, "up to the last event, 22.5 h, less the delay"
    assert world.table("__late") == []


def test_a_plans_clock_is_read_before_kafka_is_asked(world: World) -> None:
    """Else records that come while the broker answers would be older than "drained at that time"."""
    go_to(world, 2)
    look = world.kafka.look

    def slow(topic: str) -> LogState:
        found = look(topic)
        world.clock.advance(5 * MINUTE)
        return found

    world.produce(record("a", 1.9))
    world.kafka.look = slow  # type: ignore[method-assign]
    ctx = world.context()
    ingest.plan(ctx, "r1")
    batch = ctx.ledger.batches.open("readings")
    assert batch is not None
    assert batch.plan.clock_ms == T0 + 2 * HOUR
