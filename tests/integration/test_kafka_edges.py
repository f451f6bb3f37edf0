"""Kafka's edges on a real broker: the whole product in this process, with the real engine and the real reader."""

from __future__ import annotations

import random
import re
import threading
import time
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from engine_fixtures import job_plan, pipeline

from tests.hooks import Hook
from tests.real_kafka import RealKafka, Topic, eventually, frozen, world_on
from tests.world import HOUR, T0, World, record
from tidegate.core.errors import (
    BatchRefused,
    DataLoss,
    JobFailed,
    NotReady,
    ReplayRefused,
    SourceError,
    SourceUnavailable,
    TopicRecreated,
)
from tidegate.core.offsets import OffsetRange
from tidegate.core.pipeline import Column, EventTime
from tidegate.workflow import ingest, reconcile


def numbered(first: int, count: int, hour: float = 0.1) -> list[dict]:
    return [record(str(n), hour) for n in range(first, first + count)]


def ranges(world: World, batch_id: int | None) -> list[tuple[int, int, int]]:
    assert batch_id is not None
    plan = world.context().ledger.batches.get(world.pipeline.name, batch_id).plan
    return [(r.partition, r.start, r.end) for r in plan.ranges]


def landed(world: World, batch_id: int) -> list[tuple[int, int]]:
    """Coordinates of every row in the files of a landed batch."""
    folder = world.folder / f"lake/readings/_tidegate/landed/{batch_id}"
    return sorted(world.rows_at(f"file://{folder}"))


def gaps(world: World, batch_id: int) -> dict[int, list[tuple[int, int]]]:
    found = world.context().ledger.batches.gaps(world.pipeline.name, batch_id)
    return {p: [(i.start, i.end) for i in intervals] for p, intervals in found.items()}


def other_columns(world: World) -> None:
    """A replay then has something new to publish, if it may."""
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other")))


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
    reconcile.abandon(world.context(), 1, "retention")
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
    reconcile.abandon(world.context(), 1, "deleted")
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
    reconcile.abandon(world.context(), 1, "recreated")
    with pytest.raises(TopicRecreated, match=rf"id {re.escape(new)}, .* belong to {re.escape(old)}"):
        world.ingest("r2")
    world.context().ledger.pipelines.accept_topic(world.pipeline.name, old, new, "on purpose")
    assert ranges(world, world.ingest("r2")) == [(0, 0, count)]
    world.close()


class _RecreatedWhileRead(RealKafka):
    """Once the first chunk has been read, the topic is deleted and created again, longer than it was."""

    def __init__(self, topic: Topic) -> None:
        super().__init__(topic)
        self._topic = topic
        self.settings |= {"queued.max.messages.kbytes": "100", "fetch.message.max.bytes": "10000"}
        self.values: list[bytes] = []

    def reader(self, plan):
        reader = super().reader(plan)
        read = reader.read

        def then_recreate(wanted):
            for n, chunk in enumerate(read(wanted)):
                self.values += [v[-2:-1] for v in chunk.values]
                yield chunk
                if n == 0:
                    self._topic.delete()
                    self._topic.create()
                    self._topic.produce(*[{"id": "new", "at": T0, "site": "x" * 2000, "n": 2}] * 600)

        reader.read = then_recreate
        return reader


def test_r6_a_topic_recreated_while_it_is_read_is_not_sealed_though_every_offset_was_there(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    topic.produce(*[{"id": "old", "at": T0, "site": "x" * 2000, "n": 1}] * 500)
    world.kafka = recreating = _RecreatedWhileRead(topic)  # type: ignore[assignment]
    old = topic.state().topic_id
    ingest.plan(world.context(), "r1")
    with pytest.raises(TopicRecreated, match=f"planned {re.escape(old)}"):
        ingest.write(world.context(), "r1")
    assert set(recreating.values) == {b"1", b"2"}, "the reader cannot tell the two topics apart"
    assert world.context().ledger.batches.get(world.pipeline.name, 1).state == "WRITING"
    world.close()


# ---------------------------------------------------------------- partitions, time stamps, empty topics


def test_added_partitions_begin_at_their_log_start(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    topic.produce(*numbered(0, 2))
    ingest.plan(world.context(), "r1")
    topic.add_partitions(3)
    topic.produce(*numbered(10, 4), partition=2)
    topic.trim(2, 1)
    assert ranges(world, world.ingest("r1")) == [(0, 0, 2)]
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


# ---------------------------------------------------------------- a broker that is down


def test_a_frozen_broker_costs_a_try_of_bounded_time_and_the_next_reads_the_same(kafka, tmp_path, monkeypatch):
    monkeypatch.setattr("spark_jobs.engine.fetch.ANSWER_SECONDS", 2.0)
    monkeypatch.setattr("spark_jobs.engine.fetch.LOOK_SECONDS", 1.0)
    topic = Topic(kafka.kafka_bootstrap)
    topic.produce(*numbered(0, 3))
    world = world_on(topic, tmp_path)
    world.kafka.stall_seconds = 2.0
    world.kafka._source = type(world.kafka._source)(topic.settings, "read_committed", timeout_s=1.0)
    started = time.monotonic()
    with frozen(kafka), pytest.raises(SourceUnavailable, match=f"no answer for topic {topic.name}") as at_plan:
        ingest.plan(world.context(), "r1")
    ingest.plan(world.context(), "r1")
    with frozen(kafka), pytest.raises(JobFailed, match=f"no answer for topic {topic.name}") as at_read:
        ingest.write(world.context(), "r1")
    assert at_plan.value.retry
    assert at_read.value.retry
    assert time.monotonic() - started < 15
    topic.produce(*numbered(3, 3))
    assert ranges(world, world.ingest("r1")) == [(0, 0, 3)]
    assert landed(world, 1) == [(0, 0), (0, 1), (0, 2)]
    world.close()


def test_a_broker_that_freezes_while_it_is_read_costs_a_try_and_the_next_reads_the_same(kafka, tmp_path, monkeypatch):
    monkeypatch.setattr("spark_jobs.engine.fetch.LOOK_SECONDS", 1.0)
    topic = Topic(kafka.kafka_bootstrap)
    topic.produce(*[{"id": str(n), "at": T0, "site": "a", "filler": "x" * 2000} for n in range(500)])
    world = world_on(topic, tmp_path)
    world.kafka.stall_seconds = 1.0
    small = {"queued.max.messages.kbytes": "100", "fetch.message.max.bytes": "10000"}
    world.kafka.settings |= small
    ingest.plan(world.context(), "r1")
    reader_of, held = world.kafka.reader, frozen(kafka)

    def freezing(plan):
        reader = reader_of(plan)
        read = reader.read

        def then_freeze(wanted):
            for n, chunk in enumerate(read(wanted)):
                yield chunk
                if n == 0:
                    held.__enter__()

        reader.read = then_freeze
        return reader

    world.kafka.reader = freezing
    try:
        with pytest.raises(JobFailed, match=r"no answer for topic .*\(partition 0, offset \d+\)") as down:
            ingest.write(world.context(), "r1")
    finally:
        held.__exit__(None, None, None)
    assert down.value.retry
    world.kafka.reader = reader_of
    world.ingest("r1")
    assert landed(world, 1) == [(0, n) for n in range(500)]
    world.close()


# ---------------------------------------------------------------- large records, odd contents, compression


def test_a_record_above_every_fetch_size_is_read_and_one_above_the_clients_limit_is_refused_by_its_offset(
    kafka, tmp_path
):
    topic = Topic(kafka.kafka_bootstrap, **{"max.message.bytes": "20000000"})
    world = world_on(topic, tmp_path)
    big = {"id": "big", "at": T0, "site": "a", "filler": "x" * 5_000_000}
    large = {"message.max.bytes": "20000000"}
    topic.produce(record("a", 0.1), **large)
    topic.produce(big, **large)
    topic.produce(record("b", 0.1), **large)
    tiny = {"fetch.message.max.bytes": "1000", "fetch.max.bytes": "1000", "message.max.bytes": "1000"}
    world.kafka.settings |= tiny | {"receive.message.max.bytes": "1000000"}
    ingest.plan(world.context(), "r1")
    with pytest.raises(BatchRefused, match=r"at offset 1 .*larger than the client takes.*\n.*receive.message.max"):
        ingest.write(world.context(), "r1")
    world.kafka.settings |= {"receive.message.max.bytes": "10000000"}
    world.ingest("r1")
    assert landed(world, 1) == [(0, 0), (0, 1), (0, 2)]
    world.close()


@pytest.mark.parametrize("codec", ["lz4", "zstd", "snappy", "gzip"])
def test_a_planned_end_inside_a_compressed_batch_is_exact(kafka, tmp_path, codec):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path)
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=337))
    slow = {"compression.type": codec, "linger.ms": "1000", "batch.num.messages": "500"}
    topic.produce(*numbered(0, 1000), **slow)
    for n in range(3):
        world.ingest(f"r{n}")
        assert landed(world, n + 1) == [(0, o) for o in range(n * 337, min(1000, (n + 1) * 337))]
    world.close()


def test_tombstones_empty_values_and_missing_keys_are_rows_like_any_other(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap)
    world = world_on(topic, tmp_path, gaps="forbid")
    topic.produce(record("a", 0.1), None, b"", key=b"k")
    topic.produce(record("b", 0.2), None, b"", key=None)
    producer = Producer(topic.settings)
    producer.produce(
        topic.name, b'{"id": "h", "at": 1357344000000}', partition=0, headers=[("h", b"\x00"), ("h", None)]
    )
    assert producer.flush(30) == 0
    world.ingest("r1")
    books = world.context().ledger.reads.overview(world.pipeline.name)
    assert books is not None
    assert (books.totals.read, books.totals.data, books.totals.dirty) == (7, 3, 4)
    assert world.table("__dirty") == [(0, 1), (0, 2), (0, 4), (0, 5)]
    world.close()


# ---------------------------------------------------------------- compaction


_EAGER = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "100",
    "max.compaction.lag.ms": "100",
    "min.compaction.lag.ms": "0",
}


def visible(topic: Topic, end: int) -> set[int]:
    """Offsets below `end` at which the broker still has a record."""
    reader = RealKafka(topic).reader(replace(job_plan(pipeline("/nowhere"), []), topic=topic.name, topic_id=""))
    try:
        return {o for chunk in reader.read(OffsetRange(topic.name, 0, 0, end)) for o in chunk.offsets}
    finally:
        reader.close()


def compacted(topic: Topic, end: int, gone: set[int]) -> None:
    """Until the cleaner has taken these offsets; each look writes a record that rolls the active segment."""

    def looked() -> bool:
        topic.produce(record("roll", 4.0), key=b"roll")
        return not gone & visible(topic, end)

    eventually(looked)


def test_a_compacted_topic_is_read_and_read_again_and_a_row_that_is_compacted_away_refuses_the_replay(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap, **_EAGER)
    world = world_on(topic, tmp_path)
    for n in range(6):  # offsets 0-5; keys a, b, a, b, c, d
        topic.produce(record(str(n), 0.1), key=b"ababcd"[n : n + 1])
    compacted(topic, 6, {0, 1})
    ingest.plan(world.context(), "r1")
    world.ingest("r1")
    rows = [c for c in landed(world, 1) if c[1] < 6]
    assert rows == [(0, 2), (0, 3), (0, 4), (0, 5)]
    assert (0, 2) in gaps(world, 1)[0]
    assert world.archive(0).rows == 4
    other_columns(world)
    assert world.replay(0).generation == 2, "the same gaps"
    topic.produce(record("new c", 4.0), key=b"c")
    compacted(topic, 6, {4})
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.third")))
    with pytest.raises(ReplayRefused, match=r"owes 4 rows, the topic gives 3 \(nothing any more at \[4, 5\)\)"):
        world.replay(0)
    assert world.table() == [(0, 2), (0, 3), (0, 4), (0, 5)]
    world.close()


# ---------------------------------------------------------------- a producer that goes on writing


class _Writer(threading.Thread):
    """Plain records and transactions, some of them aborted, into two partitions, until it is told to stop."""

    def __init__(self, topic: Topic, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self._topic, self._rng, self.stop = topic, rng, threading.Event()
        self.acknowledged: set[tuple[int, int]] = set()
        self.failed: list[object] = []

    def run(self) -> None:
        plain = Producer(self._topic.settings)
        own = Producer(self._topic.settings | {"transactional.id": self._topic.name})
        own.init_transactions(30)
        n = 0
        while not self.stop.is_set():
            self._send(plain, self.acknowledged, n)
            sent: set[tuple[int, int]] = set()
            own.begin_transaction()
            self._send(own, sent, n)
            if self._rng.random() < 0.4:
                own.abort_transaction(30)
            else:
                own.commit_transaction(30)
                self.acknowledged |= sent
            n += 1

    def _send(self, producer: Producer, told: set[tuple[int, int]], n: int) -> None:
        def delivered(error: object, message) -> None:
            self.failed.append(error) if error else told.add((message.partition(), message.offset()))

        for i in range(self._rng.randrange(1, 60)):
            value = b'{"id": "%d", "site": "a", "at": %d}' % (n * 100 + i, T0 + self._rng.randrange(HOUR))
            producer.produce(self._topic.name, value, partition=self._rng.randrange(2), on_delivery=delivered)
        producer.flush(30)


def test_every_try_reads_to_the_planned_end_while_a_producer_goes_on_writing(kafka, tmp_path, rng):
    topic = Topic(kafka.kafka_bootstrap, 2)
    world = world_on(topic, tmp_path)
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=700))
    writer = _Writer(topic, rng)
    writer.start()
    batches = 0
    try:
        while batches < 4:
            if ingest.plan(world.context(), f"r{batches}") is None:
                continue
            planned = ranges(world, batches + 1)
            if rng.random() < 0.5:  # a task that dies when its job is done, its receipt lost with it
                ctx = world.context()

                def lose(path: str, ctx=ctx) -> None:
                    plan = world.launcher.runs[-1]
                    ctx.storage.delete(f"{plan.attempt_dir}/_receipt.json")
                    raise JobFailed("the executor is gone")

                ctx.launcher = Hook(ctx.launcher, after={"run": lose})
                with pytest.raises(JobFailed):
                    ingest.write(ctx, f"r{batches}")
            ingest.write(world.context(), f"r{batches}")
            ingest.land(world.context(), f"r{batches}")
            batches += 1
            assert ranges(world, batches) == planned
    finally:
        writer.stop.set()
        writer.join(60)
    assert not writer.failed
    topic.settled()
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=1_000_000))
    while world.ingest(f"r{batches}") is not None:
        batches += 1
    found = [c for b in range(1, batches + 1) for c in landed(world, b)]
    assert sorted(found) == sorted(writer.acknowledged)
    topic.produce(record("closer", 4.0))
    topic.produce(record("closer", 4.0), partition=1)
    world.ingest("last")
    assert world.archive(0).rows == len(found)
    other_columns(world)
    assert world.replay(0).rows == len(found), "every range read again, with the same gaps"
    world.close()
