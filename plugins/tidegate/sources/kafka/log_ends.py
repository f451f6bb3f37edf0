"""Where the records of later leaders begin in a log: the one question that only a consumer asks a broker.

librdkafka validates a position that has a leader epoch before it fetches from there (OffsetForLeaderEpoch). The answer
comes as an error with the offset in its text, or as a record, or the log's end, where the position is valid.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidegate.core.base.errors import SourceError, SourceUnavailable

_CUT = re.compile(r"truncation detected at .*broker end offset is (\d+) ")
_UNKNOWN_EPOCH = "No epoch found less or equal"
_POLL_S = 0.2


def cuts(
    settings: Mapping[str, Any], topic: str, ends: Mapping[int, tuple[int, int]], timeout_s: float
) -> dict[int, int]:
    """`core.source.port.Source.cuts`. Raises SourceUnavailable where a partition gives no answer within `timeout_s`."""
    said: list[str] = []
    consumer = Consumer(
        dict(settings)
        | {
            "group.id": str(settings.get("client.id", "tidegate")),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "fetch.wait.max.ms": 5,
            "fetch.message.max.bytes": 1000,
            "log_level": "2",
            "error_cb": lambda e: None if e.code() == KafkaError._ALL_BROKERS_DOWN else said.append(e.str()),
        }
    )
    found: dict[int, int] = {}
    waiting, deadline = set(ends), time.monotonic() + timeout_s
    try:
        consumer.assign([TopicPartition(topic, p, end, leader_epoch=epoch) for p, (end, epoch) in ends.items()])
        while waiting:
            for message in consumer.consume(100, timeout=_POLL_S):
                partition = message.partition()
                if partition in waiting and _answered(message, found):
                    waiting.discard(partition)
            if waiting and time.monotonic() > deadline:
                what = f"whether the log of topic {topic}, partition {min(waiting)} was cut"
                raise SourceUnavailable(f"Kafka has no answer for {what}: {'; '.join(said[-1:]) or 'it says nothing'}")
    except KafkaException as error:
        raise SourceError(f"Kafka refused to say whether the log of {topic} was cut: {error.args[0].str()}") from error
    finally:
        consumer.close()
    return {p: start for p, start in found.items() if start < ends[p][0]}


def _answered(message: Message, found: dict[int, int]) -> bool:
    """Whether this is an answer; a cut is noted. Any other error than these passes: the client asks again."""
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise SourceError(f"Kafka refuses to let {message.topic()} be read: {error.str()}")
    if error.code() != KafkaError._AUTO_OFFSET_RESET:
        return False
    cut = _CUT.search(error.str())
    partition = message.partition()
    if cut is not None and partition is not None:
        found[partition] = int(cut[1])
    elif "truncation" in error.str() and _UNKNOWN_EPOCH not in error.str():
        raise SourceError(f"the Kafka client's answer is not understood: {error.str()}")
    return True
