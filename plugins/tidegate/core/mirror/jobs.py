"""What the Spark job that merges events into a keyed table is told (`core.batch.jobs.ApplyPlan`), and reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.core.mirror.counts import Counts

Position = tuple[int, int, int]
"""(commit, row, n): where the source's log, or a read of the source, says so; compared from left to right."""
START: Position = (0, 0, 0)


@dataclass(frozen=True)
class EventFile:
    """A landed data file of a batch, in the logical columns of the pipeline."""

    batch_id: int
    uri: str
    rows: int
    bytes: int = 0


@dataclass(frozen=True)
class BaseFile:
    """A file of the mirror's table in the snapshot that was loaded, in the table's columns."""

    uri: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Bucket:
    """A bucket that has rows or tombstones: the files that stand for it. Buckets that are not named are empty."""

    number: int
    files: tuple[BaseFile, ...]


@dataclass(frozen=True)
class TableColumn:
    """A column of the mirror's table. `name`: in the table's files; `type`: a Hive type; `of`: the logical column of
    event files that it is taken from, empty for one that the job computes (`BUCKET`, `N`)."""

    name: str
    type: str
    of: str = ""


BUCKET, N = "_bucket", "_position_n"


@dataclass(frozen=True)
class MirrorFile:
    """A new file. `path`: below the attempt's directory. `rows`: with tombstones."""

    path: str
    bytes: int
    rows: int
    tombstones: int


@dataclass(frozen=True)
class BucketDone:
    """A bucket that events fell into. `changed`: `files` take the place of the base's; else nothing was written."""

    number: int
    changed: bool
    counts: Counts
    files: tuple[MirrorFile, ...] = ()
    rows_before: int = 0
    """Rows and tombstones of the base, as they were read."""
    tombstones_before: int = 0


@dataclass(frozen=True)
class ApplyReceipt:
    """`_receipt.json` of an apply job: written last. `events`: rows that were read from each batch's files.

    `first_position`, `last_position`: of all events; None without any."""

    attempt: str
    events: tuple[tuple[int, int], ...]
    buckets: tuple[BucketDone, ...]
    first_position: Position | None = None
    last_position: Position | None = None
    below_purge: tuple[str, ...] = field(default=())
    """Samples of events that M5 has kept out, for people."""
    seconds: float = 0.0
