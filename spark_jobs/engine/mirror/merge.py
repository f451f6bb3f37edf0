"""One bucket's rows and the events of its keys become the bucket's next rows. `core.mirror.order` says which (M2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.failures import JobError, refuse
from spark_jobs.engine.identity import row_hashes
from spark_jobs.engine.mirror.base import foreign
from spark_jobs.engine.mirror.numbers import Numbers, column_of, mask_of, numbers
from spark_jobs.engine.mirror.other_log import refuse_below_a_reading, refuse_other_logs
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.mirror.words import coordinates, position, spelled
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.mirror.counts import Counts
from tidegate.core.mirror.order import Fates, Version, at_one_position, contradict, fates

_SAMPLES = 3


@dataclass(frozen=True)
class Merged:
    """`rows`: of the bucket now; None if no event has changed it."""

    counts: Counts
    rows: pa.Table | None = None
    tombstones: int = 0
    tombstones_before: int = 0
    below_purge: tuple[str, ...] = ()
    purged: int = 0
    swept: int = 0
    kept_out: tuple[tuple[str, int], ...] = ()
    """Events below the purge by server, where there are several."""


class _Sorted(NamedTuple):
    """Events by key, within a key from the oldest to the newest. `at`: their places among the events; `key`: numbers of
    their keys, those of rows being the rows' places; `winner`: place here of the newest of the key."""

    at: Numbers
    key: Numbers
    winner: Numbers
    versions: Version

    @property
    def wins(self) -> Numbers:
        return self.winner == np.arange(len(self.winner))


def merge_bucket(shape: Shape, base: pa.Table, events: pa.Table, purged_below: tuple[Any, Any, Any]) -> Merged:
    """Merge at least one event. `purged_below`: one of all, or that of each event.

    Raises JobError for two contents at one position (M7) unless the plan takes them, and for a table that has two rows
    of a key."""
    keys = key_numbers(shape, base, events)
    found = _sorted(shape, events, keys[len(base) :])
    has_row = found.key < len(base)
    table, tombstones = _standing(shape, base, found, has_row)
    if not shape.takes_conflicts:
        _refuse_conflicts(shape, base, events, found, table, has_row)
    winner = versions_at(found.versions, found.winner)
    below, swept = (_at(position, found.at) for position in (purged_below, shape.swept_below(events)))
    fate = fates(found.versions, table, has_row, winner, found.wins, below, swept)
    if not shape.takes_conflicts:
        refuse_other_logs(
            shape, base, events, found.at, (fate.stale & has_row, found.key), (fate.superseded, found.at[found.winner])
        )
        refuse_below_a_reading(shape, base, events, found.at, fate.stale, found.key)
    counts = Counts(**{name: int(mask.sum()) for name, mask in fate._asdict().items()})
    out = events.take(column_of(found.at[fate.below_purge]))
    samples, kept_out = _samples(shape, out.slice(0, _SAMPLES)), shape.by_server(out)
    if not counts.inserted + counts.changed:
        return Merged(counts, None, tombstones, tombstones, samples, kept_out=kept_out)
    rows, left = _rows(base, events, found, fate)
    now = tombstones - int(table.deleted[fate.changed].sum()) + int(found.versions.deleted[fate.stands].sum())
    assert len(rows) == left + counts.inserted + counts.changed
    return Merged(counts, rows, now, tombstones, samples, kept_out=kept_out)


def unmerged(shape: Shape, base: pa.Table) -> Merged:
    """What a bucket is to which no event has come."""
    tombstones = pc.sum(shape.deleted(base)).as_py() or 0
    return Merged(Counts(), None, tombstones, tombstones)


def _rows(base: pa.Table, events: pa.Table, found: _Sorted, fate: Fates) -> tuple[pa.Table, int]:
    """What stands now, and how many rows of the base are among it."""
    stays = np.ones(len(base), np.bool_)
    stays[found.key[fate.changed]] = False
    kept = base.filter(mask_of(stays)) if len(base) else base
    return pa.concat_tables([kept, events.take(column_of(found.at[fate.stands]))]), len(kept)


# ---------------------------------------------------------------- keys


def key_numbers(shape: Shape, base: pa.Table, events: pa.Table) -> Numbers:
    """A number for each key, of rows first, then of events: equal keys have equal numbers, exactly. A row's number is
    its place, because no two rows have one key. Raises JobError if they have."""
    found: pa.Array | None = None
    for name in shape.key:
        codes = pa.concat_arrays([_one(base[name]), _one(events[name])]).dictionary_encode()
        if found is None:
            found = codes.indices
            continue
        # pairs of numbers below 2**31 fit into 63 bits
        pairs = numbers(found).astype(np.int64) * len(codes.dictionary) + numbers(codes.indices)
        found = column_of(pairs).dictionary_encode().indices
    assert found is not None
    keys = numbers(found)
    distinct = int(keys[: len(base)].max()) + 1 if len(base) else 0
    if distinct != len(base):
        twice = int(np.flatnonzero(keys[: len(base)] != np.arange(len(base)))[0])
        raise foreign(f"the table has two rows of one key: {spelled(shape, base, twice)}")
    return keys


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


# ---------------------------------------------------------------- versions


def _sorted(shape: Shape, events: pa.Table, keys: Numbers) -> _Sorted:
    versions = versions_of(shape, events, _digests(shape, events))
    order = _order([*_last_to_first(shape, events), *_least_first(versions), keys])
    key = keys[order]
    ends = np.flatnonzero(np.diff(key, append=-1))
    winner = np.repeat(ends, np.diff(ends, prepend=-1))
    return _Sorted(order, key, winner, versions_at(versions, order))


def _least_first(versions: Version) -> Sequence[Numbers]:
    """What events are sorted by, the least important first (M2)."""
    return versions.rank[::-1]


def _last_to_first(shape: Shape, events: pa.Table) -> Sequence[Numbers]:
    """Of equal ones the first to have landed is the newest: whatever the cut of merges, it is the one that stays."""
    return [-numbers(events[name]).astype(np.int64) for name in (shape.offset, shape.partition, shape.batch)]


def _order(columns: Sequence[Numbers]) -> Numbers:
    told_apart = [c for c in columns if c[0] != c[-1] or (c != c[0]).any()]
    return np.lexsort(told_apart) if told_apart else np.arange(len(columns[0]))


def versions_of(shape: Shape, rows: pa.Table, digest: Numbers | None = None) -> Version:
    """Each row's version. Without digests they are 0: a caller that compares positions alone need not hash rows."""
    commit, row, n = (numbers(rows[name]) for name in (shape.commit, shape.row, shape.n))
    if digest is None:
        digest = np.zeros(len(rows), np.uint64)
    return Version(commit, row, n, numbers(shape.deleted(rows)), digest)


def _digests(shape: Shape, rows: pa.Table) -> Numbers:
    """By the row identity, of the spec's columns; 0 of a delete."""
    found = numbers(row_hashes(rows.select(shape.content), {}))
    return np.where(numbers(shape.deleted(rows)), np.uint64(0), found)


def versions_at(versions: Version, places: Numbers) -> Version:
    """The versions at these places, in their order."""
    return Version(*(column[places] for column in versions))


def _at(position: tuple[Any, Any, Any], places: Numbers) -> tuple[Any, Any, Any]:
    """Positions at these places, in their order; one of all stays it."""
    commit, row, n = (column if isinstance(column, int) else column[places] for column in position)
    return commit, row, n


def _standing(shape: Shape, base: pa.Table, found: _Sorted, has_row: Numbers) -> tuple[Version, int]:
    """What stands for each event's key, anything where nothing does; and the number of tombstones among all rows.

    Only where an event is at its row's very position does the row's content matter."""
    if not len(base):
        return found.versions, 0
    whole = versions_of(shape, base)
    places = np.where(has_row, found.key, 0)
    table = versions_at(whole, places)
    alike = np.unique(places[has_row & at_one_position(found.versions, table)])
    if len(alike):
        whole.digest[alike] = _digests(shape, base.take(column_of(alike)))
        table = versions_at(whole, places)
    return table, int(whole.deleted.sum())


# ---------------------------------------------------------------- conflicts and words


def _refuse_conflicts(
    shape: Shape, base: pa.Table, events: pa.Table, found: _Sorted, table: Version, has_row: Numbers
) -> None:
    """M7. Contents at one position are neighbours: the events of a key are in their order."""
    before = np.maximum(np.arange(len(found.key)) - 1, 0)
    wrong = contradict(found.versions, versions_at(found.versions, before)) & (found.key == found.key[before])
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise _conflict(shape, events, int(found.at[at - 1]), events, int(found.at[at]))
    wrong = has_row & contradict(found.versions, table)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise _conflict(shape, base, int(found.key[at]), events, int(found.at[at]))


def _conflict(shape: Shape, mine: pa.Table, one: int, events: pa.Table, other: int) -> JobError:
    where = "the table's row" if mine is not events else "an event"
    return refuse(
        f"two contents of one key at one position: {spelled(shape, events, other)} at "
        f"{position(shape, events, other)}: {where} from {coordinates(shape, mine, one)}, and an event from "
        f"{coordinates(shape, events, other)}",
        advice="a position of one log says one thing of a row: look whether two source tables, or a server that was "
        "set up anew, write to this topic, or whether the connector has sent the event again and a column was "
        "added, or is read otherwise, since the first of both had landed (docs/mirrors.md); nothing was changed",
        partition=events[shape.partition][other].as_py(),
        offset=events[shape.offset][other].as_py(),
        kind=RefusalKind.CONFLICT,
    )


def _samples(shape: Shape, events: pa.Table) -> tuple[str, ...]:
    return tuple(
        f"{spelled(shape, events, i)} from {coordinates(shape, events, i)} at {position(shape, events, i)}"
        for i in range(len(events))
    )
