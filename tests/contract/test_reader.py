"""A worker's reader and its fake give the same records for the same ranges."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest
from fakes.kafka import FakeKafka

from dev.stack.topics import create_topic
from spark_jobs.engine.failures import JobError
from tests.real_kafka import PATIENCE_S
from tests.source_suite import read
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import IngestPlan, JobPart
from tidegate.core.source.records import Reader
from tidegate.core.window.lateness import Floor
from tidegate.sources.kafka.control import KafkaSource
from tidegate.sources.kafka.worker import KafkaReader


@pytest.fixture(params=["fake", "real"])
def place(request: pytest.FixtureRequest) -> tuple[Reader, str, Callable]:
    """(reader, topic, source): partition 0 holds 0-4, [an aborted 5-7, marker 8], 9-11; partition 1 nothing.

    Offsets below 2 are gone.
    """
    topic = f"reader-{uuid.uuid4().hex[:12]}"
    plan = IngestPlan(
        attempt="1.1-x", attempt_dir="", pipeline=spec("read_committed"), bootstrap={}, topic=topic, topic_id="",
        parts=(), nonce="x",
    )  # fmt: skip
    if request.param == "fake":
        kafka = FakeKafka()
        kafka.create(topic, 2)
        _fill_fake(kafka, topic)
        return kafka.reader(plan), topic, lambda: kafka
    bootstrap = request.getfixturevalue("kafka").kafka_bootstrap
    _fill_real(bootstrap, topic)
    settings = {"bootstrap.servers": bootstrap}
    return KafkaReader(plan, settings), topic, lambda: KafkaSource(settings, "read_committed")


def spec(isolation: str) -> dict:
    """What a reader looks at of a compiled spec."""
    return {"name": "p", "source": {"isolation": isolation}, "format": {"type": "json"}}


def _fill_fake(kafka: FakeKafka, topic: str) -> None:
    for n in range(5):
        kafka.append(topic, 0, f"v{n}".encode(), key=b"k", timestamp_ms=1000 + n)
    kafka.begin(topic, 0)
    for _ in range(3):
        kafka.append(topic, 0, b"aborted")
    kafka.abort(topic, 0)
    kafka.append(topic, 0, b"", key=None, timestamp_ms=1009)
    kafka.append(topic, 0, None, key=b"k", timestamp_ms=1010)
    kafka.append(topic, 0, b"v11", key=b"k", timestamp_ms=1011)
    kafka.trim(topic, 0, 2)


def _fill_real(bootstrap: str, topic: str) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = {"bootstrap.servers": bootstrap}
    admin = AdminClient(settings)
    create_topic(settings, NewTopic(topic, 2, 1, config={"retention.ms": "-1"}))
    producer = Producer(settings)
    for n in range(5):
        producer.produce(topic, f"v{n}".encode(), b"k", 0, timestamp=1000 + n)
    assert producer.flush(PATIENCE_S) == 0
    transaction = Producer(settings | {"transactional.id": topic})
    transaction.init_transactions(PATIENCE_S)
    transaction.begin_transaction()
    for _ in range(3):
        transaction.produce(topic, b"aborted", partition=0)
    transaction.flush(PATIENCE_S)
    transaction.abort_transaction(PATIENCE_S)
    _wait_for_end(KafkaSource(settings, "read_committed"), topic, 9)
    producer.produce(topic, b"", None, 0, timestamp=1009)
    producer.produce(topic, None, b"k", 0, timestamp=1010)
    producer.produce(topic, b"v11", b"k", 0, timestamp=1011)
    assert producer.flush(PATIENCE_S) == 0
    at = TopicPartition(topic, 0, 2)
    admin.delete_records([at])[at].result()


def _wait_for_end(source: KafkaSource, topic: str, end: int) -> None:
    """A transaction's marker is written after its producer has the answer."""
    deadline = time.monotonic() + PATIENCE_S
    while source.look(topic).partitions[0].last_stable_offset != end:
        assert time.monotonic() < deadline


def test_ranges(place):
    reader, topic, _ = place
    whole = [
        (2, 1002, b"k", b"v2"),
        (3, 1003, b"k", b"v3"),
        (4, 1004, b"k", b"v4"),
        (9, 1009, None, b""),
        (10, 1010, b"k", None),
        (11, 1011, b"k", b"v11"),
    ]
    try:
        for start, end in ((2, 12), (2, 5), (3, 10), (4, 9), (5, 9), (6, 8), (6, 11), (11, 12), (4, 4), (12, 12)):
            expected = [row for row in whole if start <= row[0] < end]
            assert read(reader, topic, 0, start, end) == expected, (start, end)
        assert read(reader, topic, 1, 0, 0) == []
    finally:
        reader.close()


def test_what_retention_took_is_data_loss(place):
    reader, topic, _ = place
    try:
        with pytest.raises(JobError, match=r"data loss.*\[0, 5\)") as lost:
            read(reader, topic, 0, 0, 5)
        assert not lost.value.failure.retry
        assert (lost.value.failure.partition, lost.value.failure.offset) == (0, 0)
    finally:
        reader.close()


def test_a_range_past_the_end_of_the_log_is_data_loss(place):
    """Truncated after it was planned: waiting for producers to write other records there would read the wrong ones."""
    reader, topic, _ = place
    reader._stall_seconds = 1.0  # nothing comes: however long a busy broker took, it would be the same
    try:
        for start, end in ((9, 13), (14, 15)):
            with pytest.raises(JobError, match=rf"data loss.*\[{start}, {end}\).*the log now holds \[2, 12\)") as lost:
                read(reader, topic, 0, start, end)
            assert not lost.value.failure.retry
    finally:
        reader.close()


def test_uncommitted_records_are_seen_by_ranges_that_were_planned_so(place):
    """R1: a replay reads each range with the isolation of its batch, whatever the spec says today."""
    reader, topic, _ = place
    ours = OffsetRange(topic, 0, 4, 12)
    pinned = spec("read_uncommitted")
    reader._plan = replace(
        reader._plan,
        parts=(JobPart(batch_id=1, clock_ms=0, floor=Floor(0), ranges=(ours,), rules_version=1, pinned=pinned),),
    )
    try:
        assert [row[0] for row in read(reader, topic, 0, 4, 12)] == [4, 5, 6, 7, 9, 10, 11]
        assert [row[0] for row in read(reader, topic, 0, 5, 8)] == [5, 6, 7], "a task may get a piece of it"
        assert [row[0] for row in read(reader, topic, 0, 3, 12)] == [3, 4, 9, 10, 11], "another range: today's spec"
    finally:
        reader.close()


def test_both_sides_name_a_topic_alike(place):
    reader, topic, source = place
    assert reader.topic_id() == source().look(topic).topic_id
    reader.close()
