"""What `tidegate doctor` looks at of a pipeline's Kafka topic: its settings, and what we may do with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError
from tidegate.core.doctor.findings import WARNING, Finding
from tidegate.core.doctor.rules import keeps, refused
from tidegate.core.spec.pipeline import Pipeline
from tidegate.sources.kafka.control import KafkaSource, connection_settings

_DAY_MS = 86_400_000


def examined(
    pipeline: Pipeline, connection: Connection, seconds: float, ask: Callable[[Callable[[], Any]], Any]
) -> list[Finding]:
    """`ask` makes the first question, if the server has not left another one unanswered."""
    source, name = pipeline.source, pipeline.name
    try:
        settings = connection_settings(connection.extra)
        kafka = KafkaSource(settings, source.isolation, client_id="tidegate-doctor", timeout_s=seconds / 3)
        state = ask(lambda: kafka.look(source.topic))
    except TidegateError as e:
        return [refused("kafka", name, str(e.args[0]), "no batch can be planned", e.advice)]
    planned = pipeline.windows.watermark_delay_ms + _DAY_MS
    found = [topic(name, source.topic, state.retention_ms, state.deletes, planned)]
    filled = [(p, o) for p, o in sorted(state.partitions.items()) if o.high_watermark > o.log_start]
    for partition, offsets in filled[:1]:
        said = may_read(settings, source.topic, partition, offsets.log_start, seconds / 3)
        if said:
            what, mend = f"topic {source.topic}: records cannot be read: {said}", "allow Read on the topic"
            found.append(refused("kafka", name, what, "jobs fail", mend))
    try:
        kafka.remembered(f"tidegate-{name}", source.topic)
    except TidegateError as e:
        means = "only Kafka's own view of the lag is missing; a restored ledger is noticed later"
        mend = f"allow Read on the group tidegate-{name}"
        found.append(refused("kafka", name, str(e.args[0]), means, mend, WARNING))
    return found


def topic(pipeline: str, name: str, retention_ms: int | None, deletes: bool | None, planned_ms: int) -> Finding:
    """`planned_ms`: how far behind reading may be without a loss that surprises (its watermark delay and a day)."""
    longer = f"raise the topic's retention.ms (now {retention_ms or 0:,}) above {planned_ms:,}"
    allow = "allow DescribeConfigs on the topic"
    return keeps("kafka", pipeline, name, retention_ms, deletes, planned_ms, longer, allow)


def may_read(settings: Mapping[str, str], topic: str, partition: int, offset: int, timeout_s: float) -> str:
    """Why Kafka gives us no record of the partition (from `offset`, where there is one); "" if it does, or is slow.

    No group is joined and nothing is committed."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {"group.id": "tidegate-doctor", "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **own, "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        message = consumer.poll(timeout_s)
        error = message.error() if message is not None else None
        return "" if error is None or error.retriable() else error.str()
    except KafkaException as e:
        return str(e.args[0].str() if e.args and hasattr(e.args[0], "str") else e)
    finally:
        consumer.close()
