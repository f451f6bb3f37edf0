"""What the workflow may expect of a source, compared with a real Kafka broker, the fake, and a fake that can do less.

What every source must do is in `tests.source_suite`; what only Kafka does is here."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from fakes.kafka import FakeKafka

from dev.stack.topics import await_leaders, create_topic
from tests.real_kafka import PATIENCE_S
from tests.source_suite import Broker, SourceSuite, eventually
from tidegate.core.base.errors import SourceError
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.source.port import ALL, Lane, LogState, Source
from tidegate.core.source.records import Reader
from tidegate.kinds import SourceKind
from tidegate.sources.kafka import KIND
from tidegate.sources.kafka.control import KafkaSource
from tidegate.sources.kafka.worker import KafkaReader
from tidegate.spec.source import SourceSection


class KafkaBroker(Broker, Protocol):
    """What Kafka's own tests need beside."""

    def create_with(self, topic: str, cleanup: str, retention_ms: int, retention_bytes: int, segment: int) -> None: ...
    def committed(self, group: str, topic: str, partitions: list[int]) -> dict[int, int]: ...


class RealBroker:
    kind = KIND
    stamps = True

    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._settings)
        self._producer = Producer(self._settings)
        self._transaction: Producer | None = None

    def source(self, isolation: str = "read_committed") -> Source:
        return KafkaSource(self._settings, isolation)

    def reader(self, plan: ReadPlan) -> Reader:
        return KafkaReader(plan, dict(self._settings))

    def unavailable(self) -> Source:
        # nothing listens there; a port that was free a moment ago may be another server's by now
        return KafkaSource({"bootstrap.servers": "127.0.0.1:1"}, "read_committed", timeout_s=2)

    def create(self, topic: str, partitions: int = 1, retention_ms: int | None = None) -> None:
        self._create(topic, partitions, {"retention.ms": str(-1 if retention_ms is None else retention_ms)})

    def create_with(self, topic: str, cleanup: str, retention_ms: int, retention_bytes: int, segment: int) -> None:
        limits = {"retention.ms": str(retention_ms), "retention.bytes": str(retention_bytes)}
        self._create(topic, 1, limits | {"cleanup.policy": cleanup, "segment.bytes": str(segment)})

    def _create(self, topic: str, partitions: int, config: dict[str, str]) -> None:
        new = NewTopic(topic, partitions, 1, config=config)
        _until(lambda: create_topic(self._settings, new), while_code="TOPIC_ALREADY_EXISTS")

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result()
        wanted = TopicCollection([topic])
        with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
            _until(lambda: self._still_there(wanted), while_code="TOPIC_ALREADY_EXISTS")

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result()
        await_leaders(self._settings, topic, total)

    def append(self, topic: str, partition: int, timestamps_ms: list[int]) -> None:
        self._send(self._producer, topic, partition, timestamps_ms)

    def begin(self, topic: str, partition: int, timestamps_ms: list[int]) -> None:
        self._transaction = Producer(self._settings | {"transactional.id": uuid.uuid4().hex})
        self._transaction.init_transactions(PATIENCE_S)
        self._transaction.begin_transaction()
        self._send(self._transaction, topic, partition, timestamps_ms)

    def end(self, topic: str, partition: int, *, commit: bool) -> None:
        assert self._transaction is not None
        end = self._transaction.commit_transaction if commit else self._transaction.abort_transaction
        end(PATIENCE_S)

    def trim(self, topic: str, partition: int, before: int) -> None:
        at = TopicPartition(topic, partition, before)
        self._admin.delete_records([at])[at].result()

    def committed(self, group: str, topic: str, partitions: list[int]) -> dict[int, int]:
        consumer = Consumer(self._settings | {"group.id": group})
        found = consumer.committed([TopicPartition(topic, p) for p in partitions], timeout=PATIENCE_S)
        consumer.close()
        return {tp.partition: tp.offset for tp in found}

    def _still_there(self, wanted: TopicCollection) -> None:
        for description in self._admin.describe_topics(wanted).values():
            description.result()
        raise KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS))

    @staticmethod
    def _send(producer: Producer, topic: str, partition: int, timestamps_ms: list[int]) -> None:
        failures = []
        for n, timestamp in enumerate(timestamps_ms):
            done = lambda e, _: e and failures.append(e)  # noqa: E731
            producer.produce(topic, f"v{n}".encode(), b"k", partition, timestamp=timestamp, on_delivery=done)
        assert producer.flush(PATIENCE_S) == 0
        assert not failures


class FakeBroker:
    stamps = True

    def __init__(self, kind: SourceKind = KIND) -> None:
        self.kind = kind
        self._kafka = FakeKafka(traits=kind.traits)

    def source(self, isolation: str = "read_committed") -> Source:
        self._kafka.isolation = isolation
        return self._kafka

    def reader(self, plan: ReadPlan) -> Reader:
        return self._kafka.reader(plan)

    def unavailable(self) -> Source:
        self._kafka.unavailable = True
        return self._kafka

    def create(self, topic: str, partitions: int = 1, retention_ms: int | None = None) -> None:
        self._kafka.create(topic, partitions, retention_ms)

    def create_with(self, topic: str, cleanup: str, retention_ms: int, retention_bytes: int, segment: int) -> None:
        limits = [None if limit < 0 else limit for limit in (retention_ms, retention_bytes)]
        self._kafka.create(topic, 1, *limits, deletes="delete" in cleanup, segment_bytes=segment)

    def delete(self, topic: str) -> None:
        self._kafka.delete(topic)

    def add_partitions(self, topic: str, total: int) -> None:
        self._kafka.add_partitions(topic, total)

    def append(self, topic: str, partition: int, timestamps_ms: list[int]) -> None:
        for n, timestamp in enumerate(timestamps_ms):
            self._kafka.append(topic, partition, f"v{n}".encode(), key=b"k", timestamp_ms=timestamp)

    def begin(self, topic: str, partition: int, timestamps_ms: list[int]) -> None:
        self._kafka.begin(topic, partition)
        self.append(topic, partition, timestamps_ms)

    def end(self, topic: str, partition: int, *, commit: bool) -> None:
        (self._kafka.commit if commit else self._kafka.abort)(topic, partition)

    def trim(self, topic: str, partition: int, before: int) -> None:
        self._kafka.trim(topic, partition, before)

    def committed(self, group: str, topic: str, partitions: list[int]) -> dict[int, int]:
        committed = self._kafka.groups.get((group, topic), {})
        return {p: committed[p] for p in partitions}


LESS = replace(ALL, identity=False, transactions=False, expires=False, remembers=False)
BARE = replace(KIND, name="bare", traits=LESS, section=lambda: SourceSection)


@pytest.fixture(params=["fake", "real"])
def broker(request: pytest.FixtureRequest) -> KafkaBroker:
    return FakeBroker() if request.param == "fake" else RealBroker(request.getfixturevalue("kafka").kafka_bootstrap)


class TestKafka(SourceSuite):
    """The real broker and its fake."""


class TestSourceThatCanDoLess(SourceSuite):
    """Such as one whose logs have no ids and keep no marks: the suite can be passed without them."""

    @pytest.fixture
    def broker(self) -> Broker:
        return FakeBroker(BARE)


@pytest.fixture
def topic() -> str:
    return f"source-{uuid.uuid4().hex[:12]}"


def test_an_empty_topic(broker, topic):
    broker.create(topic, partitions=3, retention_ms=86_400_000)
    state = broker.source().look(topic)
    partitions = dict.fromkeys(range(3), Lane(0, 0, 0))
    assert state == LogState(
        topic=topic,
        topic_id=state.topic_id,
        partitions=partitions,
        retention_ms=86_400_000,
        retention_bytes=None,
        deletes=True,
        segment_bytes=1024**3,
    )
    assert state.traits == ALL
    assert None not in [lane.leader_epoch for lane in state.partitions.values()]


def test_kept_for_ever_is_no_retention(broker, topic):
    broker.create(topic)
    assert broker.source().look(topic).retention_ms is None


@pytest.mark.parametrize(
    ("cleanup", "retention", "expected"),
    [
        ("delete", (3_600_000, 5_000_000), (3_600_000, 5_000_000, True)),
        ("delete", (-1, 5_000_000), (None, 5_000_000, True)),
        ("delete", (0, -1), (0, None, True)),
        ("compact", (3_600_000, 5_000_000), (None, None, False)),
        ("compact,delete", (3_600_000, -1), (3_600_000, None, True)),
    ],
)
def test_what_retention_may_delete(broker, topic, cleanup, retention, expected):
    broker.create_with(topic, cleanup, *retention, 1_048_576)
    state = broker.source().look(topic)
    assert (state.retention_ms, state.retention_bytes, state.deletes) == expected
    assert state.segment_bytes == 1_048_576


def test_a_log_that_ends_below_what_was_planned_was_cut_at_its_end(broker, topic):
    broker.create(topic, partitions=2)
    broker.append(topic, 0, [1, 2, 3])
    source = broker.source()
    epochs = {p: o.leader_epoch for p, o in source.look(topic).partitions.items()}
    assert source.cuts(topic, {0: (5, epochs[0]), 1: (1, epochs[1])}) == {0: 3, 1: 0}


def test_of_a_leader_epoch_that_the_broker_never_had_nothing_is_known(broker, topic):
    broker.create(topic)
    broker.append(topic, 0, [1, 2, 3])
    assert broker.source().cuts(topic, {0: (5, 99)}) == {}


def test_a_group_commit_is_seen_by_a_consumer_of_that_group(broker, topic):
    broker.create(topic, partitions=2)
    broker.append(topic, 0, [1, 2, 3])
    source = broker.source()
    source.remember(f"tidegate-{topic}", topic, {0: 2, 1: 0})
    assert broker.committed(f"tidegate-{topic}", topic, [0, 1]) == {0: 2, 1: 0}
    source.remember(f"tidegate-{topic}", topic, {0: 3})
    assert broker.committed(f"tidegate-{topic}", topic, [0, 1]) == {0: 3, 1: 0}
    source.remember(f"tidegate-{topic}", topic, {})


def test_a_group_commit_for_a_partition_that_is_not_there(broker, topic):
    broker.create(topic)
    with pytest.raises(SourceError, match="partition 7"):
        broker.source().remember(f"tidegate-{topic}", topic, {7: 1})


def test_settings_for_workers(broker):
    settings = broker.source("read_uncommitted").for_workers().settings
    assert settings["isolation.level"] == "read_uncommitted"
    assert settings["client.id"] == "tidegate"
    assert settings["bootstrap.servers"]


def test_the_end_of_a_transaction_has_an_offset(broker, topic):
    broker.create(topic)
    broker.begin(topic, 0, [3, 4, 5])
    broker.end(topic, 0, commit=True)
    eventually(lambda: broker.source().look(topic).partitions == {0: Lane(0, 4, 4)})


def _until(call: Callable[[], object], *, while_code: str, seconds: float = PATIENCE_S) -> None:
    """A deleted topic's name is free after a moment; a new topic or partition is known after one."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if error.args[0].name() != while_code or time.monotonic() > deadline:
                raise
