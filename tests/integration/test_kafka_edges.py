"""Kafka's edges on a real broker: the whole product in this process, with the real engine and the real reader."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.real_kafka import Interrupted, Topic, bulky, gaps, landed, numbered, other_columns, ranges, world_on
from tests.world import T0, record
from tidegate.core.base.errors import BatchRefused, DataLoss, JobFailed, NotReady, SourceError, TopicRecreated
from tidegate.core.spec.pipeline import EventTime
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile

# ---------------------------------------------------------------- transactions


def test_aborted_ranges_at_both_ends_of_a_batch_are_gaps_and_the_same_ones_when_read_again(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    for end, count in (("abort", 3), ("commit", 2), ("abort", 2)):
        with topic.transaction(end) as produce:
            produce(*numbered(0, count))
    world.ingest("r1")
    assert ranges(world, 1) == [(0, 0, 10)]
    assert landed(world, 1) == [(0, 4), (0, 5)]
    assert gaps(world, 1) == {0: [(0, 4), (6, 10)]}
    topic.produce(record("closer", 4.0))
    world.ingest("r2")
    assert world.archive(0).rows == 2
    other_columns(world)
    assert world.replay(0).generation == 2
    assert world.table() == [(0, 4), (0, 5)]
    world.close()


def test_gaps_are_refused_with_place_and_setting_until_the_spec_takes_them(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path, gaps="forbid")
    with topic.transaction("abort") as produce:
        produce(*numbered(0, 2))
    topic.produce(*numbered(2, 1))
    with pytest.raises(BatchRefused, match=r"partition 0 \[0, 4\): no record at offsets \[0, 3\).*source.gaps: allow"):
        world.ingest("r1")
    world.change_spec(source=replace(world.pipeline.source, gaps="allow"))
    assert world.ingest("r1") == 1
    assert landed(world, 1) == [(0, 3)]
    world.close()


def test_a_hung_transaction_holds_its_partition_and_nothing_else(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap, 2)
    world = world_on(topic, tmp_path)
    topic.produce(*numbered(0, 2))
    with topic.transaction("hang") as produce:
        produce(*numbered(2, 2))
    topic.produce(*numbered(4, 2))
    topic.produce(record("b", 4.0), partition=1)
    assert ranges(world, world.ingest("r1")) == [(0, 0, 2), (1, 0, 1)]
    assert world.ingest("r2") is None
    assert any("partition 0 from offset 2 of 6 on" in line for line in world.said)
    with pytest.raises(NotReady, match="partition 0: an open transaction holds it since 2013-01-09T04:00Z"):
        world.archive(0)
    world.close()
    reads_all = world_on(topic, tmp_path / "all", isolation="read_uncommitted")
    assert ranges(reads_all, reads_all.ingest("r1")) == [(0, 0, 6), (1, 0, 1)]
    assert landed(reads_all, 1) == [(0, o) for o in range(6)] + [(1, 0)]
    reads_all.close()


def test_a_transaction_that_commits_between_plan_and_read_belongs_to_the_next_batch(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    topic.produce(*numbered(0, 2))
    with topic.transaction() as produce:
        produce(*numbered(2, 2))
        ingest.plan(world.context(), "r1")
    topic.produce(*numbered(4, 1))
    world.ingest("r1")
    world.ingest("r2")
    assert (ranges(world, 1), ranges(world, 2)) == ([(0, 0, 2)], [(0, 2, 6)])
    assert (landed(world, 1), landed(world, 2)) == ([(0, 0), (0, 1)], [(0, 2), (0, 3), (0, 5)])
    world.close()


# ---------------------------------------------------------------- retention


def test_retention_past_the_planned_start_is_refused_with_numbers_and_given_up(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    topic.produce(*numbered(0, 6))
    ingest.plan(world.context(), "r1")
    topic.trim(0, 4)
    with pytest.raises(BatchRefused, match=r"\[0, 6\) are not all in the topic.*holds \[4, 6\).*\n.*repair.*--abandon"):
        ingest.write(world.context(), "r1")
    reconcile.abandon(world.context(), 1, "retention", force=True)
    topic.produce(*numbered(6, 4))
    topic.trim(0, 8)
    with pytest.raises(DataLoss, match=r"partition 0: offsets \[6, 8\) are gone .*2 records at most"):
        world.ingest("r2")
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    assert ranges(world, world.ingest("r2")) == [(0, 8, 10)]
    assert any("LOST: partition 0 offsets [6, 8)" in line for line in world.said)
    world.close()


# ---------------------------------------------------------------- deleted and recreated topics


def test_a_topic_that_was_deleted_is_named_by_plan_and_by_read(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    topic.produce(*numbered(0, 2))
    ingest.plan(world.context(), "r1")
    topic.delete()
    with pytest.raises(JobFailed, match=f"has no topic {topic.name}") as at_read:
        ingest.write(world.context(), "r1")
    assert at_read.value.retry
    reconcile.abandon(world.context(), 1, "deleted", force=True)
    with pytest.raises(SourceError, match=f"has no topic {topic.name}"):
        world.ingest("r2")
    world.close()


@pytest.mark.parametrize("count", [1, 20], ids=["shorter", "longer"])
def test_r6_a_topic_recreated_between_plan_and_read_is_refused_with_both_ids(kafka, tmp_path, count):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    topic.produce(*numbered(0, 6))
    old = topic.state().topic_id
    ingest.plan(world.context(), "r1")
    topic.delete()
    topic.create()
    topic.produce(*numbered(100, count))
    new = topic.state().topic_id
    with pytest.raises(BatchRefused, match=rf"has id {re.escape(new)}, planned was {re.escape(old)}.*\n.*source reset"):
        ingest.write(world.context(), "r1")
    reconcile.abandon(world.context(), 1, "recreated", force=True)
    with pytest.raises(TopicRecreated, match=rf"id {re.escape(new)}, .* belong to {re.escape(old)}"):
        world.ingest("r2")
    world.context().ledger.pipelines.accept_topic(world.pipeline.name, old, new, "on purpose")
    assert ranges(world, world.ingest("r2")) == [(0, 0, count)]
    world.close()


def test_r6_a_topic_recreated_while_it_is_read_is_not_sealed_though_every_offset_is_there(kafka, tmp_path):
    """Longer than it was: the reader may well go on in the new one and never know; then the seal sees it."""
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    topic.produce(*bulky(500))

    def recreate() -> None:
        topic.delete()
        topic.create()
        topic.produce(*bulky(600))

    world.kafka = Interrupted(topic, recreate)  # type: ignore[assignment]
    old = topic.state().topic_id
    ingest.plan(world.context(), "r1")
    with pytest.raises((TopicRecreated, BatchRefused), match=f"planned (was )?{re.escape(old)}") as refused:
        ingest.write(world.context(), "r1")
    assert topic.state().topic_id in str(refused.value)
    assert world.context().ledger.batches.get(world.pipeline.name, 1).state == "WRITING"
    world.close()


def test_a_topic_deleted_while_it_is_read_is_said_with_the_place(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    topic.produce(*bulky(500))
    world.kafka = Interrupted(topic, topic.delete)  # type: ignore[assignment]
    ingest.plan(world.context(), "r1")
    # a quick read is over before the topic is gone: then the seal misses it
    with pytest.raises((JobFailed, SourceError), match=f"has no topic {topic.name}"):
        ingest.write(world.context(), "r1")
    world.close()


# ---------------------------------------------------------------- partitions, time stamps, empty topics


def test_added_partitions_begin_at_0_and_what_retention_took_of_them_is_a_loss(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    topic.produce(*numbered(0, 2))
    ingest.plan(world.context(), "r1")
    topic.add_partitions(3)
    topic.produce(*numbered(10, 4), partition=2)
    topic.trim(2, 1)
    assert ranges(world, world.ingest("r1")) == [(0, 0, 2)]
    with pytest.raises(DataLoss, match=r"partition 2: offsets \[0, 1\) are gone"):
        world.ingest("r2")
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    assert ranges(world, world.ingest("r2")) == [(2, 1, 4)]
    assert landed(world, 2) == [(2, 1), (2, 2), (2, 3)]
    world.close()


def test_log_append_time_is_event_time_where_the_spec_says_kafka_timestamp(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap, **{"message.timestamp.type": "LogAppendTime"})
    world = world_on(topic, tmp_path)
    world.change_spec(event_time=EventTime(None))
    before = int(time.time() * 1000)
    world.clock.advance(before - world.clock.now_ms())
    topic.produce({"id": "a", "site": "a", "at": T0})
    world.clock.advance(60_000)
    world.ingest("r1")
    facts = world.context().ledger.windows.facts(world.pipeline.name).partitions[0]
    assert facts.max_event_ms is not None
    assert before - 1000 <= facts.max_event_ms <= int(time.time() * 1000) + 1000
    world.close()


def test_an_empty_topic_plans_nothing_and_latest_begins_before_its_first_record(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap, 2)
    world = world_on(topic, tmp_path / "earliest")
    assert world.ingest("r1") is None
    late = world_on(topic, tmp_path / "latest", start="latest")
    assert late.ingest("r1") == 1
    topic.produce(*numbered(0, 2))
    assert ranges(world, world.ingest("r2")) == ranges(late, late.ingest("r2")) == [(0, 0, 2)]
    world.close()
    late.close()


# ---------------------------------------------------------------- a damaged log


def test_a_record_that_is_damaged_on_the_brokers_disk_is_no_gap(kafka, tmp_path):
    """The client tells of it once and goes on behind it, as over a gap: and gaps are allowed here."""
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    for n in range(3):
        topic.produce(*numbered(n, 1))
    (log,) = Path(kafka.root).rglob(f"{topic.name}-0/00000000000000000000.log")
    whole = log.read_bytes()
    at = whole.index(b'"1"')
    _overwrite(log, at + 1, b"7")
    ingest.plan(world.context(), "r1")
    with pytest.raises(JobFailed, match=r"the records at offset 1 are damaged .*CRC") as damaged:
        ingest.write(world.context(), "r1")
    assert damaged.value.retry
    _overwrite(log, at + 1, b"1")
    ingest.write(world.context(), "r1")
    ingest.land(world.context(), "r1")
    assert landed(world, 1) == [(0, 0), (0, 1), (0, 2)]
    world.close()


def _overwrite(path: Path, at: int, what: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(what)
