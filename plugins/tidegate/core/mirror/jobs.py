"""What the Spark job that merges events into a keyed table is told (`core.batch.jobs.ApplyPlan`), and reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.mirror.counts import Counts

Position = tuple[int, int, int]
"""(commit, row, n): where the source's log, or a read of the source, says so; compared from left to right."""
START: Position = (0, 0, 0)


def spelled(position: Position) -> str:
    """`commit,row,n`: in a table's summary, and in the ledger's copy of it."""
    return ",".join(map(str, position))


def position_of(text: str) -> Position:
    """The inverse of `spelled`. Raises ValueError."""
    commit, row, n = (int(part) for part in text.split(","))
    return commit, row, n


@dataclass(frozen=True)
class EventFile:
    """A file of events, in the logical columns of the pipeline. `batch_id`: whose landed file it is; 0: one of a
    window, with events of one or several batches; below 0: of a chunk of a copy. `n`: in the position of its rows: 0 of
    events, the round of a copy (S1)."""

    batch_id: int
    uri: str
    rows: int
    bytes: int = 0
    n: int = field(default=0, metadata=LEFT_OUT)


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
    purged: int = field(default=0, metadata=LEFT_OUT)
    """Tombstones that a purge, or a sweep, has dropped."""
    swept: int = field(default=0, metadata=LEFT_OUT)
    """Rows that a sweep has dropped: the source has lost them without an event (S5)."""


@dataclass(frozen=True)
class ServerLog:
    """What events of a server have said of its log. `begins`: the greatest position of the first merge that had any of
    them (S4), `last`: of all merges; None before any. `newest_ms`: their newest time at the source (UTC); 0: none.
    `purged_below`: where tombstones of its keys have been purged (M5); `below_purge`: its events that this has kept
    out, in a receipt those of its merge, in a table those of its life. `gone`: copy.servers names it no more; its rows
    stay, and so does what is known of its log: it may come back."""

    name: str
    begins: Position | None = None
    last: Position | None = None
    newest_ms: int = 0
    purged_below: Position = field(default=START, metadata=LEFT_OUT)
    below_purge: int = field(default=0, metadata=LEFT_OUT)
    gone: bool = field(default=False, metadata=LEFT_OUT)


@dataclass(frozen=True)
class ApplyReceipt:
    """`_receipt.json` of an apply job: written last. `events`: rows that were read from each batch's files.

    `first_position`, `last_position`: of all events; None without any. `newest_ms`: their newest time at the source
    (UTC); 0: none says it. `purged_below`: of a purge, where its tombstones ended (M5). `servers`: `last`, `newest_ms`
    and `below_purge` of each that had events, where the plan names servers (S11); of a purge `purged_below` of each."""

    attempt: str
    events: tuple[tuple[int, int], ...]
    buckets: tuple[BucketDone, ...]
    first_position: Position | None = None
    last_position: Position | None = None
    below_purge: tuple[str, ...] = field(default=())
    """Samples of events that M5 has kept out, for people."""
    seconds: float = 0.0
    newest_ms: int = 0
    purged_below: Position | None = field(default=None, metadata=LEFT_OUT)
    servers: tuple[ServerLog, ...] = field(default=(), metadata=LEFT_OUT)


@dataclass(frozen=True)
class Daily:
    """A table whose windows are days of a keyed table: each shows all its rows as they were at the day's end.

    `key`: logical columns, in the order of their hash; `columns`: of the files of rows and tombstones; `tombstones_ms`:
    how long tombstones stay, None: for ever."""

    key: tuple[str, ...]
    buckets: int
    columns: tuple[TableColumn, ...]
    tombstones_ms: int | None = None
