"""Which windows are no longer open, and what becomes of rows that belong to one: pinned by each plan (R1).

Every attempt and every replay of a batch decides by the floor of its plan, never by the windows' present state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import Interval, union
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import DATA, LATE, Receipt
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_start

SIDE, REROUTE, DROP = "side", "reroute", "drop"
"""Late policies: into the late table; into the window that was the oldest open one; counted and not written."""
POLICIES = (SIDE, REROUTE, DROP)
_COUNTED_AS = {SIDE: "late", REROUTE: "rerouted", DROP: "dropped"}


@dataclass(frozen=True)
class Floor:
    """Windows that end at or before `low_ms` are not open, nor are those inside `closed` (disjoint, sorted, UTC ms).

    A low mark and exceptions, because hours may be closed out of order. `reroute_ms` is the start of the window that
    late rows go to; None where the policy was another than reroute.
    """

    low_ms: int
    closed: tuple[Interval, ...] = ()
    reroute_ms: int | None = None

    def is_late(self, start_ms: int, end_ms: int) -> bool:
        """Whether the window `[start_ms, end_ms)` was not open when the batch was planned."""
        return end_ms <= self.low_ms or self._closed_around(start_ms) is not None

    def oldest_open(self, windows: Windows) -> int:
        """Start (UTC ms) of the first window that is not late. The one that holds the low mark ends above it."""
        start = window_start(self.low_ms, windows)
        while (closed := self._closed_around(start)) is not None:
            start = closed.end
        return start

    def _closed_around(self, start_ms: int) -> Interval | None:
        i = bisect_right(self.closed, start_ms, key=lambda c: c.start) - 1
        return self.closed[i] if i >= 0 and start_ms < self.closed[i].end else None


def floor_of(windows: Windows, not_open: Iterable[int], clock_ms: int, policy: str = SIDE) -> Floor:
    """The floor for a plan made at `clock_ms`; `not_open` are the starts of windows that are CLOSING or CLOSED."""
    low = windows.start_ms
    if windows.max_age_ms is not None:
        low = max(low, clock_ms - windows.max_age_ms)
    closed = union(Interval(s, window_end(s, windows)) for s in not_open)
    return by_policy(Floor(low, tuple(c for c in closed if c.end > low)), windows, policy)


def by_policy(floor: Floor, windows: Windows, policy: str) -> Floor:
    """The same floor with the target that `policy` needs: it follows from what the floor pins, so that it is the same
    whenever it is asked for."""
    return replace(floor, reroute_ms=floor.oldest_open(windows) if policy == REROUTE else None)


def errors(floor: Floor, windows: Windows, policy: str, receipt: Receipt) -> list[str]:
    """Why the receipt cannot be of a plan with this floor: rows in windows that they cannot be in."""
    return [*_misplaced(floor, windows, receipt), *_miscounted(floor, policy, receipt)]


def _misplaced(floor: Floor, windows: Windows, receipt: Receipt) -> Iterator[str]:
    for f in receipt.files:
        if f.window_ms is None:
            continue  # dirty rows are in no window
        late = floor.is_late(f.window_ms, window_end(f.window_ms, windows))
        if late is not (f.kind == LATE):
            was = "not open" if late else "open"
            yield f"{f.path}: {f.kind} rows, but window {iso(f.window_ms)} was {was} when the batch was planned"


def _miscounted(floor: Floor, policy: str, receipt: Receipt) -> Iterator[str]:
    target: dict[int, int] = defaultdict(int)
    for f in receipt.files:
        if f.kind == DATA and f.window_ms == floor.reroute_ms:
            for part in f.partitions:
                target[part.partition] += part.rows
    for r in receipt.ranges:
        where = f"partition {r.range.partition}"
        for needed, kind in _COUNTED_AS.items():
            if getattr(r, kind) and policy != needed:
                yield f"{where}: {many(getattr(r, kind), 'row')} {kind}, but late.policy is {policy}"
        if r.rerouted > target[r.range.partition]:
            yield (
                f"{where}: {many(r.rerouted, 'row')} rerouted, {target[r.range.partition]} "
                "in the window that they went to"
            )
