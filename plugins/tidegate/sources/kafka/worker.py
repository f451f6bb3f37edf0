"""Exact offset ranges, read from Kafka with librdkafka: every record of the range once, and nothing else."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import ReadPlan, isolation_of, wants_headers
from tidegate.core.files.failure import JobError
from tidegate.core.source import unreadable
from tidegate.core.source.records import Chunk, Headers, Reader, bytes_of
from tidegate.sources.kafka import unreadable as kafkas

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

FETCH = {
    # what is fetched beyond the end of a range is thrown away; more of it waiting makes nothing faster
    "queued.max.messages.kbytes": 4_096,
    "fetch.queue.backoff.ms": 5,  # the default of one second costs more than all decoding
    # what is asked for is there already; by default a task waits half a second before it is sent the next partition
    "fetch.wait.max.ms": 5,
    "fetch.message.max.bytes": 2_097_152,
    "fetch.max.bytes": 52_428_800,
    "check.crcs": True,  # costs nothing that can be measured
}
FIRST_ASK, MOST_RECORDS, CHUNK_BYTES = 200, 20_000, 24 * 1024 * 1024
# of a range whose last offset has no record, such as the end of a transaction, the client waits for one so long
WAIT_SECONDS = 0.005
STALL_SECONDS = 60.0
ANSWER_SECONDS, LOOK_SECONDS = 30.0, 10.0


class KafkaReader(Reader):
    """`settings` are librdkafka's, secrets included. Whatever happens to the broker, a read ends: it gives up after
    `stall_seconds` without progress, and says why as far as the broker can tell."""

    def __init__(self, plan: ReadPlan, settings: dict[str, Any], stall_seconds: float = STALL_SECONDS) -> None:
        self._plan, self._topic, self._stall_seconds = plan, plan.topic, stall_seconds
        self._client = f"tidegate-{plan.pipeline['name']}"
        self._settings = {**settings, "client.id": self._client}
        self._brokers = str(settings.get("bootstrap.servers", ""))
        self._consumers: dict[str, Consumer] = {}
        self._with_headers = wants_headers(plan)
        self._last_error = self._over_limit = ""

    def topic_id(self) -> str | None:
        return self._topic_id(ANSWER_SECONDS)

    def _topic_id(self, seconds: float) -> str:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection
        from confluent_kafka.admin import AdminClient

        admin = self._client_of(AdminClient, {"error_cb": self._note_error})
        try:
            future = admin.describe_topics(TopicCollection([self._topic]), request_timeout=seconds)[self._topic]
            return str(future.result().topic_id)
        except KafkaException as e:
            error = e.args[0]
            if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                raise kafkas.no_topic(self._topic, self._brokers) from None
            admin.poll(0)  # delivers what the client's threads have complained about
            raise kafkas.no_answer(self._topic, self._brokers, self._last_error or error.str()) from None

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(isolation_of(self._plan, wanted))
        consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])
        at, ask, moved = wanted.start, FIRST_ASK, time.monotonic()
        while at < wanted.end:
            asked = min(ask, wanted.end - at)
            with _no_collection():
                messages = consumer.consume(asked, timeout=WAIT_SECONDS)
                chunk, size, past = self._chunk(messages, wanted, at)
                got = len(messages)
                del messages  # thousands of objects, which the next ones take the place of
            if chunk:
                yield chunk
                ask = max(1, min(MOST_RECORDS, CHUNK_BYTES * len(chunk) // max(size, 1), ask * 8))
            if past:
                break
            reached = chunk.offsets[-1] + 1 if chunk else at
            if got < asked:
                reached = max(reached, self._position(consumer, wanted))
            if reached > at:
                at, moved = reached, time.monotonic()
            elif self._over_limit:
                raise kafkas.too_large(wanted, at, self._over_limit)
            elif time.monotonic() - moved > self._stall_seconds:
                raise self._why(wanted, at)
        consumer.unassign()

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def _consumer(self, isolation: str) -> Consumer:
        if isolation not in self._consumers:
            from confluent_kafka import Consumer

            ours = {
                "group.id": self._client,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": isolation,
                "error_cb": self._note_error,
            }
            self._consumers[isolation] = self._client_of(Consumer, ours)
        return self._consumers[isolation]

    def _client_of(self, kind: type[Any], ours: dict[str, Any]) -> Any:
        from confluent_kafka import Consumer, KafkaException

        fetch = FETCH if issubclass(kind, Consumer) else {}
        try:
            return kind({**fetch, **self._settings, **ours}, logger=_quiet_logger())
        except (KafkaException, TypeError, ValueError) as e:
            why = e.args[0].str() if isinstance(e, KafkaException) else str(e)
            raise kafkas.wrong_settings(why) from None

    def _note_error(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        text = re.sub(r" \(after \d+ms in state \w+\)", "", error.str())
        if error.code() == KafkaError._BAD_MSG and "receive.message.max.bytes" in text:
            self._over_limit = text
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._last_error:  # it says less than what led to it
            self._last_error = text

    def _chunk(self, messages: list[Message], wanted: OffsetRange, at: int) -> tuple[Chunk | None, int, bool]:
        """The messages inside the range, their bytes, and whether one at or past its end was among them."""
        if messages and any(map(type(messages[0]).error, messages)):
            for message in messages:
                self._check(message, wanted, at)
            messages = [m for m in messages if not m.error()]
        past = bool(messages) and messages[-1].offset() >= wanted.end
        if past:
            messages = [m for m in messages if m.offset() < wanted.end]
        if not messages:
            return None, 0, past
        kind = type(messages[0])  # its methods cost half of what they cost by way of each message
        keys, values = list(map(kind.key, messages)), list(map(kind.value, messages))
        key_bytes, value_bytes = bytes_of(keys), bytes_of(values)
        chunk = Chunk(
            list(map(kind.offset, messages)),
            [stamp for _, stamp in map(kind.timestamp, messages)],
            keys,
            values,
            [headers_of(m) for m in messages] if self._with_headers else None,
            key_bytes + value_bytes,
        )
        return chunk, value_bytes + _beside_values(chunk, key_bytes), past

    def _check(self, message: Message, wanted: OffsetRange, at: int) -> None:
        from confluent_kafka import KafkaError

        error = message.error()
        if error is None:
            return
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise self._why(wanted, at, lost=True)
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
            self._refuse_if_recreated()  # or gone altogether
            raise unreadable.no_partition(wanted)
        # without a topic it is the connection's: an answer too large to receive takes others down with it
        if message.topic() and error.code() in (
            KafkaError._BAD_MSG,
            KafkaError._BAD_COMPRESSION,
            KafkaError.INVALID_MSG,
        ):
            raise unreadable.damaged(wanted, max(at, message.offset() or 0), error.str())
        self._last_error = error.str()

    def _why(self, wanted: OffsetRange, at: int, *, lost: bool = False) -> JobError:
        """What to report of a range that gives nothing more from `at` on: looks at the topic and at its log once.

        `lost`: the broker has said already that the offset is outside the log."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            self._refuse_if_recreated()
            place = TopicPartition(wanted.topic, wanted.partition)
            isolation = isolation_of(self._plan, wanted)
            low, high = self._consumer(isolation).get_watermark_offsets(place, timeout=LOOK_SECONDS)
        except JobError as e:
            if lost and e.failure.retry:
                return unreadable.gone(wanted, at, f"the log's present bounds are not known: {e}")
            return JobError(replace(e.failure, partition=wanted.partition, offset=at))
        except KafkaException as e:
            why = e.args[0].str()
            if lost:
                return unreadable.gone(wanted, at, f"the log's present bounds are not known: {why}")
            return unreadable.stalled(wanted, at, self._stall_seconds, self._last_error or why)
        if lost or at < low or high < wanted.end:
            return unreadable.gone(wanted, at, f"the log now holds [{low}, {high})")
        return unreadable.stalled(wanted, at, self._stall_seconds, self._last_error)

    def _refuse_if_recreated(self) -> None:
        found = self._topic_id(LOOK_SECONDS)
        if self._plan.topic_id and found != self._plan.topic_id:
            raise unreadable.recreated(self._topic, self._plan.topic_id, found)

    def _position(self, consumer: Consumer, wanted: OffsetRange) -> int:
        from confluent_kafka import TopicPartition

        # moves over control records, aborted tails and compacted gaps without a message
        at: int = consumer.position([TopicPartition(wanted.topic, wanted.partition)])[0].offset
        return at


@contextmanager
def _no_collection() -> Iterator[None]:
    """Messages are in no cycles, but so many that Python would look for some again and again: a quarter of a fetch."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def headers_of(message: Message) -> Headers | None:
    """A name that is no UTF-8 makes the client fail, whatever the other headers are: those are not known.

    Called through `map`, and once for each message: the client returns a list with a hole in it and an error beside
    it. Where Python calls the same method often it stops looking for that error, and the hole ends the process."""
    try:
        found: Headers | None = next(map(type(message).headers, (message,)))
        return found
    except (SystemError, UnicodeDecodeError):
        return [(None, None)]


def _beside_values(chunk: Chunk, key_bytes: int) -> int:
    """Bytes of keys and headers where headers were asked for: they may be larger than the values."""
    if chunk.headers is None:
        return 0
    return key_bytes + sum(len(n or "") + len(v or b"") for headers in chunk.headers for n, v in headers or ())


def _quiet_logger() -> Any:
    """librdkafka's own lines go nowhere: errors are reported by the failures that they cause."""
    import logging

    logger = logging.getLogger("tidegate.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
