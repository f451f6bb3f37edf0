"""Every Kafka coordinate exactly once: the rows found in files against the offsets that the ledger says were read.

The rows are looked at slab by slab: a slab is a run of batches with a bounded number of offsets, of which each is one
bit while the files are read. A row belongs to the range of its own batch (`_batch_id`): so a recreated topic may have
the same offsets again, and a row that claims another batch than it came with is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.core.audit.problems import Problem
from tidegate.core.base.offsets import Interval
from tidegate.core.base.slabs import Slab
from tidegate.core.base.wording import many, those
from tidegate.core.files.receipt import FileEntry

SHOWN = 3
Columns = tuple[tuple[str, str], ...]
"""(name, Hive type) of what a file holds."""


@dataclass(frozen=True, kw_only=True)
class Footer:
    """What a file says of itself. `partitions`: Kafka partition -> (rows, min offset, max offset), from its metadata;
    `coordinates`: the same from its rows, None where they were not read, as is `batches`, the smallest and largest id
    that they name. `content`: the rows' checksum, computed again; None where that was not asked for, or where only
    other readers can read them all (`opaque`). `error`: it cannot be read at all. A file without a footer has its rows
    counted, and says neither `checksum` nor `kind`, nor `partitions` if its rows have no Kafka columns."""

    path: str
    rows: int = 0
    partitions: Mapping[int, tuple[int, int, int]] | None = field(default_factory=dict)
    checksum: int | None = 0
    kind: str | None = ""
    coordinates: Mapping[int, tuple[int, int, int]] | None = None
    batches: tuple[int, int] | None = None
    content: int | None = None
    opaque: bool = False
    error: str = ""


@dataclass(frozen=True)
class RowsSought:
    """A file whose rows are to be read. `batch_id`: whose they are, where they do not say it; `columns`, where the file
    does not say them. `entry`: all that its rows hold is read, and their checksum computed as for this manifest; with
    None their coordinates only. `dynamic`: partition columns that a late file has."""

    uri: str
    batch_id: int | None
    columns: Columns | None = None
    entry: FileEntry | None = None
    dynamic: tuple[str, ...] = ()


@dataclass(frozen=True)
class Span:
    """Offsets `[start, end)` that a landed batch read; no record was delivered at `gaps`."""

    batch_id: int
    partition: int
    start: int
    end: int
    gaps: tuple[Interval, ...] = ()


def twin_of(redrive: int) -> int:
    """A batch id that no batch has. Under it the rows of a redrive's sources are compared with the redrive's own: the
    same coordinates, each once."""
    return -redrive


@dataclass(frozen=True)
class Missing:
    """Offsets of one span that are in no file; `first`: where they begin."""

    batch_id: int
    partition: int
    rows: int
    first: tuple[Interval, ...]


@dataclass(frozen=True)
class Excess:
    """Rows at offsets that a row was found for before, or that were not read by their batch, or are a gap."""

    partition: int
    rows: int
    first: tuple[Interval, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Stray:
    """Rows of a batch that never landed; `partition`, `offset` and `file` are of the first one."""

    batch_id: int
    rows: int
    partition: int
    offset: int
    file: str


@dataclass(frozen=True)
class Findings:
    """Of one slab. `missing` has every span with any, `rows` counts all rows of the slab's batches."""

    rows: int = 0
    missing: tuple[Missing, ...] = ()
    excess: tuple[Excess, ...] = ()
    strays: tuple[Stray, ...] = ()


class FileReader(Protocol):
    """Looks into files. Raises TidegateError when it cannot work at all."""

    def footers(self, uris: Sequence[str]) -> Iterable[Footer]:
        """One for each, in order."""
        ...

    def begin(self, slab: Slab) -> None:
        """What follows, up to `end`, is about this slab."""
        ...

    def expect(self, spans: Sequence[Span]) -> None:
        """Spans of the slab, before the first `coordinates`. A batch may have several of one partition, which do not
        overlap."""
        ...

    def coordinates(self, files: Sequence[RowsSought], *, apart: bool = False) -> Iterable[Footer]:
        """Read every row: a Footer for each file, in order. Rows that are read `apart`, or without a slab, are held
        against no span."""
        ...

    def end(self) -> Findings: ...

    def close(self) -> None:
        """Release what it holds; it may be used again afterwards."""
        ...


@dataclass
class Allowance:
    """What may be in no file: filtered and dropped rows, and rows of files that could not be read.

    `spans` by (batch, Kafka partition) are exactly so many; of files that could not be read, or not to the end, at most
    so many are missing: `unread` of those of one batch, `anywhere` by Kafka partition for files of several."""

    spans: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    unread: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    anywhere: dict[int, int] = field(default_factory=lambda: defaultdict(int))


def check_coverage(found: Findings, allowed: Allowance) -> Iterator[Problem]:
    """Filtered and dropped rows are in no file: exactly as many are missing from their range as were counted."""
    for excess in found.excess:
        yield Problem(
            f"partition {excess.partition}",
            f"{many(excess.rows, 'row')} too many, at offsets {_shown(excess.first)}; in "
            f"{', '.join(excess.files[:SHOWN])}",
            "readers see these rows twice, or rows that the ledger does not know: find out who wrote the file",
        )
    for stray in found.strays:
        yield Problem(
            f"batch {stray.batch_id}",
            f"never landed, but {those(stray.rows, 'row')} of it, the first one at partition {stray.partition} "
            f"offset {stray.offset} in {stray.file}",
            "find out who wrote the file",
        )
    missing = {(m.batch_id, m.partition): m for m in found.missing}
    wrong: dict[int, list[tuple[int, int, int, tuple[Interval, ...]]]] = defaultdict(list)
    for batch_id, partition in sorted(set(missing) | set(allowed.spans)):
        one, due = missing.get((batch_id, partition)), allowed.spans.get((batch_id, partition), 0)
        rows = one.rows if one else 0
        due = max(due, min(rows, due + allowed.unread.get((batch_id, partition), 0)))
        if rows != due:
            wrong[partition].append((batch_id, rows, due, one.first if one else ()))
    for partition, spans in sorted(wrong.items()):
        for batch_id, rows, due, first in (s for s in spans if s[0] < 0):
            yield Problem(
                f"batch {-batch_id}",
                f"partition {partition}: {rows:,} of its offsets are in no dirty file that it was made of, {due:,} may "
                f"be: {_shown(first)}",
                "a redrive must hold the rows of its sources and no other: `tidegate where` says where each one is",
            )
        spans = [s for s in spans if s[0] >= 0]
        if not spans:
            continue
        rows, due = sum(s[1] for s in spans), sum(s[2] for s in spans)
        spare = allowed.anywhere.get(partition, 0)
        if spare and rows <= due + spare and all(s[1] >= s[2] for s in spans):
            continue  # a file that could not be read is a problem of its own
        more = f" and {many(len(spans) - 1, 'batch')} more" if len(spans) > 1 else ""
        yield Problem(
            f"partition {partition}",
            f"offsets read, but in no file: {rows:,}, where {due + spare:,} may be: {_shown(spans[0][3])} "
            f"of batch {spans[0][0]}{more}",
            "compare the files of the batches with these offsets: `tidegate where` says where each should be",
        )


def _shown(intervals: tuple[Interval, ...]) -> str:
    words = ", ".join(f"[{i.start}, {i.end})" for i in intervals[:SHOWN])
    return words + (" ..." if len(intervals) > SHOWN else "")
