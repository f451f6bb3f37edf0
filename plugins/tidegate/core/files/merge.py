"""Small files of a window that become larger ones before it is published: which, and what must come out of it.

A merge changes how a window's rows are cut into files and nothing else: a merged file's entry is the sum of its
sources', so the window's digest, balance and coverage are what they were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.files.receipt import CHECKSUM_MODULUS, BatchRows, FileEntry, PartitionRows

Rows = TypeVar("Rows", PartitionRows, BatchRows)


@dataclass(frozen=True)
class Source:
    """A landed file. `uris`: where it may lie now, the likeliest first; it is read, never moved or deleted."""

    batch_id: int
    entry: FileEntry
    uris: tuple[str, ...]


@dataclass(frozen=True)
class Merge:
    """`stem`: path of the merged file below the work directory, without what the job adds to make it unique.

    `columns`: (name, Hive type) of what the sources hold, where they do not say it themselves."""

    stem: str
    sources: tuple[Source, ...]
    columns: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True)
class Merged:
    """What a job wrote for the merge of that stem, counted from the rows as they were written."""

    stem: str
    path: str
    bytes: int
    rows: int
    checksum: int
    partitions: tuple[PartitionRows, ...]


@dataclass(frozen=True)
class MergeReceipt:
    """`_receipt.json` of a merge job: written last."""

    attempt: str
    files: tuple[Merged, ...]
    seconds: float = 0.0


def groups(
    files: Iterable[Source], columns: Mapping[int, object], target_bytes: int, min_files: int | None
) -> list[tuple[Source, ...]]:
    """Files that are worth merging into one, by partition values and by the columns of their batches.

    Small is below half of `target_bytes`. `min_files` of them in one partition make a merge worth its while; a merged
    file is about `target_bytes` at most. Files whose batches had other columns are never merged with each other."""
    if min_files is None:
        return []
    places: dict[tuple[PartitionValues, object], list[Source]] = defaultdict(list)
    for f in files:
        if f.entry.bytes * 2 < target_bytes:
            places[f.entry.values, columns[f.batch_id]].append(f)
    found: list[tuple[Source, ...]] = []
    for _, small in sorted(places.items(), key=lambda item: str(item[0])):
        if len(small) >= min_files:
            found += _cut(sorted(small, key=lambda f: (f.batch_id, f.entry.path)), target_bytes)
    return [g for g in found if len(g) > 1]


def worth_a_look(files: Iterable[FileEntry], target_bytes: int, min_files: int | None) -> bool:
    """Whether `groups` may find something, whatever the columns are."""
    counts: dict[PartitionValues, int] = defaultdict(int)
    for f in files:
        counts[f.values] += f.bytes * 2 < target_bytes
    return min_files is not None and any(n >= min_files for n in counts.values())


def _cut(files: list[Source], target_bytes: int) -> list[tuple[Source, ...]]:
    cut: list[list[Source]] = []
    size = inf
    for f in files:
        if size + f.entry.bytes > target_bytes:
            cut.append([])
            size = 0
        cut[-1].append(f)
        size += f.entry.bytes
    return [tuple(c) for c in cut]


def sum_of(sources: Iterable[Source], path: str, size: int) -> FileEntry:
    """The entry of a file at `path`, of `size` bytes, that holds exactly the rows of `sources`."""
    entries = [s.entry for s in sources]
    lows = [e.min_event_ms for e in entries if e.min_event_ms is not None]
    highs = [e.max_event_ms for e in entries if e.max_event_ms is not None]
    first = entries[0]
    return FileEntry(
        path=path,
        kind=first.kind,
        window_ms=first.window_ms,
        values=first.values,
        rows=sum(e.rows for e in entries),
        bytes=size,
        min_event_ms=min(lows, default=None),
        max_event_ms=max(highs, default=None),
        checksum=sum(e.checksum for e in entries) % CHECKSUM_MODULUS,
        partitions=add_up(p for e in entries for p in e.partitions),
    )


def add_up(parts: Iterable[Rows]) -> tuple[Rows, ...]:
    """Rows and offsets by Kafka partition, of rows that are told by batch by both, each once."""
    found: defaultdict[tuple[int, ...], list[Rows]] = defaultdict(list)
    for p in parts:
        found[p.key].append(p)
    return tuple(sorted(map(_sum, found.values())))


def _sum(parts: list[Rows]) -> Rows:
    first = parts[0]
    if len(parts) == 1:
        return first
    low, high = min(p.min_offset for p in parts), max(p.max_offset for p in parts)
    return replace(first, rows=sum(p.rows for p in parts), min_offset=low, max_offset=high)


def errors(merges: Iterable[Merge], receipt: MergeReceipt, listing: Mapping[str, int]) -> list[str]:
    """Why the merge cannot be right; `listing`: path -> bytes of what is in the work directory."""
    merges = tuple(merges)
    told = {m.stem: m for m in receipt.files}
    found = [
        f"{m.stem} is not among the merges asked for" for m in receipt.files if m.stem not in {x.stem for x in merges}
    ]
    for merge in merges:
        got = told.get(merge.stem)
        if got is None:
            found.append(f"{merge.stem} was not merged")
            continue
        due = sum_of(merge.sources, got.path, got.bytes)
        for what, has, wanted in (
            ("rows", got.rows, due.rows),
            ("rows by Kafka partition", got.partitions, due.partitions),
            ("checksum", got.checksum, due.checksum),
            ("bytes in its directory", listing.get(got.path), got.bytes),
        ):
            if has != wanted:
                found.append(f"{got.path}: {what} {has}, its sources' are {wanted}")
    return found


def merged_sources(landed: Iterable[str], manifest: Iterable[str]) -> frozenset[str]:
    """Published paths that landed files would have and whose rows a merged file holds: the rest of a window's
    files once a generation of all of them is BUILT."""
    return frozenset(landed) - frozenset(manifest)
