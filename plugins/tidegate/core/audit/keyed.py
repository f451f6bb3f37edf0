"""Words for an audit's findings in a keyed table that differs from what its batches make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidegate.core.audit.problems import Problem, republish
from tidegate.core.base.wording import many
from tidegate.core.mirror.comparison import Compared, Kind, Sample
from tidegate.core.target.paths import ROWS, TOMBSTONES
from tidegate.core.target.prefix import Prefix
from tidegate.core.window.cut import window_id

_WORDS = {
    Kind.LACKING: "lacking",
    Kind.SURPLUS: "without any event",
    Kind.OTHER: "with another version",
    Kind.DOUBLED: "with several rows",
}


def problems(name: str, table: str, prefix: Prefix, compared: Iterable[Compared], whole: bool) -> list[Problem]:
    """What is wrong in the table of a pipeline, and what to do. `whole`: all of its buckets were compared."""
    compared = list(compared)
    found = [_problem(name, table, prefix, one) for one in compared if one.differ or one.unread or one.unmade]
    found += _more_than_kept_out(name, table, prefix, sum(one.kept_out for one in compared))
    return found if found or not whole else _sums(table, prefix, compared)


def _more_than_kept_out(name: str, table: str, prefix: Prefix, keys: int) -> list[Problem]:
    """Keys that have no row though the batches make one, below the purge: each of them has an event that was counted
    when it was kept out (M5)."""
    if keys <= prefix.below_purge:
        return []
    lacking = f"{many(keys, 'row')} below its purge at {prefix.purge_words} are not in it"
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
    why = one.unread or one.unmade
    if why:
        return Problem(f"bucket {one.bucket}", f"{table}: it cannot be compared: {why}", _take_back(name))
    what = f"{table}: not what batches 1 to {prefix.upto} make: {_differences(one, _TABLE)}"
    return Problem(f"bucket {one.bucket}", what, _advice(name, one.samples))


def problems_of_day(
    name: str, window_ms: int, location: str, ground: str, compared: Iterable[Compared], kept_out: int = 0
) -> list[Problem]:
    """What is wrong with a day, whose files are at `location`, and what to do. `ground`: what it is built on, in
    words. `kept_out`: so many events has its purge kept out, by what the day says (M5)."""
    compared = list(compared)
    found = [_of_day(name, window_ms, location, ground, one) for one in compared if one.differ or one.unread]
    lacking = [one for one in compared if one.kept_out]
    keys = sum(one.kept_out for one in lacking)
    if keys > kept_out:
        what = f"{many(keys, 'row')} below its purge {'is' if keys == 1 else 'are'} not in it, but "
        what += f"{many(kept_out, 'event')} {'was' if kept_out == 1 else 'were'} kept out"
        advice = _anew(name, window_ms, location, *(one.bucket for one in lacking))
        found.append(Problem(f"window {window_id(window_ms)}", what, advice))
    return found


def _of_day(name: str, window_ms: int, location: str, ground: str, one: Compared) -> Problem:
    n = one.bucket
    what = (
        f"bucket {n} cannot be compared: {one.unread}"
        if one.unread
        else f"bucket {n} is not what its events make of {ground}: {_differences(one, _DAY)}"
    )
    advice = _anew(name, window_ms, location, n)
    if one.samples:
        advice = f"{_events_of(name, one.samples)}; {advice}"
    return Problem(f"window {window_id(window_ms)}", what, advice)


def _anew(name: str, window_ms: int, location: str, *buckets: int) -> str:
    """How a day's buckets are built anew."""
    files = " and ".join(f"{ROWS}/*-{n:05d}-* and {TOMBSTONES}/*-{n:05d}-*" for n in buckets)
    return (
        f"move {files} away from {location}; then {republish(name, window_ms)}: the day is built anew from its events. "
        "Audit it again before the days after it, which may have taken the rows over"
    )


class _Of(NamedTuple):
    """What is compared, and with what."""

    held: str
    make: str
    silent: str


_TABLE = _Of("the table", "the batches make", "no event of the batches says so")
_DAY = _Of("the day", "its events and the day before make", "neither its events nor the day before say so")


def _differences(one: Compared, of: _Of) -> str:
    counts = ", ".join(f"{many(n, 'key')} {_WORDS[Kind(kind)]}" for kind, n in one.differ)
    named = "; ".join(_said(sample, of) for sample in one.samples)
    more = sum(n for _, n in one.differ) - len(one.samples)
    return f"{counts}: {named}" + (f"; and {many(more, 'more key')}" if more else "")


def _said(sample: Sample, of: _Of) -> str:
    if sample.kind == Kind.LACKING.value:
        return f"{sample.key} is not in {of.held}, {of.make} {sample.batches}"
    if sample.kind == Kind.SURPLUS.value:
        return f"{sample.key} is in {of.held} ({sample.table}), {of.silent}"
    return f"{sample.key} is {sample.table} in {of.held}, {of.make} {sample.batches or 'nothing'}"


def _advice(name: str, samples: Sequence[Sample]) -> str:
    return f"{_events_of(name, samples)}; {_take_back(name)}"


def _events_of(name: str, samples: Sequence[Sample]) -> str:
    key = samples[0].key.replace(", ", " --key ")
    return f"`tidegate where {name} --key {key}` shows the events of a key"


def _take_back(name: str) -> str:
    return (
        "find out who changed the table (its snapshots say so), and take it back to the snapshot before that; if none "
        f"is whole, drop it: `tidegate apply {name}` makes it anew from all batches (docs/mirrors.md)"
    )
