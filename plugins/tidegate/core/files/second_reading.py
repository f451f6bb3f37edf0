"""A range that is read a second time must show what the first reading showed: the same records, so the same gaps.

Compared as intervals, never as sums: one record that vanished and another that appeared would cancel each other out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.base.offsets import Interval, union, without


@dataclass(frozen=True)
class SecondReading:
    """How a later reading of `span` differs from an earlier one. Offsets, half-open.

    `vanished` held records then and hold none now; `appeared` the other way round, which no topic does by itself."""

    span: Interval
    vanished: tuple[Interval, ...]
    appeared: tuple[Interval, ...]

    def objection(self, gaps: str) -> str | None:
        """Why the later reading cannot be believed, or None. `gaps`: forbid | allow, the pipeline's `source.gaps`.

        Compaction may take more records of a topic whose gaps are allowed; nothing may bring one back."""
        if self.appeared:
            return f"records at offsets {listed(self.appeared)}, where an earlier reading found none"
        if self.vanished and gaps == "forbid":
            return (
                f"no record any more at offsets {listed(self.vanished)}, where an earlier reading found some; "
                "a compacted topic needs `source.gaps: allow`"
            )
        return None


def compare(span: Interval, before: Iterable[Interval], now: Iterable[Interval]) -> SecondReading:
    """`before` and `now` are the gaps of two readings; what lies outside `span` is not looked at."""
    earlier, later = _within(span, before), _within(span, now)
    return SecondReading(span, without(later, earlier), without(earlier, later))


def listed(intervals: Iterable[Interval], most: int = 3) -> str:
    """The intervals in words: `[3, 5), [9, 10) and 4 more`."""
    found = [f"[{i.start}, {i.end})" for i in intervals]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _within(span: Interval, intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    clipped = ((max(i.start, span.start), min(i.end, span.end)) for i in intervals)
    return union(Interval(start, end) for start, end in clipped if start < end)
