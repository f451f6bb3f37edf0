"""A bucket as the events of its batches make it, against the rows that the table has of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.engine.identity import row_hashes, total
from spark_jobs.engine.mirror.checksums import inside
from spark_jobs.engine.mirror.events import RUN_BYTES, Handed, taken
from spark_jobs.engine.mirror.merge import key_numbers, merge_bucket, versions_at, versions_of
from spark_jobs.engine.mirror.numbers import Numbers, numbers
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.mirror.words import coordinates, position, spelled
from tidegate.core.copy.checksums import TableKeys
from tidegate.core.mirror.comparison import SAMPLES, Compared, Kind, Sample
from tidegate.core.mirror.jobs import START, Position
from tidegate.core.mirror.order import is_below, newer

_TEXT = 60
"""Letters of a value that are shown."""


def newest(
    shape: Shape, open_storage: Callable[[str], Any], handed: Iterable[Handed], number: int, base: pa.Table
) -> pa.Table:
    """What all events of a bucket make of `base`, one row or tombstone of a key."""
    return folded(shape, _runs(open_storage, handed, number), base)


def folded(shape: Shape, runs: Iterable[pa.Table], base: pa.Table | None = None) -> pa.Table:
    """Events merged over `base`, or nothing, run by run: in memory are rows and one run, however long the table has
    lived. M2 does not ask how events are cut, but of repeats the first to have landed stays: runs are in the order
    of whole batches."""
    rows = shape.empty() if base is None else base
    for events in runs:
        merged = merge_bucket(shape, rows, events.select(shape.rows.names), START)
        if merged.rows is not None:
            rows = merged.rows.combine_chunks()
    return rows


def _runs(open_storage: Callable[[str], Any], handed: Iterable[Handed], number: int) -> Iterator[pa.Table]:
    """`handed` in the order of their batches."""
    waiting: list[pa.Table] = []
    last = 0
    for one in handed:
        if _ends_a_run(waiting, last, one):
            yield pa.concat_tables(waiting)
            waiting = []
        waiting += taken(open_storage, [one], number, number).values()
        last = max(last, *one.rows, 0)
    if waiting:
        yield pa.concat_tables(waiting)


def _ends_a_run(waiting: list[pa.Table], last: int, following: Handed) -> bool:
    """Enough wait, and what follows is of later batches alone, or of chunks of copies, which repeat nothing."""
    apart = min(following.rows, default=0) > last or max(following.rows, default=0) < 0
    return sum(events.nbytes for events in waiting) >= RUN_BYTES and apart


def compare(shape: Shape, number: int, made: pa.Table, held: pa.Table, purged_below: tuple[Any, Any, Any]) -> Compared:
    """`made`: by the events, one row or tombstone of a key; `held`: by the table, anything. `purged_below`: one of all,
    or that of each row that is made."""
    tombstones = int(numbers(shape.deleted(held)).sum())
    found = Compared(bucket=number, rows=len(held) - tombstones, tombstones=tombstones)
    mine, theirs = _hashes(made), _hashes(held)
    if len(made) == len(held) and total(mine) == total(theirs):
        return found
    return _keyed(shape, found, (made, held), (numbers(mine), numbers(theirs)), purged_below)


def against_source(
    shape: Shape, number: int, read: pa.Table, held: pa.Table, below: Position, within: Sequence[TableKeys] = ()
) -> Compared:
    """`read`: rows of a bucket as the source had them, each at its LOW; `held`: as the table has them, events up to
    every HIGH being merged. A row of the table that is newer than what was read is no difference (M2), nor is one that
    was not read and is at or above `below`, the smallest LOW. `within`: these keys alone were read; empty: all."""
    deleted = numbers(shape.deleted(held))
    found = Compared(bucket=number, rows=len(held) - int(deleted.sum()), tombstones=int(deleted.sum()), read=len(read))
    keys = _matched(shape, read, held)
    place, of = keys.place, keys.of
    stands, told = versions_of(shape, held), versions_of(shape, read)
    both = keys.once
    both = both[newer(versions_at(told, of[both]), versions_at(stands, place[both]))]
    mine_hash, theirs_hash = (numbers(row_hashes(rows.select(shape.content), {})) for rows in (read, held))
    gone = deleted[place[both]]
    alone = keys.surplus
    if within:
        alone = alone[inside(shape, held, within)[place[alone]]]
    alone = alone[~deleted[place[alone]] & is_below(versions_at(stands, place[alone]), below)]
    differ = {
        Kind.LACKING: np.concatenate([keys.lacking, both[gone]]),
        Kind.SURPLUS: alone,
        Kind.OTHER: both[~gone & (mine_hash[of[both]] != theirs_hash[place[both]])],
        Kind.DOUBLED: keys.doubled,
    }
    return _told(shape, found, (read, held), keys, differ)


@dataclass(frozen=True)
class _Matched:
    """Keys of both sides, by number. `times`: how often the table has each; `place`: where; `of`: where the other side
    has it; -1: it does not."""

    times: Numbers
    place: Numbers
    of: Numbers

    @property
    def once(self) -> Numbers:
        """Those that both have."""
        return np.flatnonzero((self.times == 1) & (self.of >= 0))

    @property
    def lacking(self) -> Numbers:
        return np.flatnonzero((self.times == 0) & (self.of >= 0))

    @property
    def surplus(self) -> Numbers:
        return np.flatnonzero((self.times == 1) & (self.of < 0))

    @property
    def doubled(self) -> Numbers:
        return np.flatnonzero(self.times > 1)


def _matched(shape: Shape, made: pa.Table, held: pa.Table) -> _Matched:
    keys = key_numbers(shape, made, held)
    mine, theirs = keys[: len(made)], keys[len(made) :]
    count = int(keys.max()) + 1 if len(keys) else 0
    place, of = np.full(count, -1), np.full(count, -1)
    place[theirs], of[mine] = np.arange(len(theirs)), np.arange(len(mine))
    return _Matched(np.bincount(theirs, minlength=count), place, of)


def _told(
    shape: Shape, found: Compared, rows: tuple[pa.Table, pa.Table], keys: _Matched, differ: dict[Kind, Numbers]
) -> Compared:
    """The same with what differs, and some of it."""
    samples = [
        _sample(shape, kind, rows, int(keys.of[key]), int(keys.place[key]), int(keys.times[key]))
        for kind, some in differ.items()
        for key in some[:SAMPLES].tolist()
    ]
    counts = tuple((kind.value, len(some)) for kind, some in differ.items() if len(some))
    return replace(found, differ=counts, samples=tuple(samples[:SAMPLES]))


def _hashes(rows: pa.Table) -> pa.Array:
    """By the row identity, of all columns: one that has the name of a batch's would be left out."""
    return row_hashes(rows.rename_columns([str(i) for i in range(rows.num_columns)]), {})


def _keyed(
    shape: Shape,
    found: Compared,
    rows: tuple[pa.Table, pa.Table],
    hashes: tuple[Numbers, Numbers],
    below: tuple[Any, Any, Any],
) -> Compared:
    made, held = rows
    keys = _matched(shape, made, held)
    both, lacking = keys.once, keys.lacking
    lacking = lacking[~_may_be_purged(shape, made, below)[keys.of[lacking]]]
    out = _may_be_kept_out(shape, made, below)[keys.of[lacking]]
    differ = {
        Kind.LACKING: lacking[~out],
        Kind.SURPLUS: keys.surplus,
        Kind.OTHER: both[hashes[0][keys.of[both]] != hashes[1][keys.place[both]]],
        Kind.DOUBLED: keys.doubled,
    }
    return replace(_told(shape, found, rows, keys, differ), kept_out=int(out.sum()))


def _may_be_purged(shape: Shape, made: pa.Table, below: tuple[Any, Any, Any]) -> Numbers:
    """Tombstones that a purge may have taken (M5)."""
    found = versions_of(shape, made)
    return found.deleted & is_below(found, below)


def _may_be_kept_out(shape: Shape, made: pa.Table, below: tuple[Any, Any, Any]) -> Numbers:
    """Rows that the purge may have kept out, since their tombstone was gone (M5)."""
    found = versions_of(shape, made)
    return ~found.deleted & is_below(found, below)


# ---------------------------------------------------------------- words


def _sample(shape: Shape, kind: Kind, rows: tuple[pa.Table, pa.Table], one: int, other: int, times: int) -> Sample:
    """`one`: place of the key among what is made, `other`: in the table; -1 where it is missing."""
    made, held = rows
    key = spelled(shape, *((made, one) if one >= 0 else (held, other)))
    if kind is Kind.DOUBLED:
        return Sample(kind.value, key, f"there {times} times", _version(shape, made, one, ()))
    columns = _differing(shape, rows, one, other) if kind is Kind.OTHER else shape.content
    return Sample(kind.value, key, _version(shape, held, other, columns), _version(shape, made, one, columns))


def _differing(shape: Shape, rows: tuple[pa.Table, pa.Table], one: int, other: int) -> list[str]:
    made, held = (part.slice(at, 1) for part, at in zip(rows, (one, other), strict=True))
    return [n for n in shape.content if _hashes(made.select([n])) != _hashes(held.select([n]))]


def _version(shape: Shape, rows: pa.Table, at: int, columns: Iterable[str]) -> str:
    if at < 0:
        return ""
    what = "a tombstone" if shape.deleted(rows.slice(at, 1))[0].as_py() else "a row"
    said = ", ".join(f"{n}={_text(rows[n][at].as_py())}" for n in columns if n not in shape.key and what == "a row")
    where = f"{rows[shape.op][at].as_py()} at {position(shape, rows, at)} from {coordinates(shape, rows, at)}"
    return f"{what} {said + ', ' if said else ''}{where}"


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _TEXT else text[:_TEXT] + "..."
