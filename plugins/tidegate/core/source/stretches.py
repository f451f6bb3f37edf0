"""Stretches of a log that are never read: copies of records that landed, or will land, from another site (F1, F6).

Half-open intervals of offsets, by lane. A plan that comes to one goes on behind it; nothing of it is a loss.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.base.offsets import Interval, union


def past(offset: int, stretches: Iterable[Interval]) -> int:
    """The first offset from this one on that may be read."""
    for one in union(stretches):
        if offset in one:
            return one.end
    return offset


def stop(start: int, end: int, stretches: Iterable[Interval]) -> int:
    """Where a range that begins at `start`, which may be read, has to end: at `end`, or where a stretch begins."""
    return min([end, *(one.start for one in union(stretches) if start <= one.start)])


def below(offset: int, stretches: Iterable[Interval]) -> tuple[Interval, ...]:
    """What is left of them where the log was cut at that offset: other records have taken what comes behind it."""
    return tuple(Interval(one.start, min(one.end, offset)) for one in union(stretches) if one.start < offset)


def never_read(start: int, end: int, stretches: Iterable[Interval]) -> bool:
    """Whether all of `[start, end)`, which is not empty, belongs to them."""
    return start < end and any(one.start <= start and end <= one.end for one in union(stretches))
