"""Reading from a real broker: one that is down, large and odd records, compaction, a producer that goes on writing."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from engine_fixtures import job_plan, pipeline

from tests.hooks import Hook
from tests.real_kafka import (
    PATIENCE_S,
    Interrupted,
    RealKafka,
    Topic,
    bulky,
    eventually,
    frozen,
    gaps,
    landed,
    numbered,
    other_columns,
    ranges,
    world_on,
)
from tests.world import HOUR, T0, record
from tidegate.core.base.errors import BatchRefused, JobFailed, ReplayRefused, SourceUnavailable
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.spec.pipeline import Column
from tidegate.sources.kafka.control import KafkaSource
from tidegate.workflow.batch import ingest

# ---------------------------------------------------------------- a broker that is down


def test_a_frozen_broker_costs_a_try_of_bounded_time_and_the_next_reads_the_same(kafka, tmp_path, monkeypatch):
    """Short times only while it is frozen: a busy machine's broker takes its own to answer again."""
    topic = Topic(kafka.kafka_bootstrap)
    topic.produce(*numbered(0, 3))
    world = world_on(topic, tmp_path)
    patient, hasty = world.kafka, RealKafka(topic, stall_seconds=2.0)
    hasty._source = KafkaSource(topic.settings, "read_committed", timeout_s=1.0)
    tried = []

    @contextlib.contextmanager
    def trying():
        world.kafka = hasty
        with monkeypatch.context() as patch, frozen(kafka):
            patch.setattr("tidegate.sources.kafka.worker.ANSWER_SECONDS", 2.0)
            patch.setattr("tidegate.sources.kafka.worker.LOOK_SECONDS", 1.0)
            began = time.monotonic()
            yield
            tried.append(time.monotonic() - began)
        world.kafka = patient

    with trying(), pytest.raises(SourceUnavailable, match=f"no answer for topic {topic.name}") as at_plan:
        ingest.plan(world.context(), "r1")
    ingest.plan(world.context(), "r1")
    with trying(), pytest.raises(JobFailed, match=f"no answer for topic {topic.name}") as at_read:
        ingest.write(world.context(), "r1")
    assert at_plan.value.retry
    assert at_read.value.retry
    assert max(tried) < 20, "the usual times are 30 s and more"
    topic.produce(*numbered(3, 3))
    assert ranges(world, world.ingest("r1")) == [(0, 0, 3)]
    assert landed(world, 1) == [(0, 0), (0, 1), (0, 2)]
    world.close()


def test_a_broker_that_freezes_while_it_is_read_costs_a_try_and_the_next_reads_the_same(kafka, tmp_path, monkeypatch):
    topic = Topic(kafka.kafka_bootstrap)
    topic.produce(*bulky(500))
    world = world_on(topic, tmp_path)
    ingest.plan(world.context(), "r1")
    whole, standstill = world.kafka, contextlib.ExitStack()
    world.kafka = Interrupted(topic, lambda: standstill.enter_context(frozen(kafka)))  # type: ignore[assignment]
    monkeypatch.setattr("tidegate.sources.kafka.worker.LOOK_SECONDS", 1.0)
    with standstill, pytest.raises(JobFailed, match=r"no answer for topic .*\(partition 0, offset \d+\)") as down:
        ingest.write(world.context(), "r1")
    assert down.value.retry
    world.kafka = whole
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
    assert producer.flush(PATIENCE_S) == 0
    world.ingest("r1")
    books = world.context().ledger.reads.survey([world.pipeline.name], 0)[world.pipeline.name].totals.balance
    assert (books.read, books.data, books.dirty) == (7, 3, 4)
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
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.third")))
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
        own.init_transactions(PATIENCE_S)
        n = 0
        while not self.stop.is_set():
            self._send(plain, self.acknowledged, n)
            sent: set[tuple[int, int]] = set()
            own.begin_transaction()
            self._send(own, sent, n)
            if self._rng.random() < 0.4:
                own.abort_transaction(PATIENCE_S)
            else:
                own.commit_transaction(PATIENCE_S)
                self.acknowledged |= sent
            n += 1

    def _send(self, producer: Producer, told: set[tuple[int, int]], n: int) -> None:
        def delivered(error: object, message) -> None:
            self.failed.append(error) if error else told.add((message.partition(), message.offset()))

        for i in range(self._rng.randrange(1, 60)):
            value = b'{"id": "%d", "site": "a", "at": %d}' % (n * 100 + i, T0 + self._rng.randrange(HOUR))
            producer.produce(self._topic.name, value, partition=self._rng.randrange(2), on_delivery=delivered)
        producer.flush(PATIENCE_S)


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
                assert writer.is_alive(), "it has failed, and there is nothing more to read"
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
        writer.join(4 * PATIENCE_S)
    assert not writer.is_alive()
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
