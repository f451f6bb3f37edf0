"""A range is read a second time, by a replay or by a new attempt of its batch: it must show the same records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import BatchRefused, ReplayRefused
from tidegate.core.spec.pipeline import Column, DirtyLimits
from tidegate.workflow.batch import ingest
from tidegate.workflow.replay import replay


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def source(world: World, **changes: str) -> None:
    world.change_spec(source=replace(world.pipeline.source, **changes))


def other_columns(world: World) -> None:
    """A replay then has something new to publish, if it may."""
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))


def published_with_gaps(world: World) -> None:
    """Hour 0 holds offsets 0, 1, 4 and 5 of partition 0; 2 and 3 are gaps, 6 is late, 7 dirty, 8 another hour's."""
    source(world, gaps="allow")
    world.produce(record("a", 0.1), record("b", 0.2))
    world.kafka.skip(TOPIC, 0, 2)
    world.produce(record("c", 0.3), record("d", 0.4), record("late", -5), b"dirty", record("e", 4.0))
    world.produce(record("f", 4.0), partition=1)
    world.ingest("r1")
    assert world.archive(0).rows == 4


def generation(world: World) -> int | None:
    return world.context().ledger.windows.get("readings", window(0)).current


# ---------------------------------------------------------------- replays


def test_one_record_gone_and_another_come_back_is_refused_though_the_sums_agree(world: World) -> None:
    published_with_gaps(world)
    other_columns(world)
    world.kafka.compact(TOPIC, 0, 1)
    world.kafka.put_back(TOPIC, 0, 3, b'{"id": "x", "site": "a", "at": 1357344060000, "value": 1}')
    with pytest.raises(ReplayRefused, match=r"batch 1, partition 0: records at offsets \[3, 4\), where an earlier"):
        world.replay(0)
    assert generation(world) == 1
    assert world.table() == [(0, 0), (0, 1), (0, 4), (0, 5)]


def test_a_replay_with_the_same_gaps_is_published(world: World) -> None:
    published_with_gaps(world)
    other_columns(world)
    assert world.replay(0).generation == 2
    assert world.table() == [(0, 0), (0, 1), (0, 4), (0, 5)]


def test_compaction_of_what_the_hour_does_not_hold_changes_nothing(world: World) -> None:
    """The span of the hour's rows reaches over records of other kinds, which may go."""
    published_with_gaps(world)
    world.produce(record("g", 0.5, "late too"))
    other_columns(world)
    world.kafka.compact(TOPIC, 0, 6, 7, 8)
    assert world.replay(0).generation == 2


def test_compaction_of_a_row_refuses_the_replay_and_says_what_is_gone(world: World) -> None:
    published_with_gaps(world)
    other_columns(world)
    world.kafka.compact(TOPIC, 0, 4)
    with pytest.raises(ReplayRefused, match=r"owes 4 rows, the topic gives 3 \(nothing any more at \[4, 5\)\)"):
        world.replay(0)
    assert generation(world) == 1


def test_a_record_that_vanished_between_rows_is_refused_where_gaps_are_forbidden(world: World) -> None:
    world.produce(record("a", 0.1), record("other hour", 2.0), record("b", 0.2), record("c", 4.0))
    world.ingest("r1")
    world.archive(0)
    other_columns(world)
    world.kafka.compact(TOPIC, 0, 1)
    with pytest.raises(ReplayRefused, match=r"no record any more at offsets \[1, 2\).*source.gaps: allow"):
        world.replay(0)
    source(world, gaps="allow")
    assert world.replay(0).generation == 3, "2 was given up"


def test_a_replay_reads_with_the_isolation_of_its_batches(world: World) -> None:
    """Aborted records that a batch was planned to read are rows; today's read_committed must not make them vanish."""
    source(world, gaps="allow", isolation="read_uncommitted")
    world.kafka.isolation = "read_uncommitted"
    world.kafka.begin(TOPIC, 0)
    world.produce(record("aborted", 0.1))
    world.kafka.abort(TOPIC, 0)
    world.produce(record("b", 4.0))
    world.ingest("r1")
    assert world.archive(0).rows == 1
    source(world, isolation="read_committed")
    world.kafka.isolation = "read_committed"
    other_columns(world)
    assert world.replay(0).generation == 2
    assert world.table() == [(0, 0)]


def test_a_topic_recreated_while_a_replay_reads_it_publishes_nothing(world: World) -> None:
    """R6, for the second reading: the new topic may well have records at the same offsets."""
    published_with_gaps(world)
    other_columns(world)
    ctx = world.context()
    run = ctx.launcher.run

    def then_recreate(plan_path: str) -> None:
        run(plan_path)
        world.kafka.create(TOPIC, 2)
        world.produce(*[record(str(i), 0.1) for i in range(20)])

    ctx.launcher.run = then_recreate  # type: ignore[method-assign]
    with pytest.raises(ReplayRefused, match="recreated.*id-2.*id-1"):
        replay.replay(ctx, window(0))
    assert generation(world) == 1


def test_a_log_that_lost_its_newest_records_refuses_the_replay_with_numbers(world: World) -> None:
    published_with_gaps(world)
    other_columns(world)
    world.kafka.truncate(TOPIC, 0, 5)
    with pytest.raises(ReplayRefused, match=r"offsets \[5, 6\) are past the end of the log"):
        world.replay(0)


# ---------------------------------------------------------------- attempts of one batch


def gaps(world: World) -> list[tuple[int, int]]:
    return [(i.start, i.end) for i in world.context().ledger.batches.gaps("readings", 1)[0]]


def refused_once(world: World) -> None:
    """Attempt 1 of batch 1 is complete and refused for its dirty record; the next try would take it."""
    source(world, gaps="allow")
    world.change_spec(dirty=DirtyLimits(max_count=0, max_ratio=None))
    world.produce(record("a", 0.1))
    world.kafka.skip(TOPIC, 0, 2)
    world.produce(record("b", 0.2), b"dirty")
    with pytest.raises(BatchRefused, match="dirty"):
        world.ingest("r1")
    world.change_spec(dirty=DirtyLimits(max_count=5, max_ratio=None))


def test_an_attempt_that_finds_records_where_an_earlier_one_found_none_is_not_sealed(world: World) -> None:
    refused_once(world)
    world.kafka.put_back(TOPIC, 0, 2, b'{"id": "x", "site": "a", "at": 1357344060000, "value": 1}')
    world.kafka.compact(TOPIC, 0, 3)
    with pytest.raises(BatchRefused, match=r"partition 0: records at offsets \[2, 3\), where an earlier reading"):
        ingest.write(world.context(), "r1")
    # two readings that agree are believed
    assert world.ingest("r1") == 1
    assert gaps(world) == [(1, 2), (3, 4)]


def test_an_attempt_may_find_more_gaps_than_an_earlier_one_where_they_are_allowed(world: World) -> None:
    refused_once(world)
    world.kafka.compact(TOPIC, 0, 0)
    assert world.ingest("r1") == 1
    assert gaps(world) == [(0, 3)]
