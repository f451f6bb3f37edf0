"""An hour that is late because it is not ready: told of `archive.sla` after it should have been, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import HOUR, T0, TOPIC, World, record
from tidegate.core.base.instants import iso
from tidegate.core.look.overdue import Concern
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Windows
from tidegate.workflow.look import status as looking
from tidegate.workflow.tell.notices import tell

MINUTE = 60_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.kafka.create(TOPIC, 2, retention_ms=None)
    live(made)
    yield made
    made.close()


def live(world: World, **windows: object) -> None:
    start = Windows(size_ms=HOUR, timezone="UTC", start_ms=T0 + 97 * HOUR, watermark_delay_ms=HOUR, idle="wait")
    world.change_spec(windows=replace(start, **windows))


def concerns(world: World, topic: LogState | None = None) -> list[Concern]:
    """But what is ready and not published."""
    ctx = world.context()
    try:
        found = looking.status(ctx, ctx.ledger.reads, topic).concerns  # type: ignore[attr-defined]
        return [concern for concern in found if concern.kind != "late_window"]
    finally:
        world.close()


def fed(world: World, name: str, hour: float, *partitions: int) -> None:
    for partition in partitions:
        world.produce(record(f"{name}{partition}", hour), partition=partition)
    world.ingest(name)


def go_on(world: World, minutes: int, *partitions: int) -> None:
    """A batch every five minutes, with an event of just now in these partitions."""
    for _ in range(minutes // 5):
        world.clock.advance(5 * MINUTE)
        now_ms = world.clock.now_ms()
        fed(world, f"r{now_ms}", (now_ms - T0) / HOUR, *partitions)


def one_dead(world: World) -> None:
    """At 100:00, where the clock begins, hour 97 has passed; partition 1 is dead from 100:05 on, and 0 goes on."""
    fed(world, "r1", 99.1, 0, 1)
    world.archive(97)
    go_on(world, 5, 0)


def test_an_hour_that_a_dead_partition_holds(world: World) -> None:
    """98 should be ready at 100:00."""
    one_dead(world)
    go_on(world, 25, 0)
    assert concerns(world) == [], "archive.sla is just over"
    go_on(world, 5, 0)
    (found,) = concerns(world)
    assert found.kind == "unready_window"
    said = f"window {iso(T0 + 98 * HOUR)} is not ready 35 min after it should have been: partition 1: last event"
    assert found.what.startswith(said)
    assert found.advice.startswith("partition 1 needs a later record")


def test_an_hour_after_one_that_was_late_has_its_time_from_then(world: World) -> None:
    one_dead(world)
    world.clock.advance(3 * HOUR)
    fed(world, "r2", 100.0, 1)  # hour 98 is ready, and 99 should have been at 101:00
    world.clock.advance(world.pipeline.archive.sla_ms)
    assert concerns(world) == []
    world.clock.advance(MINUTE)
    (found,) = concerns(world)
    assert found.what.startswith(f"window {iso(T0 + 99 * HOUR)} is not ready 31 min after it should have been")


def test_an_ingest_that_is_paused(world: World) -> None:
    one_dead(world)
    world.clock.advance(2 * HOUR)
    (found,) = concerns(world)
    assert found.advice.startswith("no batch has landed for 2.0 h: is readings.ingest paused, or failing? partition 1")


def test_a_paused_ingest_of_a_topic_that_was_read_to_its_end(world: World) -> None:
    live(world, idle="clock")
    fed(world, "r1", 99.1, 0, 1)
    world.archive(97)
    go_on(world, 5, 0, 1)
    world.clock.advance(2 * HOUR)
    (found,) = concerns(world)
    assert found.kind == "unready_window"
    assert "no batch has landed for 2.0 h: is readings.ingest paused" in found.advice


def test_the_clock_of_a_silent_topic_is_waited_for(world: World) -> None:
    live(world, idle="clock", on_silence="close")
    fed(world, "r1", 99.1, 0, 1)
    world.archive(97)
    # hour 98 has passed, too; 99 should be ready at 101:00
    world.clock.advance(HOUR + world.pipeline.windows.topic_silence_ms + world.pipeline.archive.sla_ms)
    assert concerns(world) == []
    world.clock.advance(MINUTE)
    (found,) = concerns(world)
    assert found.kind == "unready_window"


def test_a_load_of_old_data_has_no_such_time(world: World) -> None:
    live(world, idle="follow")
    one_dead(world)
    world.clock.advance(30 * HOUR)
    assert concerns(world) == []


def test_neither_has_the_first_load_while_it_comes_nearer(world: World) -> None:
    for n in range(4):
        fed(world, f"r{n}", 90 + n, 0, 1)
        world.clock.advance(40 * MINUTE)
    assert concerns(world) == []
    world.clock.advance(10 * HOUR)
    (found,) = concerns(world)
    assert found.what.startswith(f"window {iso(T0 + 97 * HOUR)} is not ready")


def test_a_pipeline_that_has_just_begun_is_given_its_time(world: World) -> None:
    fed(world, "r1", 99.1, 0)
    assert concerns(world) == []
    world.clock.advance(world.pipeline.archive.sla_ms + MINUTE)
    (found,) = concerns(world)
    said = (
        f"window {iso(T0 + 97 * HOUR)} is not ready 31 min after it should have been: partition 1: never had a record"
    )
    assert found.what.startswith(said)


def test_it_does_not_cease_while_the_hour_waits(world: World) -> None:
    """Whatever is found out meanwhile: that the topic is silent, that ingest goes on, that Kafka does not answer."""
    live(world, idle="clock")
    fed(world, "r1", 99.1, 0, 1)
    world.archive(97)
    topic = world.kafka.look(TOPIC)
    for minutes in (91, 60, 1800):
        world.clock.advance(minutes * MINUTE)
        assert [c.kind for c in concerns(world, topic)] == ["watermark", "unready_window"]
        assert [c.kind for c in concerns(world)] == ["unready_window"], "nobody knows whether records wait"
    world.produce(record("old", 99.2))
    world.ingest("r2")
    assert "unready_window" in [c.kind for c in concerns(world)]


def test_it_is_one_condition_until_the_hour_is_ready(world: World) -> None:
    got: list[dict[str, str]] = []

    class Channel:
        who = "http://receiver"
        send = staticmethod(got.append)

    def told() -> list[tuple[str, str]]:
        ctx = world.context()
        tell(ctx, ctx.ledger.reads, [Channel()])  # type: ignore[attr-defined, list-item]
        world.close()
        said = [(m["title"], m["status"]) for m in got]
        got.clear()
        return said

    one_dead(world)
    go_on(world, 40, 0)
    assert told() == [("readings: unready window", "raised")]
    go_on(world, 10, 0)
    assert told() == []
    go_on(world, 5, 0, 1)
    assert told() == [("readings: no window is late any more", "resolved")]
