"""Every Kafka coordinate exactly once: the rows found in files against the offsets that the ledger says were read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidegate.core.audit import Ledger, Problem
from tidegate.core.offsets import Interval, subtract, union

SHOWN = 3


@dataclass(frozen=True)
class Footer:
    """What a file says of itself. `partitions`: Kafka partition -> (rows, min offset, max offset), from its metadata.

    `intervals`, the offsets of its rows by Kafka partition, is None if its rows were not read; `repeated` counts
    rows that repeat an offset of the same file, `duplicates` are the first of them as (partition, offset). `error`
    when it cannot be read at all: then nothing else is told.
    """

    path: str
    rows: int = 0
    partitions: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)
    checksum: int = 0
    kind: str = ""
    intervals: Mapping[int, tuple[Interval, ...]] | None = None
    repeated: int = 0
    duplicates: tuple[tuple[int, int], ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Difference:
    """`excess`: offsets found more often than they should be; `missing`: less often."""

    excess: tuple[Interval, ...]
    missing: tuple[Interval, ...]


def difference(expected: Iterable[Interval], found: Iterable[Interval]) -> Difference:
    """Both as multisets of offsets: a recreated topic has the same offsets twice, rightly."""
    steps: dict[int, int] = defaultdict(int)
    for sign, intervals in ((1, found), (-1, expected)):
        for i in intervals:
            if len(i):
                steps[i.start] += sign
                steps[i.end] -= sign
    excess, missing, level, at = [], [], 0, 0
    for offset in sorted(steps):
        if level and offset > at:
            (excess if level > 0 else missing).append(Interval(at, offset))
        level += steps[offset]
        at = offset
    return Difference(union(excess), union(missing))


def check_coverage(ledger: Ledger, footers: Iterable[Footer], absent: Mapping[int, int]) -> Iterator[Problem]:
    """`footers` of every data, late and dirty file in its place; `absent`: rows of files that could not be read, by
    Kafka partition. Filtered and dropped rows are in no file: they may be missing, but no more of them than counted.
    """
    found: dict[int, list[tuple[Interval, str]]] = defaultdict(list)
    for footer in footers:
        for partition, intervals in (footer.intervals or {}).items():
            found[partition] += [(i, footer.path) for i in intervals]
    expected: dict[int, list[Interval]] = defaultdict(list)
    unwritten: dict[int, int] = defaultdict(int)
    for batch in ledger.landed.values():
        for row in batch.ranges:
            partition = row.range.partition
            expected[partition] += subtract(Interval(row.range.start, row.range.end), row.gaps)
            unwritten[partition] += (row.balance.filtered + row.balance.dropped) if row.balance else 0
    for partition in sorted(set(found) | set(expected)):
        rows = found[partition]
        differs = difference(expected[partition], (i for i, _ in rows))
        yield from _excess(partition, differs.excess, rows)
        missing = sum(map(len, differs.missing))
        allowed = unwritten[partition] + absent.get(partition, 0)
        if missing != allowed:
            yield Problem(
                f"partition {partition}",
                f"{missing:,} offsets that were read are in no file, {allowed:,} may be: {_shown(differs.missing)}",
                "compare the files of the batches with these offsets: `tidegate explain` names them",
            )


def _excess(partition: int, excess: tuple[Interval, ...], rows: list[tuple[Interval, str]]) -> Iterator[Problem]:
    if not excess:
        return
    first = excess[0]
    where = sorted({path for i, path in rows if i.start < first.end and first.start < i.end})
    yield Problem(
        f"partition {partition}",
        f"{sum(map(len, excess)):,} rows too many, at offsets {_shown(excess)}; in {', '.join(where[:SHOWN])}",
        "readers see these rows twice, or rows that the ledger does not know: find out who wrote the file",
    )


def _shown(intervals: tuple[Interval, ...]) -> str:
    words = ", ".join(f"[{i.start}, {i.end})" for i in intervals[:SHOWN])
    return words + (" ..." if len(intervals) > SHOWN else "")
