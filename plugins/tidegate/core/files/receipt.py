"""What one attempt of a Spark job reports, and the arithmetic that makes it believable.

A receipt travels as `_receipt.json` in the attempt's directory; once sealed it is the batch's **manifest**: the files
that the batch consists of, and nothing else is data.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.base.plain import LEFT_OUT, dumps
from tidegate.core.base.wording import many
from tidegate.core.files.overflow import Overflow
from tidegate.core.files.slow_path import Slow
from tidegate.core.spec.pipeline import Column

DATA, LATE, DIRTY = "data", "late", "dirty"
CHECKSUM_MODULUS = 2**64
ROW_IDENTITY = 0
"""Which hash of rows checksums are of (docs/row-identity.md): a checksum is this number times 2**64 plus the sum."""


@dataclass(frozen=True, order=True)
class PartitionRows:
    """Rows of one file (or window) that come from one Kafka partition; offsets inclusive on both sides."""

    partition: int
    rows: int
    min_offset: int
    max_offset: int

    @property
    def key(self) -> tuple[int, ...]:
        return (self.partition,)


@dataclass(frozen=True, order=True)
class BatchRows:
    """Rows of one batch and Kafka partition, as the rows themselves say it; offsets inclusive. `batch_id` is 0 where
    rows do not carry their batch."""

    batch_id: int
    partition: int
    rows: int
    min_offset: int
    max_offset: int

    @property
    def key(self) -> tuple[int, ...]:
        return self.batch_id, self.partition


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One closed file. `path` is relative to the attempt's directory, in a generation's manifest to the generation's;
    there it is the file's URI if the file stayed where it was written. Event times are UTC ms, inclusive; None if
    dirty.

    `checksum` is order-free: the sum of the rows' 64-bit hashes modulo 2**64, over all columns but `_batch_id`; above
    that the number of the hash (`identity_of`).
    `values` are the dynamic partition values as (column, value) pairs.
    """

    path: str
    kind: str
    window_ms: int | None
    values: tuple[tuple[str, str | None], ...]
    rows: int
    bytes: int
    min_event_ms: int | None
    max_event_ms: int | None
    checksum: int
    partitions: tuple[PartitionRows, ...]


@dataclass(frozen=True, kw_only=True)
class RangeResult:
    """What was met while reading one planned range. `read` is counted where records are consumed.

    `gaps` are the offsets of the range at which no record was delivered. `max_event_ms` is the largest plausible event
    time among data, late and filtered rows: it alone moves the watermark. `rerouted` of the data rows came late and are
    in the window that was the oldest open one. `bytes` are keys and values as Kafka delivered them, `max_kafka_ms` is
    the largest Kafka timestamp (UTC ms).
    """

    range: OffsetRange
    read: int
    data: int
    late: int
    dirty: int
    filtered: int
    dropped: int
    gaps: tuple[Interval, ...]
    min_event_ms: int | None
    max_event_ms: int | None
    rerouted: int = 0
    bytes: int = 0
    max_kafka_ms: int | None = None


@dataclass(frozen=True)
class DirtySample:
    """One undecodable record, for people: `raw` is escaped and bounded."""

    partition: int
    offset: int
    reason: str
    field: str
    raw: str


@dataclass(frozen=True, kw_only=True)
class ReadingNote:
    """What was read of a table that has no log, and when. `columns`: (name, type) of the table as its rows were taken.
    Times: the driver's clock, UTC ms."""

    server: str
    table: str
    columns: tuple[tuple[str, str], ...]
    chunks: int
    began_ms: int
    ended_ms: int


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """`attempt` names the directory; `ranges` has one entry for each planned range, in the plan's order. `slow`:
    messages that were decoded one by one, and why; `slow_seconds`: CPU time that they took. `reading`: of sources with
    the trait `windowed`."""

    attempt: str
    batch_id: int
    epoch: int
    nonce: str
    topic: str
    topic_id: str
    spec_version: int
    rules_version: int
    ranges: tuple[RangeResult, ...]
    files: tuple[FileEntry, ...]
    samples: tuple[DirtySample, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    seconds: float = 0.0
    overflow: tuple[Overflow, ...] = ()
    slow: tuple[Slow, ...] = field(default=(), metadata=LEFT_OUT)
    slow_seconds: float = field(default=0.0, metadata=LEFT_OUT)
    reading: ReadingNote | None = field(default=None, metadata=LEFT_OUT)

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.files)

    @property
    def dirty_rows(self) -> int:
        return sum(r.dirty for r in self.ranges)

    @property
    def read_rows(self) -> int:
        return sum(r.read for r in self.ranges)


@dataclass(frozen=True)
class ReplayReceipt:
    """Of one window of a replay: `receipt` has the ranges that matter to it, `batches` says whose each of them is.

    Other windows may have shared the ranges: their rows are among `dropped`, and event times and bytes are those of
    all. `copied` are rows that came from files. `job_read`: records that the job read, once for all its windows."""

    receipt: Receipt
    batches: tuple[int, ...]
    copied: tuple[BatchRows, ...] = ()
    job_read: int = 0


@dataclass(frozen=True)
class Failure:
    """`failure.json`: a job's last words; they become the task's last log line. `kind`: RefusalKind, if it is a refusal
    with a kind of its own. `columns`: those that would take the fields which it refuses, by the messages' schema."""

    what: str
    advice: str = ""
    partition: int | None = None
    offset: int | None = None
    field: str | None = None
    retry: bool = True
    kind: str | None = dataclasses.field(default=None, metadata=LEFT_OUT)
    columns: tuple[Column, ...] = dataclasses.field(default=(), metadata=LEFT_OUT)


def arithmetic_errors(
    receipt: Receipt, planned: Iterable[OffsetRange], gaps: str, copied: Iterable[BatchRows] = ()
) -> list[str]:
    """Why the receipt cannot be right: empty if `read = data + late + dirty + filtered + dropped` for every range,
    every offset is read or a gap, and the files hold exactly the rows that the ranges report, and those `copied`.

    `gaps`: forbid | allow, the pipeline's `source.gaps`.
    """
    copied = tuple(copied)
    errors: list[str] = []
    planned = tuple(planned)
    if tuple(r.range for r in receipt.ranges) != planned:
        errors.append("the receipt's ranges are not the planned ones")
    in_files = {DATA: {}, LATE: {}, DIRTY: {}}  # type: dict[str, dict[int, int]]
    for file in receipt.files:
        if file.rows != sum(p.rows for p in file.partitions):
            errors.append(f"{file.path}: {many(file.rows, 'row')}, but its Kafka partitions add up differently")
        for part in file.partitions:
            in_files[file.kind][part.partition] = in_files[file.kind].get(part.partition, 0) + part.rows
    for r in receipt.ranges:
        where = f"partition {r.range.partition} [{r.range.start}, {r.range.end})"
        if r.read != r.data + r.late + r.dirty + r.filtered + r.dropped:
            errors.append(f"{where}: read {r.read} is not data + late + dirty + filtered + dropped")
        if not 0 <= r.rerouted <= r.data:
            errors.append(f"{where}: {r.rerouted} of {r.data:,} data rows are said to be rerouted")
        if r.read + sum(len(g) for g in r.gaps) != r.range.count:
            errors.append(
                f"{where}: {many(r.read, 'record')} and {sum(len(g) for g in r.gaps)} gaps "
                f"of {many(r.range.count, 'offset')}"
            )
        if r.gaps and gaps == "forbid":
            first = r.gaps[0]
            errors.append(
                f"{where}: no record at offsets [{first.start}, {first.end}); a transactional or compacted topic "
                "needs `source.gaps: allow`"
            )
    for kind in (DATA, LATE, DIRTY):
        told: dict[int, int] = {}
        for r in receipt.ranges:
            told[r.range.partition] = told.get(r.range.partition, 0) + getattr(r, kind)
        for one in copied if kind == DATA else ():
            told[one.partition] = told.get(one.partition, 0) + one.rows
        for partition in sorted(set(told) | set(in_files[kind])):
            if told.get(partition, 0) != in_files[kind].get(partition, 0):
                errors.append(
                    f"partition {partition}: {told.get(partition, 0)} {kind} rows counted, "
                    f"{in_files[kind].get(partition, 0)} written"
                )
    return errors


def rows_at(span: tuple[int, int, int] | None) -> str:
    """(rows, first offset, last one) in words: `3 rows at [7, 20]`."""
    return "no rows" if span is None else f"{many(span[0], 'row')} at [{span[1]}, {span[2]}]"


def identity_of(checksum: int) -> int:
    """The number of the row identity that a checksum is of."""
    return checksum // CHECKSUM_MODULUS


def manifest_digest(files: Iterable[FileEntry]) -> str:
    """SHA-256 over the manifest's files: two manifests are the same exactly when their digests are."""
    return hashlib.sha256(dumps(sorted(files, key=lambda f: f.path)).encode()).hexdigest()


def content_digest(files: Iterable[FileEntry]) -> str:
    """What a window's content is, however it is cut into files: rows and row checksums for each partition directory."""
    totals: dict[str, list[int]] = {}
    for f in files:
        entry = totals.setdefault(dumps(f.values), [0, 0])
        entry[0] += f.rows
        entry[1] = (entry[1] + f.checksum) % CHECKSUM_MODULUS
    return hashlib.sha256(dumps(totals).encode()).hexdigest()
