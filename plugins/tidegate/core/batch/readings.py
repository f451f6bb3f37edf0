"""A table without a log as a lane: the lane is time, and a batch is one reading of the table for one window.

The window `[a, b)` is the offsets `[offset_at(a), offset_at(b))`. Its rows are numbered within that range as they are
read, chunk by chunk: each chunk has an equal part of it, far more offsets than it can have rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.base.errors import SourceError
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.copy.port import Bound, KeyRange, SourceTable, Times
from tidegate.core.source.port import Source
from tidegate.core.window.states import WindowKey

_BITS = 20
LANE = 0
"""The only one of a table."""
ALWAYS = 1 << 62
"""End of a lane that is time."""
LEAST_OFFSETS = 1 << 32
"""Rows that a chunk may have come to have, whatever was counted when its bounds were cut."""


def offset_at(ms: int) -> int:
    """First offset of that instant (UTC ms)."""
    return ms << _BITS


def instant_of(offset: int) -> int:
    """The instant (UTC ms) of an offset."""
    return offset >> _BITS


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One attempt's reading of a table for a window: fixed before its first query, so that no row is in two chunks.

    `server`: for people. `complete_ms`: up to where the lane is read once all chunks are. `times`: of a column; None:
    all rows. `tasks`: chunks that are read at once; `rate`: most rows a second, of all of them together."""

    server: str
    table: SourceTable
    window: WindowKey
    complete_ms: int
    chunks: tuple[KeyRange, ...]
    times: Times | None = None
    tasks: int = 1
    rate: int | None = None

    def part(self, whole: OffsetRange, number: int) -> OffsetRange:
        """Offsets of a chunk, by its place in the list. Raises ValueError for more chunks than the range can hold."""
        size = whole.count // len(self.chunks)
        if size < LEAST_OFFSETS:
            raise ValueError(f"{len(self.chunks)} chunks: at most {whole.count // LEAST_OFFSETS} for such a window")
        start = whole.start + number * size
        end = whole.end if number + 1 == len(self.chunks) else start + size
        return OffsetRange(whole.topic, whole.partition, start, end)

    def parts(self, whole: OffsetRange) -> list[OffsetRange]:
        """Offsets of all chunks."""
        return [self.part(whole, number) for number in range(len(self.chunks))]


def cover_all(chunks: Iterable[KeyRange]) -> bool:
    """Whether the ranges begin at the smallest key and go to the greatest, without a hole, in this order."""
    before: Bound | None = None
    found = list(chunks)
    for one in found:
        if one.lower != before:
            return False
        before = one.upper
    return bool(found) and before is None


class TableSource(Source, Protocol):
    """A source with the trait `windowed`."""

    def described(self, topic: str) -> SourceTable:
        """The table as it is now. Raises SourceUnavailable, SourceError."""
        ...

    def reading(self, topic: str, window: WindowKey, complete_ms: int) -> Reading:
        """What an attempt reads for a window: its chunks are cut now. Raises SourceUnavailable, SourceError."""
        ...


def whole_window(offsets: OffsetRange) -> WindowKey:
    """The window that a planned range stands for. Raises SourceError for a range that is not a whole window."""
    window = WindowKey(instant_of(offsets.start), instant_of(offsets.end))
    if (offset_at(window.start_ms), offset_at(window.end_ms)) != (offsets.start, offsets.end):
        raise SourceError(f"offsets [{offsets.start}, {offsets.end}) of {offsets.topic} are no window", retry=False)
    return window
