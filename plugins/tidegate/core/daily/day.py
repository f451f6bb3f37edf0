"""A keyed table by days: what stands at a day's end is what stood a day before, and the day's events.

A day is a window whose manifest names its events. What they make of the day before lies in the same directory, and
goes with it: `Day` is written there last, and says what it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.base.instants import iso
from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.base.wording import many
from tidegate.core.daily.purge import NO_PURGE, Purged
from tidegate.core.mirror.balance import Totals, after, imbalance
from tidegate.core.mirror.copied import RoundIn
from tidegate.core.mirror.jobs import START, ApplyReceipt, BaseFile, Bucket, Position
from tidegate.core.target.paths import ROWS, TOMBSTONES, join


@dataclass(frozen=True)
class Ground:
    """The generation of the day before that a day is built on."""

    window_ms: int
    generation: int
    epoch: int


@dataclass(frozen=True)
class DayFile:
    """`path`: below the generation's directory, in `rows/` or in `tombstones/`."""

    path: str
    bytes: int
    rows: int
    bucket: int

    @property
    def deleted(self) -> bool:
        """Whether it holds tombstones."""
        return self.path.startswith(f"{TOMBSTONES}/")


@dataclass(frozen=True, kw_only=True)
class Day(Totals):
    """`_day.json`. The sums are those of all days up to this one; `base`: None of the first day. `newest_ms`: the
    newest time at the source (UTC) of all their events, 0 if none is known (M8). `conflicts`: why a person has let the
    order decide between contradicting events of it (M7), so that each rebuild does too; empty: nobody has. `taken`: the
    copy of the source's table whose rows it has merged beside its events, 0 for none, so that each rebuild takes the
    same; `copied`: the newest one that it or a day before has taken; `swept_below`: that one's smallest LOW (S5).
    `purged_below`: M5; `below_purge`: events that this has kept out, in all days; `seen`: as in `core.daily.purge`."""

    base: Ground | None
    files: tuple[DayFile, ...]
    newest_ms: int = 0
    conflicts: str = field(default="", metadata=LEFT_OUT)
    taken: int = field(default=0, metadata=LEFT_OUT)
    copied: int = field(default=0, metadata=LEFT_OUT)
    swept_below: Position = field(default=START, metadata=LEFT_OUT)
    purged_below: Position = field(default=START, metadata=LEFT_OUT)
    below_purge: int = field(default=0, metadata=LEFT_OUT)
    seen: tuple[tuple[int, int], ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def manifest(self) -> dict[str, int]:
        """path -> bytes."""
        return {f.path: f.bytes for f in self.files}


def buckets_of(day: Day, location: str) -> tuple[Bucket, ...]:
    """What a merge is told of the day's files, tombstones included; `location`: of its generation."""
    found: dict[int, list[BaseFile]] = {}
    for f in day.files:
        found.setdefault(f.bucket, []).append(BaseFile(join(location, f.path), f.rows, f.bytes))
    return tuple(Bucket(number, tuple(files)) for number, files in sorted(found.items()))


def made(
    before: Day | None,
    base: Ground | None,
    receipt: ApplyReceipt,
    origin: str,
    conflicts: str = "",
    copy: RoundIn | None = None,
    purge: Purged = NO_PURGE,
) -> tuple[Day, dict[str, str]]:
    """The day that a job has written onto the day `before`, and for each path of it the job's own. `origin`: what its
    files' names begin with; `conflicts`: as in `Day`; `copy`: the one that it takes; `purge`: what it purges."""
    files: list[DayFile] = []
    sources: dict[str, str] = {}
    for bucket in receipt.buckets:
        for f in bucket.files:
            folder = TOMBSTONES if f.tombstones == f.rows else ROWS
            path = join(folder, f"{origin}-{bucket.number:05d}-{f.path.rpartition('/')[2]}")
            files.append(DayFile(path, f.bytes, f.rows, bucket.number))
            sources[path] = f.path
    before = before or Day(base=None, files=())
    sums = after(before, receipt)
    day = Day(
        base=base,
        files=tuple(files),
        rows=sums.rows,
        tombstones=sums.tombstones,
        events=sums.events,
        inserted=sums.inserted,
        purged=sums.purged,
        newest_ms=max(receipt.newest_ms, before.newest_ms),
        conflicts=conflicts,
        taken=0 if copy is None else copy.number,
        copied=copied_of(before) if copy is None else copy.number,
        swept_below=swept_of(before) if copy is None else copy.low,
        purged_below=max(purge.below, purged_of(before)),
        below_purge=before.below_purge + sum(b.counts.below_purge for b in receipt.buckets),
        seen=purge.seen,
    )
    return day, sources


def copied_of(before: Day | None) -> int:
    """The newest copy whose rows the day has; 0 for none."""
    return 0 if before is None else before.copied


def purged_of(before: Day | None) -> Position:
    """Below which position tombstones were purged (M5); START if none were."""
    return START if before is None else before.purged_below


def swept_of(before: Day | None) -> Position:
    """Below which position nothing makes a row any more (S5); START without a copy."""
    return START if before is None else before.swept_below


def flaw(day: Day) -> str | None:
    """What does not add up, for people; None if all does."""
    there = {deleted: sum(f.rows for f in day.files if f.deleted is deleted) for deleted in (False, True)}
    if there != {False: day.rows, True: day.tombstones}:
        return (
            f"its files hold {many(there[False], 'row')} and {many(there[True], 'tombstone')}, its sums say "
            f"{day.rows:,} and {day.tombstones:,}"
        )
    return imbalance(day)


def outdated(day: Day, current: Mapping[int, int]) -> str | None:
    """Why another replay of the day would show something else; None while it is built on what is in force.

    `current`: the number of the generation in force, by window."""
    if day.base is None:
        return None
    now = current.get(day.base.window_ms)
    if now == day.base.generation:
        return None
    at = iso(day.base.window_ms)
    return f"built on generation {day.base.generation} of {at}, where {now if now is not None else 'none'} is in force"
