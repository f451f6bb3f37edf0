"""Counts of windows from an audit topic: JSON messages that each say how many records a window should have.

Messages are looked for from the window's start on, by Kafka's timestamps, up to the last stable offset at the moment of
the question. No group is joined and no offset committed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from tidegate.completeness.counts_json import NotThere, count_in, parsed, shortened, value_at
from tidegate.core.base.errors import SourceError, TruthUnknown
from tidegate.core.completeness.rules import LARGEST_COUNT, count_of
from tidegate.core.spec.pipeline import Completeness
from tidegate.core.window.states import WindowKey

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

TIMEOUT_S = 60.0
"""Seconds for all of a topic that a question needs."""
MOST_MESSAGES = 200_000
"""Most messages that one question reads; the topic is meant to hold a few for each window."""
_ASK, _WAIT_S, _LIMIT_S = 1000, 0.2, 10.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TopicTruth:
    """Counts from a topic. `extra` is a Kafka connection's; `timezone` is that of a window's text without an offset.

    Without `source_path` the counts of all messages of a window are added up; with it the newest of each source."""

    def __init__(
        self, extra: Mapping[str, Any], settings: Completeness, timezone: str, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._extra, self._settings, self._zone = extra, settings, ZoneInfo(timezone)
        self._topic, self._timeout_s = str(settings.topic), timeout_s

    def expected(self, window: WindowKey) -> int | None:
        """The window's count. Raises TruthUnknown, also for an unreadable message: it may be about any window."""
        newest: dict[str, tuple[tuple[int, int, int], int | None]] = {}
        for message in self._messages(window.start_ms):
            found = self._count(message, window)
            if found is None:
                continue
            source, count = found
            at = (message.timestamp()[1], message.partition() or 0, message.offset() or 0)
            if source not in newest or newest[source][0] < at:
                newest[source] = (at, count)
        counts = [count for _, count in newest.values()]
        if not counts or None in counts:  # a source that does not know yet
            return None
        try:
            return count_of(sum(count for count in counts if count is not None))
        except ValueError as e:
            raise TruthUnknown(f"{self._topic}: all counts together: {e}") from None

    def _count(self, message: Message, window: WindowKey) -> tuple[str, int | None] | None:
        """Source and count in a message; None for a message of another window."""
        content, settings = message.value(), self._settings
        if content is None:
            return None
        place = f"{self._topic} partition {message.partition()} offset {message.offset()}"
        document = parsed(content, place)
        try:
            value = value_at(document, str(settings.window_path))
        except NotThere:
            return None
        starts = self._starts(value, place)
        if window.start_ms not in starts:
            return None
        size = window.end_ms - window.start_ms
        if any(start != window.start_ms and (start - window.start_ms) % size == 0 for start in starts):
            raise TruthUnknown(
                f"{place}: {settings.window_path}: {value!r} comes twice in {self._zone.key}: write it with an offset"
            )
        count = count_in(document, str(settings.count_path), place)
        if settings.source_path is None:
            return f"{message.partition()}:{message.offset()}", count
        try:
            return json.dumps(value_at(document, settings.source_path), sort_keys=True, default=str), count
        except NotThere:
            raise TruthUnknown(f"{place}: nothing at {settings.source_path}") from None

    def _starts(self, value: Any, place: str) -> set[int]:
        """The instants (UTC ms) that it may mean: two where clocks read a local time twice, none where they skip it."""
        number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        # the bound first: to make an integer of 1e999999999 would take hours, and abs() of it is an overflow
        if number and -LARGEST_COUNT <= value <= LARGEST_COUNT and value == int(value):
            return {int(value)}
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            what = f"{self._settings.window_path}: neither epoch ms nor an ISO 8601 time"
            raise TruthUnknown(f"{place}: {what}: {shortened(repr(value))}") from None
        if moment.tzinfo is not None:
            return {_ms(moment)}
        local = (moment.replace(tzinfo=self._zone, fold=fold) for fold in (0, 1))
        return {_ms(at) for at in local if at.astimezone(UTC).astimezone(self._zone).replace(tzinfo=None) == moment}

    def _messages(self, since_ms: int) -> Iterator[Message]:
        from tidegate.sources.kafka.control import READ_COMMITTED, KafkaSource, connection_settings

        end = time.monotonic() + self._timeout_s
        try:
            settings = connection_settings(self._extra)
            source = KafkaSource(
                settings, READ_COMMITTED, client_id="tidegate-counts", timeout_s=min(_LIMIT_S, self._timeout_s)
            )
            state = source.look(self._topic)
            starts = source.offsets_at(self._topic, since_ms)
        except SourceError as e:
            raise TruthUnknown(f"{self._topic}: {shortened(str(e).splitlines()[0])}") from None
        ranges = {
            p: (max(starts.get(p, at.log_start), at.log_start), at.last_stable_offset)
            for p, at in state.partitions.items()
        }
        ranges = {p: (first, last) for p, (first, last) in ranges.items() if first < last}
        wanted = sum(last - first for first, last in ranges.values())
        if wanted > MOST_MESSAGES:
            raise TruthUnknown(
                f"{self._topic} has {wanted:,} offsets since the window's start, more than {MOST_MESSAGES:,}: "
                "give the counts a topic of their own"
            )
        if ranges:
            yield from self._read(settings, ranges, end)

    def _read(self, settings: Mapping[str, str], ranges: dict[int, tuple[int, int]], end: float) -> Iterator[Message]:
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        from tidegate.sources.kafka.control import READ_COMMITTED

        ours = {
            "group.id": "tidegate-counts",  # needed to make one, never joined
            "client.id": "tidegate-counts",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": READ_COMMITTED,
            "log_level": "2",
        }
        try:
            consumer = Consumer({**settings, **ours})
        except (KafkaException, ValueError) as e:
            raise TruthUnknown(f"{self._topic}: the Kafka connection's settings are wrong: {e}") from None
        try:
            consumer.assign([TopicPartition(self._topic, p, first) for p, (first, _) in ranges.items()])
            left = dict(ranges)
            while left:
                for message in consumer.consume(_ASK, timeout=_WAIT_S):
                    error = message.error()
                    if error is not None:
                        raise TruthUnknown(f"{self._topic}: {error.str()}")
                    if (message.offset() or 0) < ranges[message.partition() or 0][1]:
                        yield message
                left = self._unread(consumer, left)
                if time.monotonic() > end:
                    raise TruthUnknown(f"{self._topic} could not be read within {self._timeout_s:g} s")
        except KafkaException as e:
            raise TruthUnknown(f"{self._topic}: {e.args[0].str()}") from None
        finally:
            consumer.close()

    def _unread(self, consumer: Consumer, left: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """Partitions not yet read to their end; a position moves over control records and gaps too."""
        from confluent_kafka import TopicPartition

        at = consumer.position([TopicPartition(self._topic, p) for p in left])
        return {p.partition: left[p.partition] for p in at if p.offset < left[p.partition][1]}


def _ms(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
