"""Counts what one planned range (or a piece of it) gives while it is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.failures import refuse
from tidegate.core.base.offsets import Interval, OffsetRange, subtract, union
from tidegate.core.files.receipt import RangeResult
from tidegate.core.source.records import Chunk


@dataclass(kw_only=True)
class Tally:
    """`read` is counted here, as records are consumed; written rows are counted where they are written.

    `filtered` is counted where `where` turns a row away, `dropped` and `rerouted` where a row comes late; a rebuild
    counts what is not its window's as dropped. `bytes` are keys and values as they were delivered."""

    range: OffsetRange
    read: int = 0
    filtered: int = 0
    dropped: int = 0
    rerouted: int = 0
    min_event: int | None = None
    max_event: int | None = None
    bytes: int = 0
    max_kafka: int = -1
    seen: list[Interval] = field(default_factory=list)
    _last: int = -1

    def consume(self, chunk: Chunk) -> None:
        """Count a chunk's records. Raises JobError if they are not ascending records of this range."""
        offsets = chunk.offsets
        first, last = offsets[0], offsets[-1]
        if first <= self._last or first < self.range.start or last >= self.range.end:
            raise self._disorder(first, last)
        self.read += len(offsets)
        self._last = last
        self.bytes += chunk.bytes
        self.max_kafka = max(self.max_kafka, max(chunk.timestamps))  # -1: the record has no timestamp
        if last - first + 1 == len(offsets) and offsets == list(range(first, last + 1)):
            self._saw(Interval(first, last + 1))
            return
        start = before = first
        for offset in itertools.islice(offsets, 1, None):
            if offset != before + 1:
                if offset <= before:
                    raise self._disorder(first, last)
                self._saw(Interval(start, before + 1))
                start = offset
            before = offset
        self._saw(Interval(start, before + 1))

    def _saw(self, interval: Interval) -> None:
        if self.seen and self.seen[-1].end == interval.start:
            self.seen[-1] = Interval(self.seen[-1].start, interval.end)
        else:
            self.seen.append(interval)

    def _disorder(self, first: int, last: int) -> Exception:
        r = self.range
        return refuse(
            f"the source delivered offsets {first} to {last} after {self._last} for [{r.start}, {r.end})",
            partition=r.partition,
            offset=first,
            retry=True,
        )

    def events(self, plausible: pa.Array) -> None:
        """Event times (ms) that may move the watermark."""
        found = pc.min_max(plausible).as_py()
        self._event_bounds(found["min"], found["max"])

    def _event_bounds(self, low: int | None, high: int | None) -> None:
        if low is not None and high is not None:
            self.min_event = low if self.min_event is None else min(self.min_event, low)
            self.max_event = high if self.max_event is None else max(self.max_event, high)

    def result(self, data: int, late: int, dirty: int) -> RangeResult:
        gaps = subtract(Interval(self.range.start, self.range.end), self.seen)
        return RangeResult(
            range=self.range,
            read=self.read,
            data=data,
            late=late,
            dirty=dirty,
            filtered=self.filtered,
            dropped=self.dropped,
            gaps=gaps,
            min_event_ms=self.min_event,
            max_event_ms=self.max_event,
            rerouted=self.rerouted,
            bytes=self.bytes,
            max_kafka_ms=self.max_kafka if self.max_kafka >= 0 else None,
        )


def merge(whole: OffsetRange, pieces: Iterable[RangeResult]) -> RangeResult:
    """One planned range from the results of its pieces. Raises JobError if they do not cover it exactly."""
    pieces = sorted(pieces, key=lambda p: p.range.start)
    at = whole.start
    for piece in pieces:
        if piece.range.start != at:
            break
        at = piece.range.end
    if at != whole.end:
        raise refuse(f"tasks covered partition {whole.partition} only up to {at} of {whole.end}", retry=True)
    lows = [p.min_event_ms for p in pieces if p.min_event_ms is not None]
    highs = [p.max_event_ms for p in pieces if p.max_event_ms is not None]
    stamps = [p.max_kafka_ms for p in pieces if p.max_kafka_ms is not None]
    added = ("read", "data", "late", "dirty", "filtered", "dropped", "rerouted", "bytes")
    return RangeResult(
        range=whole,
        **{name: sum(getattr(p, name) for p in pieces) for name in added},
        gaps=union(g for p in pieces for g in p.gaps),
        min_event_ms=min(lows, default=None),
        max_event_ms=max(highs, default=None),
        max_kafka_ms=max(stamps, default=None),
    )
