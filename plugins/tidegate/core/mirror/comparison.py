"""A keyed table compared with what its landed batches make, bucket by bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tidegate.core.base.plain import LEFT_OUT

SAMPLES = 5
"""Keys of a bucket that are named."""


class Kind(Enum):
    """How a key differs. A tombstone that a purge may have taken is no difference (M5), whether it is there or not."""

    LACKING = "lacking"
    """The batches make a row or a tombstone of it, the table has none."""
    SURPLUS = "surplus"
    """The table has one, the batches make none."""
    OTHER = "other"
    """Both have one, and they differ."""
    DOUBLED = "doubled"
    """The table has several."""


@dataclass(frozen=True)
class Sample:
    """A key that differs: what the table and what the batches say of it, in words; empty where they say nothing."""

    kind: str
    key: str
    table: str
    batches: str


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A bucket. `rows` and `tombstones`: read from the table. `differ`: number of keys by
    `Kind`, those with any. `unread`: why its files cannot be read; `unmade`: why nobody can say what they should hold.
    `kept_out`: keys that have no row since a purge has kept their events out (M5). `read`: rows of the source that it
    was compared with."""

    bucket: int
    rows: int = 0
    tombstones: int = 0
    differ: tuple[tuple[str, int], ...] = ()
    samples: tuple[Sample, ...] = ()
    unread: str = ""
    unmade: str = ""
    kept_out: int = 0
    read: int = 0


@dataclass(frozen=True, kw_only=True)
class Recomputed:
    """A whole table beside its batches 1 to `upto`: `buckets` that were compared, with the rows and the
    tombstones that were read in them, and the `events` that were read of the batches. `kept_out`: keys that a purge
    keeps out. `days`: of a table by days, how many of them were compared, each bucket of each; `upto` is 0 then."""

    upto: int
    buckets: int
    rows: int
    tombstones: int
    events: int
    kept_out: int = 0
    days: int = field(default=0, metadata=LEFT_OUT)
