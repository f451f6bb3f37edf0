"""Offset ranges and their interval algebra. Everything is half-open: start inclusive, end exclusive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Interval:
    """`[start, end)` of offsets, or of epoch milliseconds."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"interval ends before it starts: [{self.start}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.start

    def __contains__(self, point: int) -> bool:
        return self.start <= point < self.end


@dataclass(frozen=True, order=True)
class OffsetRange:
    """Offsets `[start, end)` of one Kafka partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not an offset range: {self}")

    @property
    def count(self) -> int:
        return self.end - self.start


def union(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """The same points as disjoint, sorted intervals; touching ones become one."""
    merged: list[Interval] = []
    for item in sorted(i for i in intervals if len(i)):
        if merged and item.start <= merged[-1].end:
            merged[-1] = Interval(merged[-1].start, max(merged[-1].end, item.end))
        else:
            merged.append(item)
    return tuple(merged)


def subtract(whole: Interval, parts: Iterable[Interval]) -> tuple[Interval, ...]:
    """What of `whole` no part covers: the gaps."""
    gaps: list[Interval] = []
    at = whole.start
    for part in union(parts):
        if part.start > at:
            gaps.append(Interval(at, min(part.start, whole.end)))
        at = max(at, part.end)
        if at >= whole.end:
            break
    if at < whole.end:
        gaps.append(Interval(at, whole.end))
    return tuple(g for g in gaps if len(g))


def without(these: Iterable[Interval], those: Iterable[Interval]) -> tuple[Interval, ...]:
    """The points of `these` that are in none of `those`; one pass over each."""
    found: list[Interval] = []
    others, first = union(those), 0
    for one in union(these):
        at = one.start
        while first < len(others) and others[first].end <= at:
            first += 1
        i = first
        while i < len(others) and others[i].start < one.end:
            if others[i].start > at:
                found.append(Interval(at, others[i].start))
            at = others[i].end
            i += 1
        if at < one.end:
            found.append(Interval(at, one.end))
    return tuple(found)


def share(backlog: Mapping[int, int], limit: int) -> dict[int, int]:
    """Split `limit` records over Kafka partitions in proportion to their backlog, at least one each.

    Never more than the backlog; the sum may pass `limit` only where there are more partitions than records allowed.
    """
    waiting = {p: n for p, n in backlog.items() if n > 0}
    total, first = sum(waiting.values()), len(waiting)
    spare = max(0, min(limit, total) - first)  # after one record for each
    return {p: 1 + (n - 1) * spare // (total - first) if spare else 1 for p, n in waiting.items()}


def pack(ranges: Sequence[OffsetRange], tasks: int, smallest: int = 50_000) -> list[list[OffsetRange]]:
    """Bin-pack ranges into at most `tasks` lists of about equal record counts, splitting large ranges.

    `smallest` is the number of records below which a range is not split and a further task is not worth its start.
    The union of the result is exactly the union of `ranges`.
    """
    total = sum(r.count for r in ranges)
    if not total:
        return []
    wanted = max(1, min(tasks, -(-total // smallest)))
    target = -(-total // wanted)
    pieces: list[OffsetRange] = []
    for r in ranges:
        at = r.start
        while at < r.end:
            # a rest of less than a fifth of a share stays with its piece: no crumbs
            end = r.end if 5 * (r.end - at) <= 6 * target else at + target
            pieces.append(OffsetRange(r.topic, r.partition, at, end))
            at = end
    bins: list[list[OffsetRange]] = [[] for _ in range(min(wanted, len(pieces)))]
    loads = [0] * len(bins)
    for piece in sorted(pieces, key=lambda r: -r.count):
        i = loads.index(min(loads))
        bins[i].append(piece)
        loads[i] += piece.count
    return [sorted(b) for b in bins]
