"""What a keyed table that is not what its batches make is told to people as."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.core.audit.problems import Problem
from tidegate.core.base.wording import many
from tidegate.core.mirror.comparison import Compared, Kind, Sample
from tidegate.core.mirror.jobs import spelled
from tidegate.core.target.port import Prefix

_WORDS = {
    Kind.LACKING: "lacking",
    Kind.SURPLUS: "without any event",
    Kind.OTHER: "with another version",
    Kind.DOUBLED: "with several rows",
}


def problems(name: str, table: str, prefix: Prefix, compared: Iterable[Compared], whole: bool = True) -> list[Problem]:
    """What is wrong in the table of a pipeline, and what to do. `whole`: all of its buckets were compared."""
    compared = list(compared)
    found = [_problem(name, table, prefix, one) for one in compared if one.differ or one.unread]
    found += _more_than_kept_out(name, table, prefix, sum(one.kept_out for one in compared))
    return found if found or not whole else _sums(table, prefix, compared)


def _more_than_kept_out(name: str, table: str, prefix: Prefix, keys: int) -> list[Problem]:
    """Keys that have no row though the batches make one, below the purge: each of them has an event that was counted
    when it was kept out (M5)."""
    if keys <= prefix.below_purge:
        return []
    lacking = f"{many(keys, 'row')} below its purge at {spelled(prefix.purged_below)} are not in it"
    what = f"{table}: {lacking}, but its merges have kept out {many(prefix.below_purge, 'event')}"
    return [Problem("catalogue", what, _take_back(name))]


def _sums(table: str, prefix: Prefix, compared: Sequence[Compared]) -> list[Problem]:
    """Whether all buckets, each of them right, have what the table says of itself."""
    rows, tombstones = sum(one.rows for one in compared), sum(one.tombstones for one in compared)
    if (rows, tombstones) == (prefix.rows, prefix.tombstones):
        return []
    there = f"{many(rows, 'row')} and {many(tombstones, 'tombstone')}"
    said = f"{many(prefix.rows, 'row')} and {many(prefix.tombstones, 'tombstone')}"
    what = f"{table}: its files hold {there}, as its batches make them, but its newest merge says {said}"
    return [Problem("catalogue", what, "the summaries of its snapshots were changed: compare with an older snapshot")]


def _problem(name: str, table: str, prefix: Prefix, one: Compared) -> Problem:
    if one.unread:
        return Problem(f"bucket {one.bucket}", f"{table}: it cannot be compared: {one.unread}", _take_back(name))
    counts = ", ".join(f"{many(n, 'key')} {_WORDS[Kind(kind)]}" for kind, n in one.differ)
    named = "; ".join(map(_said, one.samples))
    more = sum(n for _, n in one.differ) - len(one.samples)
    what = f"{table}: not what batches 1 to {prefix.upto} make: {counts}: {named}" + (
        f"; and {many(more, 'more key')}" if more else ""
    )
    return Problem(f"bucket {one.bucket}", what, _advice(name, one.samples))


def _said(sample: Sample) -> str:
    if sample.kind == Kind.LACKING.value:
        return f"{sample.key} is not in the table, the batches make {sample.batches}"
    if sample.kind == Kind.SURPLUS.value:
        return f"{sample.key} is in the table ({sample.table}), no event of the batches says so"
    return f"{sample.key} is {sample.table} in the table, the batches make {sample.batches or 'nothing'}"


def _advice(name: str, samples: Sequence[Sample]) -> str:
    key = samples[0].key.replace(", ", " --key ")
    return f"`tidegate where {name} --key {key}` shows the events of a key; {_take_back(name)}"


def _take_back(name: str) -> str:
    return (
        "find out who changed the table (its snapshots say so), and take it back to the snapshot before that; if none "
        f"is whole, drop it: `tidegate apply {name}` makes it anew from all batches (docs/mirrors.md)"
    )
