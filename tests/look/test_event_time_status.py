"""`tidegate status` warns of topics whose windows hold although they are read to their end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import HOUR, TOPIC, World, record, window
from tidegate.core.look.status import PipelineStatus
from tidegate.workflow.look.status import status


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.change_spec(windows=replace(world.pipeline.windows, idle="clock"))
    yield world
    world.close()


def now(world: World, ask_kafka: bool = True) -> PipelineStatus:
    ctx = world.context()
    topic = ctx.source.look(TOPIC) if ask_kafka else None
    return status(ctx, ctx.ledger.reads, topic)  # type: ignore[attr-defined]


def test_a_load_of_old_data_with_idle_clock(world: World) -> None:
    """Events are 4 days old: the clock does not stand in, windows hold, ingest goes on."""
    world.produce(record("a", 0.1), record("b", 3.1))
    world.ingest("r1")
    world.produce(record("c", 3.2))
    assert world.ingest("r2") == 2
    (found,) = now(world).concerns
    assert found.what == (
        "the newest event was 4.0 days old when it was read: windows.idle: clock does not stand in for idle "
        "partitions, and windows hold"
    )
    assert "windows.idle: follow" in found.advice
    world.change_spec(windows=replace(world.pipeline.windows, idle="follow"))
    assert now(world).concerns == ()


def test_a_silent_topic(world: World) -> None:
    world.clock.advance(-90 * HOUR)  # 10:00 of the first day
    for p in (0, 1):
        world.produce(record(f"{p}", 9.9), partition=p)
    world.ingest("r1")
    world.clock.advance(HOUR - 1)
    assert [c for c in now(world).concerns if "silent" in c.what] == []
    world.clock.advance(1)
    (found,) = [c for c in now(world).concerns if "silent" in c.what]
    assert found.what == "the topic has been silent since 2013-01-05T10:00Z, for 60 min: windows hold"
    assert "windows.on_silence: close" in found.advice
    assert [c for c in now(world, ask_kafka=False).concerns if "silent" in c.what] == [], "nobody asked Kafka"
    world.produce(record("new", 10.9))
    assert [c for c in now(world).concerns if "silent" in c.what] == [], "it is not: nobody has read it"


def test_what_waits_is_not_what_is_published(world: World) -> None:
    """A watermark that falls back behind published windows does not make them wait again."""
    world.clock.advance(-90 * HOUR)
    world.change_spec(windows=replace(world.pipeline.windows, on_silence="close", watermark_delay_ms=HOUR // 2))
    world.produce(record("a", 0.1))
    for p in (0, 1):
        world.produce(record(f"{p}", 9.9), partition=p)
    world.ingest("r1")
    world.clock.advance(2 * HOUR)
    world.ingest("r2")
    for hour in range(11):
        world.archive(hour)
    world.produce(record("behind", 10.2))
    world.ingest("r3")
    waits = now(world).next_window
    assert waits is not None
    assert waits.window == window(11)
    assert waits.watermark_ms is not None
    assert waits.watermark_ms < window(10).start_ms
