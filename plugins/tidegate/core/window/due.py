"""Which windows are due: the watermark has passed them, and no generation of theirs is in force. Times are UTC ms.

The ledger owns this, not a schedule. A published window stays published, so parts of time in which every window is can
be remembered: only the rest is looked at, however long ago the first window was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.core.base.instants import DAY_MS
from tidegate.core.base.offsets import Interval, subtract, union, without
from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_from, window_start
from tidegate.core.window.states import WindowKey

MOST_REMEMBERED = 64


@dataclass(frozen=True)
class RunsSeen:
    """What a scheduler says of the archive runs: `paused`, and due windows (starts) whose run has come to its end."""

    paused: bool
    ended: tuple[int, ...]


@dataclass(frozen=True)
class ArchiveNote:
    """What the maintenance DAG last saw.

    `published`: parts of time in which every window has a generation in force. `paused`: the archive DAG was; None
    while no run has looked. `ended`: windows (starts) that were due although their archive run had come to its end: it
    failed, or was marked as a success. `noted_ms`: when that was seen. `stranded`: windows (starts) with landed data
    that no run will come for; None for none.
    """

    published: tuple[Interval, ...] = ()
    paused: bool | None = None
    ended: tuple[int, ...] = ()
    noted_ms: int = 0
    stranded: tuple[int, ...] | None = field(default=None, metadata=LEFT_OUT)


class DueLedger(Protocol):
    def note(self, name: str) -> ArchiveNote | None: ...

    def save(self, name: str, note: ArchiveNote, old: ArchiveNote | None) -> None:
        """Replace `old`, which is what was read."""
        ...

    def published_within(self, name: str, parts: Sequence[Interval]) -> list[int]:
        """Starts of windows that begin in `parts` and have a generation in force, sorted: one statement."""
        ...

    def rows_within(self, name: str, part: Interval) -> dict[int, int]:
        """Rows of windows that begin in `part` and have a generation in force, by their start."""
        ...

    def located(self, name: str, part: Interval, location: str) -> list[int]:
        """Starts of windows that begin in `part` and have, or had, a generation at `location`, sorted."""
        ...

    def unpublished(self, name: str) -> list[int]:
        """Starts of windows that have landed data and no generation in force, sorted; each window costs a look-up."""
        ...

    def starts_within(self, name: str, first_ms: int, last_ms: int) -> list[int]:
        """Starts in `[first_ms, last_ms]` of windows that have landed data or a row of their own, sorted."""
        ...


@dataclass(frozen=True)
class Due:
    """Windows that are due, as parts of time, oldest first."""

    windows: Windows
    parts: tuple[Interval, ...]

    def __bool__(self) -> bool:
        return bool(self.parts)

    @property
    def count(self) -> int:
        if self.windows.size_ms < DAY_MS:
            return sum(len(part) for part in self.parts) // self.windows.size_ms
        return sum(1 for _ in self)

    @property
    def ranges(self) -> Iterator[tuple[WindowKey, WindowKey]]:
        """First and last window of each part."""
        for part in self.parts:
            last = window_start(part.end - 1, self.windows)
            yield window_from(part.start, self.windows), WindowKey(last, part.end)

    def __iter__(self) -> Iterator[WindowKey]:
        """Every one, oldest first; as many as there are."""
        for part in self.parts:
            start = part.start
            while start < part.end:
                end = window_end(start, self.windows)
                yield WindowKey(start, end)
                start = end

    def holds(self, start_ms: int) -> bool:
        return any(part.start <= start_ms < part.end for part in self.parts)


def unknown(windows: Windows, published: Iterable[Interval], low_ms: int) -> tuple[Interval, ...]:
    """The parts of time up to the watermark of which it is not remembered that their windows are published.

    Whole windows: what is remembered may end within one, if it was noted by other zone data."""
    first, last = window_start(windows.start_ms, windows), window_start(low_ms, windows)
    parts = subtract(Interval(first, max(first, last)), published)
    return union(
        Interval(window_start(p.start, windows), window_end(window_start(p.end - 1, windows), windows)) for p in parts
    )


def due(windows: Windows, parts: Iterable[Interval], published: Iterable[int]) -> Due:
    """What is left of `parts` without the windows (starts, sorted) that are published."""
    return Due(windows, without(parts, stretches(windows, published)))


def stretches(windows: Windows, starts: Iterable[int]) -> Iterator[Interval]:
    """Windows (starts, sorted) as parts of time: those that follow each other are one."""
    begin = end = 0
    for start in starts:
        if start != end:
            if begin < end:
                yield Interval(begin, end)
            begin = start
        end = window_end(start, windows)
    if begin < end:
        yield Interval(begin, end)


def remembered(parts: Iterable[Interval], left: Due, old: Iterable[Interval]) -> tuple[Interval, ...]:
    """`old`, and what of `parts` is not due; of too many the longest."""
    known = union([*old, *without(parts, left.parts)])
    return tuple(sorted(sorted(known, key=len, reverse=True)[:MOST_REMEMBERED]))
