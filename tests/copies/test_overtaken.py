"""Tasks of a copy that others overtake, reads that come too late, copies that are given up: each rule by its trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.copies.checks import merged_once
from tests.copies.worlds import COPYING, CopyWorld
from tests.hooks import Died, Hook, Once, die
from tests.mirror.worlds import event
from tidegate.core.base.errors import JobFailed
from tidegate.core.copy.rounds import Chunk, ChunkState
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.balance import imbalance
from tidegate.core.mirror.copied import Complete, Copied
from tidegate.workflow.apply.copies import same_for_a_copy
from tidegate.workflow.apply.taking_back import take_back
from tidegate.workflow.copy.copy import Read

DAY = 86_400_000
KEPT = COPYING.replace("buckets: 3", "buckets: 3, tombstones: 2d")
LOG = 2**40


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    with_events = begun(tmp_path)
    yield with_events
    with_events.close()


def begun(folder: Path, yaml: str = COPYING) -> CopyWorld:
    """Ten rows, of which the third has an event that is merged."""
    made = CopyWorld(folder, yaml)
    made.source_table.rows = {key: f"old {key}" for key in range(1, 11)}
    made.source_table.set(3, "first event")
    made.deliver()
    made.apply()
    return made


def hooked(world: CopyWorld, port: str, **steps: Callable[..., object]) -> None:
    """`before_<method>` and `after_<method>` of the port run a step, in contexts from now on."""
    parts: dict[str, dict[str, Any]] = {"before": {}, "after": {}}
    for name, step in steps.items():
        when, _, method = name.partition("_")
        parts[when][method] = step
    world.wrap = lambda name, real: Hook(real, **parts) if name == port else real


def calm(world: CopyWorld) -> None:
    world.wrap = lambda name, port: port


def chunks(world: CopyWorld, round_: int = 1) -> list[Chunk]:
    found = list(world.context().ledger.copies.chunks(world.pipeline.name, round_))
    world.close()
    return found


# ---------------------------------------------------------------- attempts (R9)


def test_an_attempt_that_was_overtaken_is_not_accepted(world: CopyWorld) -> None:
    """The second one has begun, and has read nothing yet: what the first one has read is in another directory."""

    def second() -> None:
        hooked(world, "launcher", before_run=die)
        with pytest.raises(Died):
            world.read()
        calm(world)

    hooked(world, "copies", before_accept=Once(second))
    assert world.read() == Read(left=True), "the rest is left to it"
    assert {(c.epoch, c.state) for c in chunks(world)} == {(2, ChunkState.CUT)}
    assert world.mirror() == world.source_table.rows


def test_two_tasks_read_at_once(world: CopyWorld) -> None:
    """The second one reads all between two calls of the first one, which has nothing left then."""
    hooked(world, "copies", before_attempt=Once(lambda: (calm(world), world.read())))
    world.read()
    assert {(c.epoch, c.state) for c in chunks(world)} == {(1, ChunkState.READ)}
    assert world.mirror() == world.source_table.rows


def test_a_second_task_begins_with_what_the_first_one_does_not_read(tmp_path: Path) -> None:
    """A command beside the DAG: each chunk is read once."""
    world = CopyWorld(tmp_path)
    world.source_table.rows = {key: f"old {key}" for key in range(1, 100)}
    world.source_table.set(3, "first event")
    world.deliver()
    world.apply()

    def second() -> None:
        calm(world)
        world.read()

    hooked(world, "launcher", before_run=Once(second))
    world.read()
    assert {(c.epoch, c.state) for c in chunks(world) if c.number > 8} == {(1, ChunkState.READ)}
    assert world.mirror() == world.source_table.rows
    world.close()


# ---------------------------------------------------------------- merges (S8)


def test_s8_chunks_that_another_task_has_merged_are_not_merged_again(world: CopyWorld) -> None:
    """The batches in the table are as before: what the table says of copies is compared, too."""
    world.read()
    hooked(world, "copies", after_chunks=Once(lambda: (calm(world), world.apply())))
    world.apply()
    merged_once(world)
    assert world.rows() == world.source_table.rows
    assert imbalance(world.standing()) is None


def test_s5_a_sweep_needs_all_chunks_still(world: CopyWorld) -> None:
    """Somebody takes the table back, to the same batches and fewer chunks, while a task is about to sweep."""
    world.read()
    hooked(world, "applies", before_begin=Once(die, at=5))
    with pytest.raises(Died):
        world.apply(most_events=1)
    calm(world)
    assert [r.chunks for r in world.standing().copied.rounds] == [((1, 4),)]
    first = world.loaded().metadata.snapshots[1].snapshot_id
    world.close()

    def back() -> None:
        calm(world)
        take_back(world.context(), str(first), "test")

    hooked(world, "copies", after_chunks=Once(back))
    world.apply(most_events=1, go_on=lambda: False)
    (inside,) = world.standing().copied.rounds
    assert (inside.swept, inside.chunks) == (False, ((1, 2),))
    assert world.mirror() == world.source_table.rows


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"copied": Copied(high=(1, 0, 0))}, False),
        ({"purged_below": (1, 0, 0)}, False),
        ({"begins": (1, 0, 0)}, False),
        ({"copied": Copied(complete=Complete((1, 0)))}, True),
        ({"snapshot": "12", "attempt": "1-1.2-aa", "rows": 5}, True),  # others have compacted it
    ],
)
def test_s7_s8_what_a_commit_of_a_copy_is_decided_by(change: dict[str, Any], same: bool) -> None:
    """A purge in between may make a chunk too old, and another task has it read again then."""
    assert same_for_a_copy(replace(Told(), **change), Told()) == same


# ---------------------------------------------------------------- reads that are too old


def test_s7_a_chunk_that_is_older_than_a_purge_is_read_again(tmp_path: Path) -> None:
    """A replica that lags gives a row back whose tombstone is gone, and rows that nobody would insert any more."""
    world = begun(tmp_path, KEPT)
    source = world.source_table
    world.mirror()
    lagging, low = dict(source.rows), source.end
    source.set(5, None)
    source.set(6, "newer")
    world.deliver()
    world.apply()
    world.clock.advance(5 * DAY)
    source.set(9, "five days later")
    world.deliver()
    assert world.apply().purged == 1
    here, source.rows, end, source.end = source.rows, lagging, source.end, low + 5
    source.sneak(12, "without an event")
    world.again()
    with pytest.raises(JobFailed, match="no chunk was accepted: its LOW is below the"):
        world.read()
    source.rows, source.end = here, end
    source.sneak(12, "without an event")
    assert world.mirror() == source.rows
    assert world.standing().below_purge == 0
    world.close()


def test_s5_no_copy_is_read_below_one_that_was_before_it(world: CopyWorld) -> None:
    """The table lacks the first copy while the second one is read, from a replica that lags."""
    source = world.source_table
    first = world.loaded().metadata.snapshots[-1].snapshot_id
    source.set(20, "an event")
    world.deliver()
    world.mirror()
    take_back(world.context(), str(first), "test")
    world.close()
    world.again()
    here, source.end = source.end, source.end - 5
    world.read()
    assert {c.state for c in chunks(world, 2)} == {ChunkState.READ}
    world.apply()
    assert {c.state for c in chunks(world, 2)} == {ChunkState.CUT}
    source.end = here
    assert world.mirror() == source.rows
    whole = world.standing().copied.whole
    assert whole is not None
    assert whole.number == 2


def test_s4_the_topic_begins_before_the_first_chunk(world: CopyWorld) -> None:
    """A replica that lags behind the topic's beginning."""
    source = world.source_table
    here, source.end = source.end, source.end - 50
    with pytest.raises(JobFailed, match="no chunk was accepted: its LOW is before the topic begins"):
        world.read()
    source.end = here
    assert world.mirror() == source.rows


# ---------------------------------------------------------------- copies that are given up, and sweeps


def test_s6_what_was_read_of_a_copy_that_was_given_up_stays_out(world: CopyWorld) -> None:
    world.read()
    world.again()
    world.apply()
    assert world.standing().copied.rounds == ()
    assert world.mirror() == world.source_table.rows
    assert [r.number for r in world.standing().copied.rounds] == [2]
    assert [c.state for c in chunks(world, 1)] == [ChunkState.READ] * 4


def test_s5_a_copy_that_is_read_in_part_is_not_swept(world: CopyWorld) -> None:
    source = world.source_table
    source.rows |= {key: f"more {key}" for key in range(20, 60)}
    world.send(event(50, "more 50", source.end - 30))  # older than the copy, and of a range that is not read yet
    world.runs += 1
    world.ingest(f"run {world.runs}")
    world.read(go_on=lambda: False)
    told = world.apply().told
    assert told.copied.whole is None
    assert world.rows()[50] == "more 50"
    assert world.mirror() == source.rows


def test_s5_the_sweep_leaves_what_was_read_first(world: CopyWorld) -> None:
    """Each chunk has a LOW of its own, the smallest counts."""
    source, keys = world.source_table, iter(range(100, 200))
    source.during = lambda: source.set(next(keys), "meanwhile")
    world.read()
    source.during = lambda: None
    lows = [c.low for c in chunks(world)]
    assert lows == sorted(set(lows))  # type: ignore[type-var]
    world.apply()
    assert {k: v for k, v in world.rows().items() if k < 100} == {k: v for k, v in source.rows.items() if k < 100}
