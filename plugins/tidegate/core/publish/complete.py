"""How far a table is complete: the end of the unbroken run of published windows. Times are UTC ms.

Readers are told by the table itself, so it must never say more than the table shows (`tidegate.complete-through`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidegate.core.base.instants import DAY_MS
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_start

MOST = 400
"""Windows that one commit looks at: one that finds more leaves the rest to the next."""


@dataclass(frozen=True)
class Run:
    """What a table has said: every window from `first_ms` to `end_ms` (exclusive) is in it. `first_ms` None: said by a
    release that counted from `windows.start` and kept no note of it."""

    end_ms: int
    first_ms: int | None = None


def begin(windows: Windows, said: Run | None) -> int:
    """Where counting goes on: at the run's end, or at `windows.start` once that has moved back below its first window:
    readers would take the windows between for published."""
    start = window_start(windows.start_ms, windows)
    if said is None or (said.first_ms is not None and start < said.first_ms):
        return start
    return said.end_ms


def through(windows: Windows, said: Run | None, stands: Callable[[int], bool]) -> int:
    """End (exclusive) of the unbroken run of windows that stand. `stands(start)` tells whether readers meet the window
    that begins there; of those that the table has said already it is not asked again."""
    start = begin(windows, said)
    for _ in range(MOST):
        if said is not None and start == said.first_ms:
            start = max(start, said.end_ms)
        if not stands(start):
            break
        start = window_end(start, windows)
    return start


def days_ended(windows: Windows, before_ms: int | None, through_ms: int, most: int) -> tuple[int, ...]:
    """Starts of the days (in the pipeline's zone) that ended after `before_ms` and not after `through_ms`, the newest
    `most` of them, oldest first. None before the first claim: then only the newest day counts."""
    days = replace(windows, size_ms=DAY_MS)
    today = window_start(through_ms, days)
    found: list[int] = []
    while len(found) < (1 if before_ms is None else most):
        day = window_start(today - 1, days)
        if day < window_start(windows.start_ms, days) or (before_ms is not None and today <= before_ms):
            break
        found.insert(0, day)
        today = day
    return tuple(found)
