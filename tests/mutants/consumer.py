"""librdkafka's consumer on the fake broker, as far as the engine uses it; `auto.offset.reset` does what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import confluent_kafka

from tests.fakes.kafka import FakeKafka, Record
from tests.world import World
from tidegate.core.batch.jobs import ReadPlan
from tidegate.sources.kafka.worker import KafkaReader


class _Message:
    def __init__(self, record: Record | None, error: Any = None) -> None:
        self._record, self._error = record, error

    def error(self) -> Any:
        return self._error

    def offset(self) -> int:
        assert self._record is not None
        return self._record.offset

    def timestamp(self) -> tuple[int, int]:
        assert self._record is not None
        return (1, self._record.timestamp_ms)

    def key(self) -> bytes | None:
        return self._record and self._record.key

    def value(self) -> bytes | None:
        return self._record and self._record.value


class _Consumer:
    def __init__(self, kafka: FakeKafka, settings: dict[str, Any]) -> None:
        self._kafka, self._reset = kafka, settings["auto.offset.reset"]
        self._place: Any = None
        self._at = 0

    def assign(self, places: list[Any]) -> None:
        (self._place,) = places
        self._at = self._place.offset

    def consume(self, count: int, timeout: float) -> list[_Message]:
        topic, partition = self._place.topic, self._place.partition
        log = self._kafka.look(topic).partitions[partition]
        if self._at < log.log_start:
            if self._reset == "error":
                return [_Message(None, confluent_kafka.KafkaError(confluent_kafka.KafkaError._AUTO_OFFSET_RESET))]
            self._at = log.log_start if self._reset == "earliest" else log.high_watermark
        found = [r for r in self._kafka.records(topic, partition) if r.offset >= self._at][:count]
        self._at = found[-1].offset + 1 if found else log.high_watermark
        return [_Message(r) for r in found]

    def position(self, places: list[Any]) -> list[Any]:
        place = places[0]
        return [confluent_kafka.TopicPartition(place.topic, place.partition, self._at)]

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        log = self._kafka.look(place.topic).partitions[place.partition]
        return log.log_start, log.high_watermark

    def unassign(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def fake_consumers(world: World, before_reading: Callable[[], None]) -> Iterator[None]:
    """Jobs read by the engine's own reader; `before_reading` happens when it opens its first consumer."""
    happened: list[bool] = []

    class Opened(_Consumer):
        def __init__(self, settings: dict[str, Any], **_: Any) -> None:
            super().__init__(world.kafka, settings)
            if not happened:
                happened.append(True)
                before_reading()

    def reader(plan: ReadPlan, settings: dict[str, str] | None = None) -> KafkaReader:
        made = KafkaReader(plan, {"bootstrap.servers": "fake:9092"})
        made.topic_id = lambda: world.kafka.look(plan.topic).topic_id  # type: ignore[method-assign]
        return made

    with mock.patch.object(confluent_kafka, "Consumer", Opened), mock.patch.object(world.kafka, "reader", reader):
        yield
    assert happened, "no job read anything"
