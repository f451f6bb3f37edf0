"""Which tombstones may be purged (M6), when that is worth a commit, and what the purge leaves behind (M5)."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.instants import DAY_MS, span
from tidegate.core.mirror.applies import Horizon, Tried
from tidegate.core.mirror.jobs import Position

EVERY_MS = DAY_MS
FEWEST = 100
"""A purge rewrites all buckets with old tombstones: one of them for so many rows is worth it."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """`keep_ms`: how long tombstones stay, `sink.tombstones`. `rows`, `tombstones`: of the table. `last`: the newest
    upkeep that has come to an end."""

    now_ms: int
    keep_ms: int
    rows: int
    tombstones: int
    last: Tried | None = None


def settled_ms(now: Standing) -> int:
    """Batches that had landed before it bring no position, and leave none to come, that a purge could meet: see
    `refusal`."""
    return now.now_ms - 2 * now.keep_ms


def idle(now: Standing) -> bool:
    """Whether no purge is due: it was done within a day, or there is too little to drop."""
    lately = now.last is not None and now.now_ms - (now.last.done_ms or now.last.began_ms) < EVERY_MS
    return lately or not now.tombstones or now.tombstones * FEWEST < now.rows


def refusal(now: Standing, horizon: Horizon) -> str | None:
    """Why no tombstone may be purged now (M6); None if those below a position of `horizon.settled` may be.

    With `sink.tombstones: N` the source promises: what becomes readable at a is not older, by position, than whatever
    was readable before a - N. So let H be a position of a batch that had landed before now - 2N, hence was readable
    then. Everything that is not merged became readable at some a after `read_ms`, and `read_ms >= now - N`. Then
    a - N > now - 2N: H was readable before a - N, and the event is at or above H. What is written after now has a later
    a still. It holds for the table whose `upto` was asked about: the commit that purges compares the snapshot (M1), and
    a table that is taken back has its old marker and its old tombstones again."""
    if horizon.left_out:
        return "dirty rows of landed batches wait for a redrive, at whatever position"
    if horizon.read_ms is None or horizon.read_ms < now.now_ms - now.keep_ms:
        return f"no merged batch has read the whole topic within the last {span(now.keep_ms)}"
    if horizon.settled is None:
        return f"no batch with events had landed {span(2 * now.keep_ms)} ago"
    return None


def marker(before: Position, below: Position) -> Position:
    """`purged_below` of the commit that purges: it never goes back."""
    return max(before, below)
