"""Replays of windows that have redriven rows, and of the batch they came from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit.audits import balanced
from tests.dirty.redrives import first_batch, mend, odd, once, redriven
from tests.world import TOPIC, World, record
from tidegate.core.base.errors import ReplayRefused


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_a_replay_has_the_redriven_rows_again(world: World) -> None:
    first_batch(world)
    mend(world)
    redriven(world)
    world.archive(0)
    world.archive(1)
    mend(world, "$.third")
    published = world.replay(0)
    assert (published.generation, published.rows, published.new) == (2, 2, True)
    assert world.by_window() == {"00": [(0, 0), (0, 1)], "01": [(0, 2), (0, 3)]}
    once(world)
    balanced(world)


def test_a_lost_file_with_redriven_rows_is_rebuilt(world: World) -> None:
    first_batch(world)
    mend(world)
    redriven(world)
    world.archive(1)
    for path in (world.folder / "lake/readings/date=2013-01-05/hour=01").rglob("*.parquet"):
        path.unlink()
    assert world.archive(1).new
    assert world.by_window()["01"] == [(0, 2), (0, 3)]
    balanced(world)


def test_a_replay_needs_the_kept_files(world: World) -> None:
    first_batch(world)
    mend(world)
    redriven(world)
    world.archive(0)
    for path in (world.folder / "lake/readings/_tidegate/redriven/1").iterdir():
        path.unlink()
    mend(world, "$.third")
    with pytest.raises(ReplayRefused, match="dirty file lost"):
        world.replay(0)
    assert world.by_window()["00"] == [(0, 0), (0, 1)]


def test_a_window_of_redriven_rows_alone_is_replayed_without_kafka(world: World) -> None:
    """Retention has taken the records: the files have them."""
    world.produce(odd("a0", 0.1), odd("a1", 0.2))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    mend(world)
    redriven(world)
    world.archive(0)
    world.kafka.create(TOPIC, 2)
    mend(world, "$.third")
    assert world.replay(0).rows == 2
    assert world.by_window() == {"00": [(0, 0), (0, 1)]}


def test_a_replay_of_the_first_batch_leaves_its_dirty_rows_dirty(world: World) -> None:
    """They were dirty by its pinned plan; once redriven they are the redrive's alone."""
    first_batch(world)
    world.archive(0)
    mend(world)
    redriven(world)
    assert world.replay(0).rows == 1
    assert world.by_window() == {"00": [(0, 0)]}
    assert world.table("__late") == [(0, 1)]
    once(world)
    balanced(world)
