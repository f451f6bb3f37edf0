"""What the workflow may expect of Kafka, held against a real broker and against the fake."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from fakes.kafka import FakeKafka

from dev.stack.topics import await_leaders, create_topic
from tests.real_kafka import PATIENCE_S
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.source.port import PartitionOffsets, Source, TopicState
from tidegate.sources.kafka.control import KafkaSource


class Broker(Protocol):
    """The same actions on either: each returns when the broker has done it."""

    def source(self, isolation: str = "read_committed") -> Source: ...
    def unavailable(self) -> Source: ...
    def create(self, topic: str, partitions: int = 1, retention_ms: int | None = None) -> None: ...
    def create_with(self, topic: str, cleanup: str, retention_ms: int, retention_bytes: int, segment: int) -> None: ...
    def delete(self, topic: str) -> None: ...
    def add_partitions(self, topic: str, total: int) -> None: ...
    def append(self, topic: str, partition: int, timestamps_ms: list[int]) -> None: ...
    def begin(self, topic: str, partition: int, timestamps_ms: list[int]) -> None: ...
    def end(self, topic: str, partition: int, *, commit: bool) -> None: ...
    def trim(self, topic: str, partition: int, before: int) -> None: ...
    def committed(self, group: str, topic: str, partitions: list[int]) -> dict[int, int]: ...


class RealBroker:
    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._settings)
        self._producer = Producer(self._settings)
        self._transaction: Producer | None = None

    def source(self, isolation: str = "read_committed") -> Source:
        return KafkaSource(self._settings, isolation)

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
        for timestamp in timestamps_ms:
            producer.produce(
                topic, b"x", partition=partition, timestamp=timestamp, on_delivery=lambda e, _: e and failures.append(e)
            )
        assert producer.flush(PATIENCE_S) == 0
        assert not failures


class FakeBroker:
    def __init__(self) -> None:
        self._kafka = FakeKafka()

    def source(self, isolation: str = "read_committed") -> Source:
        self._kafka.isolation = isolation
        return self._kafka

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
        for timestamp in timestamps_ms:
            self._kafka.append(topic, partition, b"x", timestamp_ms=timestamp)

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


@pytest.fixture(params=["fake", "real"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    if request.param == "fake":
        yield FakeBroker()
    else:
        yield RealBroker(request.getfixturevalue("kafka").kafka_bootstrap)


@pytest.fixture
def topic() -> str:
    return f"source-{uuid.uuid4().hex[:12]}"


def test_an_empty_topic(broker, topic):
    broker.create(topic, partitions=3, retention_ms=86_400_000)
    state = broker.source().describe(topic)
    partitions = dict.fromkeys(range(3), PartitionOffsets(0, 0, 0))
    assert state == TopicState(topic, state.topic_id, partitions, 86_400_000, None, True, 1024**3)
    assert state.topic_id


def test_kept_for_ever_is_no_retention(broker, topic):
    broker.create(topic)
    assert broker.source().describe(topic).retention_ms is None


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
    state = broker.source().describe(topic)
    assert (state.retention_ms, state.retention_bytes, state.deletes) == expected
    assert state.segment_bytes == 1_048_576


def test_offsets_of_several_partitions(broker, topic):
    broker.create(topic, partitions=3)
    broker.append(topic, 0, [1, 2, 3])
    broker.append(topic, 2, [1])
    assert broker.source().describe(topic).partitions == {
        0: PartitionOffsets(0, 3, 3),
        1: PartitionOffsets(0, 0, 0),
        2: PartitionOffsets(0, 1, 1),
    }


def test_the_id_tells_a_recreated_topic_from_the_old_one(broker, topic):
    broker.create(topic)
    source = broker.source()
    first = source.describe(topic).topic_id
    assert source.describe(topic).topic_id == first
    broker.delete(topic)
    broker.create(topic)
    assert source.describe(topic).topic_id != first


@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_holds_the_last_stable_offset(broker, topic, commit):
    broker.create(topic)
    broker.append(topic, 0, [1, 2])
    broker.begin(topic, 0, [3, 4, 5])
    assert broker.source().describe(topic).partitions == {0: PartitionOffsets(0, 2, 5)}
    assert broker.source("read_uncommitted").describe(topic).partitions == {0: PartitionOffsets(0, 5, 5)}
    broker.end(topic, 0, commit=commit)
    # one more than the records: the control record has an offset
    expected = {0: PartitionOffsets(0, 6, 6)}
    source = broker.source()
    _eventually(lambda: source.describe(topic).partitions, expected)


def test_retention_moves_the_log_start(broker, topic):
    broker.create(topic)
    broker.append(topic, 0, list(range(10)))
    broker.trim(topic, 0, 4)
    assert broker.source().describe(topic).partitions == {0: PartitionOffsets(4, 10, 10)}


def test_a_log_trimmed_to_its_end(broker, topic):
    broker.create(topic)
    broker.append(topic, 0, [1, 2, 3])
    broker.trim(topic, 0, 3)
    assert broker.source().describe(topic).partitions == {0: PartitionOffsets(3, 3, 3)}


def test_added_partitions_appear(broker, topic):
    broker.create(topic, partitions=1)
    source = broker.source()
    assert list(source.describe(topic).partitions) == [0]
    broker.add_partitions(topic, 3)
    assert source.describe(topic).partitions == dict.fromkeys(range(3), PartitionOffsets(0, 0, 0))


def test_a_log_that_was_not_cut(broker, topic):
    broker.create(topic, partitions=2)
    broker.append(topic, 0, [1, 2, 3])
    source = broker.source()
    epochs = {p: o.leader_epoch for p, o in source.describe(topic).partitions.items()}
    assert None not in epochs.values()
    assert source.cuts(topic, {0: (3, epochs[0]), 1: (0, epochs[1])}) == {}
    assert source.cuts(topic, {0: (2, epochs[0])}) == {}
    broker.trim(topic, 0, 3)
    assert source.cuts(topic, {0: (1, epochs[0])}) == {}, "what retention took was not cut off"


def test_a_log_that_ends_below_what_was_planned_was_cut_at_its_end(broker, topic):
    broker.create(topic, partitions=2)
    broker.append(topic, 0, [1, 2, 3])
    source = broker.source()
    epochs = {p: o.leader_epoch for p, o in source.describe(topic).partitions.items()}
    assert source.cuts(topic, {0: (5, epochs[0]), 1: (1, epochs[1])}) == {0: 3, 1: 0}


def test_of_a_leader_epoch_that_the_broker_never_had_nothing_is_known(broker, topic):
    broker.create(topic)
    broker.append(topic, 0, [1, 2, 3])
    assert broker.source().cuts(topic, {0: (5, 99)}) == {}


def test_offsets_for_time(broker, topic):
    broker.create(topic, partitions=3)
    broker.append(topic, 0, [1000, 2000, 3000])
    broker.append(topic, 1, [1000])
    source = broker.source()
    assert source.offsets_for_time(topic, 2000) == {0: 1, 1: 1, 2: 0}
    assert source.offsets_for_time(topic, 2001) == {0: 2, 1: 1, 2: 0}
    assert source.offsets_for_time(topic, 1) == {0: 0, 1: 0, 2: 0}
    assert source.offsets_for_time(topic, 9000) == {0: 3, 1: 1, 2: 0}


def test_offsets_for_time_do_not_skip_an_open_transaction(broker, topic):
    broker.create(topic)
    broker.append(topic, 0, [1000])
    broker.begin(topic, 0, [2000, 3000])
    assert broker.source().offsets_for_time(topic, 1500) == {0: 1}
    broker.end(topic, 0, commit=True)


def test_a_group_commit_is_seen_by_a_consumer_of_that_group(broker, topic):
    broker.create(topic, partitions=2)
    broker.append(topic, 0, [1, 2, 3])
    source = broker.source()
    source.commit_group(f"tidegate-{topic}", topic, {0: 2, 1: 0})
    assert broker.committed(f"tidegate-{topic}", topic, [0, 1]) == {0: 2, 1: 0}
    source.commit_group(f"tidegate-{topic}", topic, {0: 3})
    assert broker.committed(f"tidegate-{topic}", topic, [0, 1]) == {0: 3, 1: 0}
    source.commit_group(f"tidegate-{topic}", topic, {})


def test_committed_offsets_are_told_to_whom_committed_them(broker, topic):
    broker.create(topic, partitions=2)
    broker.append(topic, 0, [1, 2, 3])
    source, group = broker.source(), f"tidegate-{topic}"
    assert source.committed_group(group, topic, "mine") == {}
    source.commit_group(group, topic, {0: 2, 1: 0}, "mine")
    source.commit_group(group, topic, {1: 0}, "another's")
    assert source.committed_group(group, topic, "mine") == {0: 2}
    assert source.committed_group(group, topic, "another's") == {1: 0}


def test_a_group_commit_for_a_partition_that_is_not_there(broker, topic):
    broker.create(topic)
    with pytest.raises(SourceError, match="partition 7"):
        broker.source().commit_group(f"tidegate-{topic}", topic, {7: 1})


def test_an_unknown_topic_is_named_and_no_retry_helps(broker, topic):
    source = broker.source()
    calls: list[Callable[[], object]] = [lambda: source.describe(topic), lambda: source.offsets_for_time(topic, 0)]
    for call in calls:
        with pytest.raises(SourceError, match=topic) as refused:
            call()
        assert not refused.value.retry


def test_a_broker_that_is_down_is_an_error_within_seconds(broker, topic):
    broker.create(topic)
    source = broker.unavailable()
    calls: list[Callable[[], object]] = [
        lambda: source.describe(topic),
        lambda: source.offsets_for_time(topic, 0),
        lambda: source.commit_group("g", topic, {0: 0}),
        lambda: source.committed_group("g", topic),
        lambda: source.cuts(topic, {0: (1, 0)}),
    ]
    started = time.monotonic()
    for call in calls:
        with pytest.raises(SourceUnavailable, match="Connection refused") as refused:
            call()
        assert refused.value.retry
    assert time.monotonic() - started < 30, "the usual limit is 10 s for each"


def test_settings_for_workers(broker):
    settings = broker.source("read_uncommitted").client_settings()
    assert settings["isolation.level"] == "read_uncommitted"
    assert settings["client.id"] == "tidegate"
    assert settings["bootstrap.servers"]


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


def _eventually(look: Callable[[], object], expected: object, seconds: float = PATIENCE_S) -> None:
    """A transaction's marker is written after the producer has its answer."""
    deadline = time.monotonic() + seconds
    while (found := look()) != expected and time.monotonic() < deadline:
        pass
    assert found == expected
