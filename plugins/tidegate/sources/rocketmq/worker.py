"""Exact offset ranges, pulled from brokers: every message of the range once, and nothing else. Nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import ReadPlan, wants_headers
from tidegate.core.files.failure import JobError
from tidegate.core.source import unreadable
from tidegate.core.source.records import Chunk, Reader
from tidegate.sources.rocketmq import remoting
from tidegate.sources.rocketmq.control import Queue, RocketMQSource
from tidegate.sources.rocketmq.messages import Damaged, Message, message_at

MOST_MESSAGES = 1024  # a broker's own limits are lower: as a rule 32
CHUNK_RECORDS, CHUNK_BYTES = 20_000, 24 * 1024 * 1024
ANSWER_SECONDS, STALL_SECONDS, PAUSE_SECONDS = 10.0, 60.0, 0.2
_PULL = {
    "consumerGroup": "TOOLS_CONSUMER", "subscription": "*", "expressionType": "TAG", "subVersion": 0,
    "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
}  # fmt: skip
"""Each broker has this group, so reading creates none. The flag: subscribe, commit nothing, wait for nothing."""


class RocketMQReader(Reader):
    """A read gives up after `stall_seconds` without progress, and says why as far as the broker can tell."""

    def __init__(self, plan: ReadPlan, settings: dict[str, Any], stall_seconds: float = STALL_SECONDS) -> None:
        self._source = RocketMQSource(settings, ANSWER_SECONDS)
        self._stall_seconds, self._with_headers = stall_seconds, wants_headers(plan)
        self._queues: dict[int, Queue] = {}

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        at, moved, size, why = wanted.start, time.monotonic(), 0, ""
        waiting: list[Message] = []
        while at < wanted.end:
            lost = False
            try:
                found = self._pulled(wanted, at)
            except (SourceUnavailable, remoting.Denied) as e:  # such as 19 or 20: nothing there, try again
                found, why, lost = [], str(e.args[0]), getattr(e, "code", None) == remoting.MOVED
                self._queues.clear()  # another broker may be the master by now
            if found:
                at, moved = found[-1].offset + 1, time.monotonic()
                waiting += found
                size += sum(len(message.body) for message in found)
            elif lost or time.monotonic() - moved > self._stall_seconds:
                raise self._why(wanted, at, why, lost)
            else:
                time.sleep(PAUSE_SECONDS)
            if waiting and (at >= wanted.end or len(waiting) >= CHUNK_RECORDS or size >= CHUNK_BYTES):
                yield self._chunk(waiting)
                waiting, size = [], 0

    def close(self) -> None:
        self._source.client.close()

    def _pulled(self, wanted: OffsetRange, at: int) -> list[Message]:
        """Messages from `at` on without a hole, none past the end. Raises SourceUnavailable, Denied, JobError."""
        if wanted.partition not in self._queues:
            self._queues = self._source.queues(wanted.topic)
        if wanted.partition not in self._queues:
            raise unreadable.no_partition(wanted)
        (address, number), limit = self._queues[wanted.partition], min(MOST_MESSAGES, wanted.end - at)
        asked = {"topic": wanted.topic, "queueId": number, "queueOffset": at, "maxMsgNums": limit, **_PULL}
        _, frames = self._source.client.ask(address, remoting.PULL, ANSWER_SECONDS, **asked)
        found: list[Message] = []
        place = 0
        while place < len(frames) and len(found) < limit:
            try:
                message, place = message_at(frames, place)
            except Damaged as e:
                raise unreadable.damaged(wanted, at + len(found), str(e)) from None
            if message.offset != at + len(found):  # the broker has left out what its log does not hold any more
                raise self._why(wanted, at + len(found), f"the next one is at {message.offset}", lost=True)
            found.append(message)
        return found

    def _why(self, wanted: OffsetRange, at: int, why: str, lost: bool) -> JobError:
        """What to report of a range that gives nothing more from `at` on. `lost`: the broker says so."""
        try:
            now = self._source.look(wanted.topic).partitions[wanted.partition]
        except (SourceError, KeyError) as e:
            return unreadable.stalled(wanted, at, self._stall_seconds, f"{why}; {e.args[0]}")
        if at < now.log_start or now.high_watermark < wanted.end:
            return unreadable.gone(wanted, at, f"the log now holds [{now.log_start}, {now.high_watermark})")
        if lost:
            return unreadable.damaged(wanted, at, why)
        return unreadable.stalled(wanted, at, self._stall_seconds, why)

    def _chunk(self, found: list[Message]) -> Chunk:
        headers = [m.headers() for m in found] if self._with_headers else None
        offsets, stamps = [m.offset for m in found], [m.stored_ms for m in found]
        return Chunk(offsets, stamps, [m.key for m in found], [m.body for m in found], headers)
