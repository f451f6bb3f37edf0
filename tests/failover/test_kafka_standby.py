"""Headers of a real topic, as a failover reads them, and Kafka's own fencing of a copier."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from dev.stack.info import StackInfo
from tests.real_kafka import PATIENCE_S, Topic
from tidegate.core.base.errors import SourceUnavailable
from tidegate.core.source.coordinates import HEADER
from tidegate.sources.kafka.standby import KafkaStandby


@pytest.fixture
def topic(kafka: StackInfo) -> Topic:
    return Topic(kafka.kafka_bootstrap, 2)


def copier(topic: Topic, who: str) -> Producer:
    made = Producer(topic.settings | {"transactional.id": who, "log_level": "2"})
    made.init_transactions(PATIENCE_S)
    return made


def send(producer: Producer, topic: Topic, *values: bytes | None) -> None:
    """In a transaction that is left open."""
    producer.begin_transaction()
    for value in values:
        producer.produce(topic.name, b"{}", partition=0, headers=[("other", b"x"), (HEADER, value)])
    assert producer.flush(PATIENCE_S) == 0


def standby(topic: Topic) -> KafkaStandby:
    return KafkaStandby(topic.settings, "read_committed", timeout_s=PATIENCE_S)


def test_headers_of_committed_records(topic: Topic) -> None:
    one = copier(topic, f"{topic.name}-c")
    send(one, topic, b"a:0:0:0", b"a:0:1:1")
    one.commit_transaction(PATIENCE_S)
    send(one, topic, b"aborted")
    one.abort_transaction(PATIENCE_S)
    topic.produce({"no": "header"})

    def found(*place: object) -> list[tuple[int, list[bytes | None]]]:
        return [(one.offset, one.sources) for one in standby(topic).records(*place)]

    end = topic.state().partitions[0].high_watermark
    assert found(topic.name, 0, end, 0) == [(0, [b"a:0:0:0"]), (1, [b"a:0:1:1"]), (5, [])]
    assert found(topic.name, 1, 2, 0) == [(1, [b"a:0:1:1"])]
    assert found(topic.name, 0, 0, 1) == []
    assert found(topic.name, 2, end, 0)[0] == (5, [])


def test_an_open_transaction_is_aborted_by_the_fence_and_its_copier_writes_no_more(topic: Topic) -> None:
    zombie = copier(topic, f"{topic.name}-z")
    send(zombie, topic, b"a:0:0:0")
    assert topic.state().partitions[0].last_stable_offset == 0
    standby(topic).fence([f"{topic.name}-z"])
    topic.settled()
    with pytest.raises(KafkaException):
        zombie.commit_transaction(PATIENCE_S)
    end = topic.state().partitions[0].high_watermark
    assert list(standby(topic).records(topic.name, 0, end, 0)) == []


def test_a_site_that_does_not_answer(topic: Topic) -> None:
    away = KafkaStandby({"bootstrap.servers": "127.0.0.1:1"}, "read_committed", timeout_s=1.0)
    with pytest.raises(SourceUnavailable):
        list(away.records(topic.name, 0, 1, 0))
    with pytest.raises(SourceUnavailable):
        away.fence(["nobody"])


def test_records_with_key_value_and_timestamp(topic: Topic) -> None:
    producer = Producer(topic.settings | {"log_level": "2"})
    producer.produce(topic.name, b"value", key=b"key", partition=0, timestamp=1_700_000_000_123)
    producer.produce(topic.name, None, partition=0, timestamp=1_700_000_000_122)
    assert producer.flush(PATIENCE_S) == 0
    one, other = standby(topic).records(topic.name, 0, 2, 0)
    assert (one.offset, one.timestamp_ms, one.key, one.value) == (0, 1_700_000_000_123, b"key", b"value")
    assert (other.offset, other.timestamp_ms, other.key, other.value) == (1, 1_700_000_000_122, None, None)
