"""Exact offset ranges, read from Kafka with librdkafka: every record of the range once, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.engine.failures import refuse
from tidegate.core.batch import JobPlan
from tidegate.core.offsets import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

FETCH = {
    "queued.max.messages.kbytes": 65_536,
    "fetch.queue.backoff.ms": 5,  # the default of one second costs more than all decoding
    "fetch.message.max.bytes": 8_388_608,
    "fetch.max.bytes": 52_428_800,
}
FIRST_ASK, MOST_RECORDS, CHUNK_BYTES = 200, 20_000, 24 * 1024 * 1024
WAIT_SECONDS = 0.2
STALL_SECONDS = 60.0


@dataclass(frozen=True)
class Chunk:
    """Records of one Kafka partition in order of offset, as columns. `timestamps` are epoch ms, UTC."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]

    def __len__(self) -> int:
        return len(self.offsets)


class Reader:
    """Where a task gets its records from. Fakes override `read`, and `topic_id` to be asked for it."""

    def topic_id(self) -> str | None:
        """The topic's id as the broker knows it now; None: not known, not checked."""
        return None

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        """Every record of the range, ascending; offsets without a record are left out. Raises JobError."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of connections."""


class KafkaReader(Reader):
    """`settings` are librdkafka's, secrets included."""

    def __init__(self, plan: JobPlan, settings: dict[str, Any], stall_seconds: float = STALL_SECONDS) -> None:
        self._topic, self._stall_seconds = plan.topic, stall_seconds
        self._client = f"tidegate-{plan.pipeline['name']}"
        self._settings = {**settings, "client.id": self._client}
        self._isolation = plan.pipeline["source"]["isolation"]
        self._consumer: Consumer | None = None
        self._last_error = ""

    def topic_id(self) -> str | None:
        from confluent_kafka import KafkaException, TopicCollection
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self._settings, logger=_quiet_logger())
        try:
            future = admin.describe_topics(TopicCollection([self._topic]), request_timeout=30)[self._topic]
            return str(future.result().topic_id)
        except KafkaException as e:
            raise refuse(
                f"topic {self._topic}: {e.args[0].str()}",
                advice="check the topic's name and the Kafka connection",
                retry=True,
            ) from None

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        from confluent_kafka import TopicPartition

        consumer = self._open()
        consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])
        at, ask, moved = wanted.start, FIRST_ASK, time.monotonic()
        while at < wanted.end:
            messages = consumer.consume(min(ask, wanted.end - at), timeout=WAIT_SECONDS)
            chunk, size, past = self._chunk(messages, wanted)
            if chunk:
                yield chunk
                ask = max(1, min(MOST_RECORDS, CHUNK_BYTES * len(chunk) // max(size, 1), ask * 8))
            if past:
                break
            reached = self._position(consumer, wanted) if not chunk else chunk.offsets[-1] + 1
            if reached > at:
                at, moved = reached, time.monotonic()
            elif time.monotonic() - moved > self._stall_seconds:
                raise self._stalled(wanted, at)
        consumer.unassign()

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open(self) -> Consumer:
        if self._consumer is None:
            from confluent_kafka import Consumer

            self._consumer = Consumer(
                {
                    **FETCH,
                    **self._settings,
                    "group.id": self._client,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    "isolation.level": self._isolation,
                    "error_cb": self._note_error,
                },
                logger=_quiet_logger(),
            )
        return self._consumer

    def _note_error(self, error: Any) -> None:
        self._last_error = error.str()

    def _chunk(self, messages: list[Message], wanted: OffsetRange) -> tuple[Chunk | None, int, bool]:
        """The messages inside the range, their bytes, and whether one at or past its end was among them."""
        if any(m.error() for m in messages):
            for message in messages:
                self._check(message, wanted)
            messages = [m for m in messages if not m.error()]
        past = bool(messages) and messages[-1].offset() >= wanted.end
        if past:
            messages = [m for m in messages if m.offset() < wanted.end]
        if not messages:
            return None, 0, past
        values = [m.value() for m in messages]
        chunk = Chunk(
            [m.offset() for m in messages], [m.timestamp()[1] for m in messages], [m.key() for m in messages], values
        )
        return chunk, sum(len(v) for v in values if v is not None), past

    def _check(self, message: Message, wanted: OffsetRange) -> None:
        from confluent_kafka import KafkaError

        error = message.error()
        if error is None:
            return
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise self._gone(wanted)
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
            raise refuse(
                f"topic {wanted.topic} has no partition {wanted.partition} on this broker",
                advice="check that the connection points to the cluster that was planned from",
                partition=wanted.partition,
                retry=True,
            )
        self._last_error = error.str()

    def _gone(self, wanted: OffsetRange) -> Exception:
        from confluent_kafka import KafkaException, TopicPartition

        try:
            place = TopicPartition(wanted.topic, wanted.partition)
            low, high = self._open().get_watermark_offsets(place, timeout=10)
            now = f"the log now holds [{low}, {high})"
        except KafkaException as e:
            now = f"the log's present bounds are not known: {e.args[0].str()}"
        return refuse(
            f"data loss: {wanted.topic} partition {wanted.partition}, planned offsets "
            f"[{wanted.start}, {wanted.end}) are not all in the topic any more; {now}",
            advice="the offsets cannot be read again: abandon the batch, or restore the topic",
            partition=wanted.partition,
            offset=wanted.start,
        )

    def _position(self, consumer: Consumer, wanted: OffsetRange) -> int:
        from confluent_kafka import TopicPartition

        # moves over control records, aborted tails and compacted gaps without a message
        return consumer.position([TopicPartition(wanted.topic, wanted.partition)])[0].offset

    def _stalled(self, wanted: OffsetRange, at: int) -> Exception:
        why = f"; the client's last error: {self._last_error}" if self._last_error else ""
        return refuse(
            f"no progress in {self._stall_seconds:g} s: {wanted.topic} partition {wanted.partition} at offset {at} "
            f"of [{wanted.start}, {wanted.end}){why}",
            advice="check the broker and the partition's leader; the next try reads the same offsets",
            partition=wanted.partition,
            offset=at,
            retry=True,
        )


def _quiet_logger() -> Any:
    """librdkafka's own lines go nowhere: errors are reported by the failures that they cause."""
    import logging

    logger = logging.getLogger("tidegate.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
