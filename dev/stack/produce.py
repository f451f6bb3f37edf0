"""Lines of a file as messages of a topic: a newcomer's own data in the trial's Kafka."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from dev.stack.errors import StackError
from dev.stack.rocketmq_tools import RocketMQ
from dev.stack.topics import create_topic

_FLUSH_S = 60.0


class Sent(NamedTuple):
    messages: int
    partitions: int


def produce_lines(bootstrap: str, topic: str, lines: Iterable[bytes], key: str | None, partitions: int) -> Sent:
    """Each line that is not empty is a message; `key` names the field of a JSON message that is its key. A topic that
    is missing is created. Raises StackError when Kafka has not taken every one."""
    from confluent_kafka import KafkaException, Producer

    settings = {"bootstrap.servers": bootstrap, "log_level": "2"}  # a broker that has just started makes it chatter
    failed: list[str] = []

    def told(error: object, _message: object) -> None:
        if error is not None:
            failed.append(str(error))

    try:
        there = _ensure(settings, topic, partitions)
        producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 20})
        count = 0
        for line in lines:
            value = line.rstrip(b"\r\n")
            if not value:
                continue
            known = _key(value, key)
            # without keys in turn: partitions that come forward together let windows close together
            place = {"partition": count % there} if known is None else {}
            while True:
                try:
                    producer.produce(topic, value, key=known, on_delivery=told, **place)
                    break
                except BufferError:
                    producer.poll(0.5)
            count += 1
            producer.poll(0)
        waiting = producer.flush(_FLUSH_S)
    except KafkaException as e:
        raise StackError(f"Kafka at {bootstrap} did not take the messages: {e.args[0].str()}") from e
    if failed or waiting:
        why = failed[0] if failed else f"no answer within {_FLUSH_S:g} s"
        raise StackError(f"{len(failed) + waiting:,} of {count:,} messages are not in topic {topic}: {why}")
    return Sent(count, there)


def produce_to_rocketmq(namesrv: str, topic: str, lines: Iterable[bytes], key: str | None, partitions: int) -> Sent:
    """The same for RocketMQ, one message after another: a key chooses its queue. Raises StackError."""
    tools = RocketMQ(namesrv)
    try:
        queues = tools.queues(topic).get("broker-a", 0)
        if not queues:
            tools.create(topic, queues := partitions)
        count = 0
        for line in lines:
            value = line.rstrip(b"\r\n")
            if not value:
                continue
            known = _key(value, key)
            queue = count % queues if known is None else zlib.crc32(known) % queues
            tools.send(topic, value, queue, key=None if known is None else known.decode("utf-8", "replace"))
            count += 1
    finally:
        tools.close()
    return Sent(count, queues)


def _ensure(settings: dict[str, str], topic: str, partitions: int) -> int:
    """The number of partitions that the topic has."""
    from confluent_kafka.admin import AdminClient, NewTopic

    found = AdminClient(settings).list_topics(timeout=10).topics.get(topic)
    if found is not None and found.partitions:
        return len(found.partitions)
    create_topic(settings, NewTopic(topic, num_partitions=partitions, replication_factor=1))
    return partitions


def _key(value: bytes, field: str | None) -> bytes | None:
    if field is None:
        return None
    try:
        found = json.loads(value)
        found = found.get(field) if isinstance(found, dict) else None
    except ValueError:
        return None
    return None if found is None else (found if isinstance(found, str) else json.dumps(found)).encode()
