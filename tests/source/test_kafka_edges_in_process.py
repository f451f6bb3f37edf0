"""What a topic may do between two looks: transactions, partitions, losses, time stamps. The broker is a fake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import HOUR, T0, TOPIC, World, record
from tidegate.core.base.errors import (
    BatchRefused,
    DataLoss,
    JobFailed,
    LogCut,
    NotReady,
    SourceError,
    SourceUnavailable,
)
from tidegate.core.batch.states import Loss, Plan
from tidegate.core.spec.pipeline import EventTime
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.change_spec(source=replace(made.pipeline.source, gaps="allow"))
    yield made
    made.close()


def plan_of(world: World, batch_id: int | None) -> Plan:
    assert batch_id is not None
    return world.context().ledger.batches.get("readings", batch_id).plan


def ranges(world: World, batch_id: int | None) -> list[tuple[int, int, int]]:
    return [(r.partition, r.start, r.end) for r in plan_of(world, batch_id).ranges]


# ---------------------------------------------------------------- transactions


def test_a_hung_transaction_holds_its_partition_from_where_it_begins_and_ingest_goes_on(world: World) -> None:
    world.produce(record("a", 0.1))
    world.kafka.begin(TOPIC, 0)
    world.produce(record("b", 0.2), record("c", 0.3))
    world.produce(record("d", 4.0), partition=1)
    assert ranges(world, world.ingest("r1")) == [(0, 0, 1), (1, 0, 1)]
    world.produce(record("e", 5.0), partition=1)
    assert ranges(world, world.ingest("r2")) == [(1, 1, 2)]
    with pytest.raises(NotReady, match="partition 0: an open transaction holds it since 2013-01-09T04:00Z"):
        world.archive(0)
    world.kafka.commit(TOPIC, 0)
    assert ranges(world, world.ingest("r3")) == [(0, 1, 4)]
    assert world.archive(0).rows == 3


def test_a_transaction_that_opens_when_nothing_else_is_new_is_known_by_one_empty_batch(world: World) -> None:
    """Without it the ledger would go on saying that the partition is drained."""
    world.produce(record("a", 0.1))
    world.produce(record("b", 4.0), partition=1)
    world.ingest("r1")
    world.clock.advance(100 * HOUR)
    world.kafka.begin(TOPIC, 1)
    world.produce(record("c", 0.2), partition=1)
    assert plan_of(world, world.ingest("r2")).records == 0
    facts = world.context().ledger.windows.facts("readings").partitions[1]
    assert (facts.drained, facts.open_transaction_since_ms) == (False, T0 + 200 * HOUR)
    world.clock.advance(HOUR)
    assert world.ingest("r3") is None, "it is known already"
    assert any("open transactions hold" in line and "partition 1 from offset 1 of 2 on" in line for line in world.said)


def test_since_is_of_the_transaction_that_holds_now_not_of_the_first_ever_met(world: World) -> None:
    """A topic that is written by transactions alone has one open at nearly every look."""
    for hour in range(3):
        world.clock.advance(HOUR)
        world.kafka.begin(TOPIC, 0)
        world.produce(record(str(hour), 0.1))
        world.ingest(f"r{hour}")
        world.kafka.commit(TOPIC, 0)
    world.clock.advance(HOUR)
    world.kafka.begin(TOPIC, 0)
    world.produce(record("open", 0.1))
    world.ingest("r4")
    held = world.context().ledger.windows.facts("readings").partitions[0]
    assert held.open_transaction_since_ms == world.clock.now_ms()


def test_a_transaction_that_commits_between_plan_and_read_is_the_next_batchs(world: World) -> None:
    world.produce(record("a", 0.1))
    world.kafka.begin(TOPIC, 0)
    world.produce(record("b", 0.2))
    ingest.plan(world.context(), "r1")
    world.kafka.commit(TOPIC, 0)
    assert ranges(world, world.ingest("r1")) == [(0, 0, 1)]
    assert ranges(world, world.ingest("r2")) == [(0, 1, 3)]


def test_who_reads_uncommitted_plans_into_the_open_transaction(world: World) -> None:
    world.change_spec(source=replace(world.pipeline.source, isolation="read_uncommitted"))
    world.kafka.isolation = "read_uncommitted"
    world.kafka.begin(TOPIC, 0)
    world.produce(record("a", 0.1), record("b", 0.2))
    assert ranges(world, world.ingest("r1")) == [(0, 0, 2)]
    world.kafka.abort(TOPIC, 0)
    assert ranges(world, world.ingest("r2")) == [(0, 2, 3)], "the marker alone"


# ---------------------------------------------------------------- where reading begins


def test_latest_on_an_empty_topic_means_from_now_on(world: World) -> None:
    """Its first records came after the pipeline was there: they are not skipped."""
    world.change_spec(source=replace(world.pipeline.source, start="latest"))
    assert plan_of(world, world.ingest("r1")).records == 0
    world.produce(record("a", 0.1), record("b", 0.2))
    assert ranges(world, world.ingest("r2")) == [(0, 0, 2)]


def test_a_topic_that_is_not_there_yet_is_named_and_nothing_is_planned(world: World) -> None:
    world.kafka.delete(TOPIC)
    with pytest.raises(SourceError, match="no topic readings"):
        world.ingest("r1")
    world.kafka.create(TOPIC, 2)
    world.produce(record("a", 0.1))
    assert ranges(world, world.ingest("r1")) == [(0, 0, 1)]


# ---------------------------------------------------------------- partitions


def test_partitions_added_while_a_batch_is_open_are_the_next_batchs_from_their_beginning(world: World) -> None:
    world.produce(record("a", 0.1))
    ingest.plan(world.context(), "r1")
    world.kafka.add_partitions(TOPIC, 3)
    world.produce(*[record(str(i), 0.1) for i in range(4)], partition=2)
    world.kafka.trim(TOPIC, 2, 1)
    assert ranges(world, world.ingest("r1")) == [(0, 0, 1)]
    with pytest.raises(DataLoss, match=r"partition 2: offsets \[0, 1\) are gone"):
        world.ingest("r2")
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    second = plan_of(world, world.ingest("r2"))
    assert [(r.partition, r.start, r.end) for r in second.ranges] == [(2, 1, 4)]
    assert second.losses == (Loss(2, 0, 1, "retention"),)


def test_a_new_partition_of_which_nothing_is_heard_holds_no_window(world: World) -> None:
    world.produce(record("a", 0.1))
    world.produce(record("b", 4.0), partition=1)
    world.kafka.add_partitions(TOPIC, 3)
    world.ingest("r1")
    assert world.archive(0).rows == 1


def test_a_new_partition_with_records_that_are_not_read_yet_holds_every_window(world: World) -> None:
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=3))
    world.kafka.add_partitions(TOPIC, 3)
    world.produce(record("a", 4.0))
    world.produce(record("b", 4.0), partition=1)
    world.kafka.begin(TOPIC, 2)
    world.produce(record("c", 0.5), partition=2)
    world.ingest("r1")
    with pytest.raises(NotReady, match="partition 2: an open transaction holds it"):
        world.archive(0)
    world.kafka.commit(TOPIC, 2)
    world.ingest("r2")
    world.produce(record("d", 4.0), partition=2)
    world.ingest("r3")
    assert world.archive(0).rows == 1


# ---------------------------------------------------------------- losses


def test_retention_between_plan_and_read_is_refused_with_numbers_and_given_up_by_an_operator(world: World) -> None:
    world.produce(*[record(str(i), 0.1) for i in range(6)])
    ingest.plan(world.context(), "r1")
    world.kafka.trim(TOPIC, 0, 4)
    with pytest.raises(BatchRefused, match=r"\[0, 6\) are not all in the topic.*holds \[4, 6\).*\n.*repair.*--abandon"):
        ingest.write(world.context(), "r1")
    reconcile.abandon(world.context(), 1, "retention", force=True)
    world.produce(record("next", 0.2))
    assert ranges(world, world.ingest("r2")) == [(0, 6, 7)]


def test_a_log_that_lost_its_newest_records_is_refused_at_plan_and_at_read(world: World) -> None:
    world.produce(*[record(str(i), 0.1) for i in range(6)])
    ingest.plan(world.context(), "r1")
    world.kafka.truncate(TOPIC, 0, 4)
    with pytest.raises(BatchRefused, match=r"data loss.*\[0, 6\).*the log now holds \[0, 4\)"):
        ingest.write(world.context(), "r1")
    reconcile.abandon(world.context(), 1, "unclean leader election", force=True)
    with pytest.raises(LogCut, match="the log was cut at offset 4 .*planned up to 6, by batch 1"):
        world.ingest("r2")


def test_a_broker_that_is_down_costs_a_try_and_the_next_reads_the_same_ranges(world: World) -> None:
    world.produce(record("a", 0.1), record("b", 4.0))
    world.kafka.unavailable = True
    with pytest.raises(SourceUnavailable) as at_plan:
        ingest.plan(world.context(), "r1")
    world.kafka.unavailable = False
    ingest.plan(world.context(), "r1")
    world.kafka.unavailable = True
    with pytest.raises(JobFailed, match="no answer for topic readings") as at_read:
        ingest.write(world.context(), "r1")
    assert (at_plan.value.retry, at_read.value.retry) == (True, True)
    world.kafka.unavailable = False
    world.produce(record("later", 0.1))
    assert ranges(world, world.ingest("r1")) == [(0, 0, 2)]


# ---------------------------------------------------------------- recreated topics


@pytest.mark.parametrize("records", [1, 20], ids=["shorter", "longer"])
def test_a_topic_recreated_between_plan_and_read_is_refused_with_both_ids(world: World, records: int) -> None:
    """R6. The longer one has all the offsets that were planned: only its id tells."""
    world.produce(*[record(str(i), 0.1) for i in range(6)])
    ingest.plan(world.context(), "r1")
    world.kafka.create(TOPIC, 2)
    world.produce(*[record(f"new{i}", 0.1) for i in range(records)])
    with pytest.raises(BatchRefused, match=r"id-2.*id-1.*deleted and created again\n.*source reset"):
        ingest.write(world.context(), "r1")
    assert world.table() == []
    reconcile.abandon(world.context(), 1, "recreated", force=True)
    world.context().ledger.pipelines.accept_topic("readings", "id-1", "id-2", "on purpose")
    assert ranges(world, world.ingest("r2")) == [(0, 0, records)]


# ---------------------------------------------------------------- time stamps and contents


def test_event_time_is_the_brokers_where_the_topic_has_log_append_time(world: World) -> None:
    world.change_spec(event_time=EventTime(None))
    for n, hour in enumerate((0.1, 0.2, 4.0)):
        world.kafka.append(TOPIC, 0, b'{"id": "%d", "site": "a"}' % n, timestamp_ms=T0 + int(hour * HOUR))
    world.ingest("r1")
    assert world.archive(0).rows == 2
