"""A Kafka topic at a site that is not active: what its copies are of, and who copies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.failover.counting import Copied
from tidegate.core.source.coordinates import HEADER
from tidegate.core.spec import pipeline
from tidegate.sources.kafka.control import KafkaSource, connection_settings
from tidegate.sources.kafka.worker import headers_of

_AT_ONCE = 5_000
_WAIT_S = 0.5


class KafkaStandby(KafkaSource):
    """core.failover.states.Standby."""

    def records(self, topic: str, start: int, end: int, partition: int) -> Iterator[Copied]:
        """Read up to `end`, or to where a reader can come now. Raises SourceUnavailable."""
        place = TopicPartition(topic, partition, start)
        consumer = self._consumer()
        moved = time.monotonic()
        try:
            consumer.assign([place])
            while True:
                messages = consumer.consume(_AT_ONCE, _WAIT_S)
                if messages:
                    moved = time.monotonic()
                elif time.monotonic() - moved > self._timeout_s:
                    raise SourceUnavailable(f"{self._place(topic, partition)}: nothing comes from offset {start} on")
                for message in messages:
                    error = message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise SourceUnavailable(f"{self._place(topic, partition)}: {error.str()}")
                    if error is not None or message.offset() >= end:
                        return
                    yield _copied(message)
        except KafkaException as e:
            raise SourceUnavailable(f"{self._place(topic, partition)}: {e.args[0].str()}") from e
        finally:
            consumer.close()

    def fence(self, copiers: Sequence[str]) -> None:
        """By Kafka's own fencing: who has begun a transaction with such an id ends with an error at the next call."""
        for copier in copiers:
            try:
                producer = Producer(self._client_settings() | {"transactional.id": copier})
                producer.init_transactions(self._timeout_s)
            except KafkaException as e:
                error = e.args[0]
                message = f"copier {copier} is not fenced: {error.str()}"
                raise (SourceUnavailable if error.retriable() else SourceError)(message) from e

    def _consumer(self) -> Consumer:
        ours = {
            "group.id": "tidegate-failover",  # nothing is committed
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "error",
        }
        return Consumer(self._settings | {"log_level": "2"} | ours)

    def _client_settings(self) -> dict[str, Any]:
        return {k: v for k, v in self._settings.items() if k != "isolation.level"} | {"log_level": "2"}

    def _place(self, topic: str, partition: int) -> str:
        return f"topic {topic} at {self._settings.get('bootstrap.servers', '')}, partition {partition}"


def _copied(message: Message) -> Copied:
    kind, timestamp_ms = message.timestamp()
    sources = [v for name, v in headers_of(message) or () if name in (HEADER, None)]
    offset = cast(int, message.offset())
    at = timestamp_ms if kind != TIMESTAMP_NOT_AVAILABLE else -1
    return Copied(offset, at, cast("bytes | None", message.key()), cast("bytes | None", message.value()), sources)


def opened(connection: Connection, source: pipeline.Source, client_id: str, timeout_s: float) -> KafkaStandby:
    """Raises SourceError."""
    settings = connection_settings(connection.extra)
    return KafkaStandby(settings, source.isolation, client_id=client_id, timeout_s=timeout_s)
