"""Create topics so that what is produced next stays in order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka.admin import NewTopic

_A_MOMENT_S = 0.05


def create_topic(settings: Mapping[str, Any], wanted: NewTopic, seconds: float = 30.0) -> None:
    """Returns when the broker leads every partition. Raises KafkaException when it can't, or not within `seconds`.

    A broker lists a topic a moment before it leads its partitions, and answers NOT_LEADER_OR_FOLLOWER in between.
    A producer's first request is then refused and its second accepted: the first records are retried behind the
    others, and `enable.idempotence` does not help, for a broker that knows nothing of a producer takes any sequence.
    """
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(dict(settings))  # held: its answers never come once it is gone
    admin.create_topics([wanted])[wanted.topic].result(seconds)
    await_leaders(settings, wanted.topic, wanted.num_partitions, seconds)


def await_leaders(settings: Mapping[str, Any], topic: str, partitions: int, seconds: float = 30.0) -> None:
    """Returns when the broker leads so many partitions. Raises KafkaException when it does not within `seconds`."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + seconds
    while True:
        try:
            return _ask_for_ends(settings, topic, partitions)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        time.sleep(_A_MOMENT_S)


def _ask_for_ends(settings: Mapping[str, Any], topic: str, partitions: int) -> None:
    """Only a partition's leader says where it ends. By a new client: one that asked too early remembers the answer."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient(dict(settings))
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
    for answer in admin.list_offsets(asked).values():
        answer.result()
