"""Which windows are no longer open: the floor that a plan pins, and what it makes of a row (R1).

Every attempt and every replay of a batch decides by the floor of its plan, never by the windows' present state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.layout import window_end
from tidegate.core.offsets import Interval, union
from tidegate.core.pipeline import Windows


@dataclass(frozen=True)
class Floor:
    """Windows that end at or before `low_ms` are not open, nor are those inside `closed` (disjoint, sorted, UTC ms).

    A low mark and exceptions, because hours may be closed out of order.
    """

    low_ms: int
    closed: tuple[Interval, ...] = ()

    def is_late(self, start_ms: int, end_ms: int) -> bool:
        """Whether the window `[start_ms, end_ms)` was not open when the batch was planned."""
        if end_ms <= self.low_ms:
            return True
        i = bisect_right(self.closed, start_ms, key=lambda c: c.start) - 1
        return i >= 0 and start_ms < self.closed[i].end


def floor_of(windows: Windows, not_open: Iterable[int], clock_ms: int) -> Floor:
    """The floor for a plan made at `clock_ms`; `not_open` are the starts of windows that are CLOSING or CLOSED."""
    low = windows.start_ms
    if windows.max_age_ms is not None:
        low = max(low, clock_ms - windows.max_age_ms)
    closed = union(Interval(s, window_end(s, windows)) for s in not_open)
    return Floor(low, tuple(c for c in closed if c.end > low))
OPEN_TO_ALL = Floor(-(2**62))
"""No window is late."""
