"""A topic that is made is one that keeps order."""

from __future__ import annotations

import uuid

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from dev.stack.topics import create_topic
from tidegate.sources.kafka.control import KafkaSource

TOPICS, PARTITIONS = 10, 20
ONE_EACH = {"linger.ms": 0, "batch.num.messages": 1, "log_level": 2}
"""A request for each record, or the broker could not refuse the first and take the second."""


def test_what_is_produced_right_after_the_topic_was_made_stays_in_order(kafka):
    """Without the wait for leaders one topic in three was out of order on a busy machine."""
    settings = {"bootstrap.servers": kafka.kafka_bootstrap}
    source = KafkaSource(settings, "read_committed")
    for _ in range(TOPICS):
        name = f"order-{uuid.uuid4().hex[:12]}"
        create_topic(settings, NewTopic(name, PARTITIONS, 1, config={"retention.ms": "-1"}))
        producer = Producer(settings | ONE_EACH)
        for partition in range(PARTITIONS):
            for stamp in (1000, 2000, 3000):
                producer.produce(name, b"x", partition=partition, timestamp=stamp)
        assert producer.flush(30) == 0
        assert source.offsets_at(name, 2000) == dict.fromkeys(range(PARTITIONS), 1)
        assert source.offsets_at(name, 3000) == dict.fromkeys(range(PARTITIONS), 2)
