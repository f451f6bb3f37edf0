"""What the `ready` and `publish` tasks show of a certificate: plain, bounded, with what is expected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import HOUR, TOPIC, World, record, window
from tidegate.workflow.look import certificates
from tidegate.workflow.publish import archive


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def shown(world: World, hour: int) -> certificates.Shown:
    ctx = world.context()
    found = certificates.readiness(ctx, archive.ready(ctx, window(hour)))
    json.dumps(found.plain)
    return found


def test_what_ready_shows_while_it_waits(world: World) -> None:
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=10))
    world.clock.advance(-90 * HOUR)
    world.produce(*[record(f"{i}", i / 10) for i in range(30)])
    world.ingest("r1")
    world.clock.advance(HOUR)
    world.ingest("r2")
    found = shown(world, 1)
    assert found.text == (
        "readings 2013-01-05T01:00Z: blocked: partition 0: last event 2013-01-05T01:54Z, watermark "
        "2013-01-05T00:54Z is 66 min short; more is waiting to be ingested; partition 1: never had a record with an "
        "event time, watermark 2013-01-05T00:54Z (idle: follow) is 66 min short; expected ready 2013-01-05T12:06Z "
        "(by the pace of partition 0 in the last 60 min)"
    )
    assert found.plain["blocked_by"] == found.plain["partitions"] == 2
    assert found.plain["expected"] == "2013-01-05T12:06Z"
    assert found.plain["blockers"][0] == {
        "partition": 0,
        "watermark": "2013-01-05T00:54Z",
        "newest_event": "2013-01-05T01:54Z",
        "last_read": "2013-01-05T11:00Z",
        "drained": False,
        "open_transaction_since": None,
    }


def test_what_ready_shows_of_a_ready_window(world: World) -> None:
    world.produce(record("a", 0.1), record("b", 3.1))
    world.ingest("r1")
    found = shown(world, 0)
    assert found.plain["ready"]
    assert (found.plain["blockers"], found.plain["expected"]) == ([], None)
    assert found.text.endswith("has passed the window's end 2013-01-05T01:00Z")


def test_before_the_first_batch(world: World) -> None:
    found = shown(world, 0)
    assert "no batch has landed yet" in found.text
    assert found.plain["watermark"] is None


def test_lists_are_bounded(world: World) -> None:
    world.kafka.create(TOPIC, 30)
    world.change_spec(windows=replace(world.pipeline.windows, idle="wait"))
    for p in range(30):
        world.produce(record(f"{p}", 0.1), partition=p)
    world.ingest("r1")
    found = shown(world, 0).plain
    assert (len(found["blockers"]), found["blocked_by"]) == (certificates.MOST, 30)
    for p in range(30):
        world.produce(record(f"{p}+", 3.1), partition=p)
    world.ingest("r2")
    told = world.archive(0)
    plain = certificates.published(world.context(), window(0), told.generation)
    json.dumps(plain)
    assert (len(plain["partitions"]), plain["kafka_partitions"], plain["rows"]) == (certificates.MOST, 30, 30)
    assert (plain["batches"], plain["first_batch"], plain["last_batch"], plain["late_from_batch"]) == (1, 1, 1, 3)
    assert (plain["digest"], plain["location"], plain["gaps"]) == (told.digest, told.location, 0)
