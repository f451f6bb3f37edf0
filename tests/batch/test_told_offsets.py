"""What the source is told of our offsets, so that its own tools show the lag."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.world import TOPIC, World, record
from tidegate.workflow.batch import ingest

GROUP = ("tidegate-readings", TOPIC)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.produce(record("a", 0.1))
    made.ingest("r1")
    yield made
    made.close()


def cleared(world: World, run: str) -> None:
    """Its land task, once more."""
    ingest.land(world.context(), run)
    world.close()


def test_a_cleared_run_takes_back_nothing_that_later_ones_have_told(world: World) -> None:
    world.produce(record("b", 0.2), record("c", 0.3))
    world.ingest("r2")
    cleared(world, "r1")
    assert world.kafka.groups[GROUP] == {0: 3, 1: 0}


def test_a_cleared_run_of_the_newest_batch_tells_again_what_was_lost(world: World) -> None:
    world.kafka.groups.clear()
    cleared(world, "r1")
    assert world.kafka.groups[GROUP] == {0: 1, 1: 0}


def test_a_cleared_run_of_a_topic_that_is_gone_tells_nothing_of_the_new_one(world: World) -> None:
    old = world.kafka.look(TOPIC).topic_id
    world.context().ledger.pipelines.accept_topic("readings", old, world.kafka.create(TOPIC, 2), "recreated")
    world.kafka.groups.clear()  # they went with the topic
    cleared(world, "r1")
    assert world.kafka.groups == {}
