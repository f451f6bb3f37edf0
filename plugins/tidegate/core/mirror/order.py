"""The order of what is said of a key (M2), and what becomes of each event.

Each rule is stated once, element by element: it decides about one event of plain values, and about columns of events
(numpy arrays of one length) alike. So it uses the operators that both have: no `and`, `or`, `not`, no `if`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidegate.core.mirror.jobs import START, Position

Truth = Any
"""A bool, or an array of them."""


class Version(NamedTuple):
    """What an event, or a row of the table, says of its key.

    `commit`, `row`, `n`: the position. `deleted`: an event of an operation `d`, a tombstone. `digest`: of the row's
    columns, by the row identity; 0 of what is deleted, which says nothing but the key."""

    commit: Any
    row: Any
    n: Any
    deleted: Any
    digest: Any

    @property
    def rank(self) -> tuple[Any, ...]:
        """What versions compare by, the most important first (M2).

        A key that became an equal one (`numeric` in PostgreSQL: 1.0 is 1.00) is a delete and an insert at one position:
        the row that came stays, whichever of both is met first."""
        return (*self[:3], _not(self.deleted), self.digest)


class Fates(NamedTuple):
    """Which of `core.mirror.counts.Counts` each event counts in: exactly one of them is true."""

    inserted: Truth
    changed: Truth
    superseded: Truth
    stale: Truth
    same: Truth
    below_purge: Truth

    @property
    def stands(self) -> Truth:
        """Whether the event becomes its key's row or tombstone."""
        return self.inserted | self.changed


def newer(one: Version, other: Version) -> Truth:
    """M2: whether `one` comes after `other`: by position, then an upsert after a delete, then by digest."""
    after, level = False, True
    for mine, theirs in zip(one.rank, other.rank, strict=True):
        after = after | (level & (mine > theirs))
        level = level & (mine == theirs)
    return after


def same(one: Version, other: Version) -> Truth:
    """Whether both say the same thing at the same position: a repeat."""
    return _level(one, other)


def at_one_position(one: Version, other: Version) -> Truth:
    return _level(one[:3], other[:3])


def contradict(one: Version, other: Version) -> Truth:
    """M7: whether two upserts of a key say different things at one position. A delete beside an upsert is no conflict
    (M2)."""
    both_upserts = _not(one.deleted | other.deleted)
    return at_one_position(one, other) & both_upserts & (one.digest != other.digest)


def goes_back(beaten: Truth, arrived_later: Truth, at_ms: Any, known_ms: Any) -> Truth:
    """M8: whether an event that another one beats by its position is news all the same, so that M2 would lose it.

    `beaten`: what stands for its key, or wins, has a greater position. `arrived_later`: behind that, in the same lane.
    `at_ms`: when it happened, by the source. `known_ms`: the newest such time of all that its lane had brought before;
    0: nothing had a time, and nothing can be said.
    A lane has the order of the log, but for what a connector sends again, and that has its old time: such an event is
    of another log."""
    return beaten & arrived_later & (at_ms > known_ms) & (known_ms > 0)


def is_below(one: Version, position: tuple[Any, Any, Any]) -> Truth:
    """M5: whether it is older than the position below which tombstones were purged."""
    below, level = False, True
    for mine, theirs in zip(one[:3], position, strict=True):
        below = below | (level & (mine < theirs))
        level = level & (mine == theirs)
    return below


def fates(
    event: Version,
    table: Version,
    has_row: Truth,
    winner: Version,
    wins: Truth,
    purged_below: Position,
    swept_below: tuple[Any, Any, Any] = START,
) -> Fates:
    """What becomes of an event.

    `table`: what stands for its key, if `has_row`. `winner`: the newest event of its key in this merge; `wins`: it is
    that one itself, of equal ones the first. `swept_below`: S5, a reading of the source's key is newer than any event
    below it, and has no row of a key that has none here (`core.mirror.parts`)."""
    stale = (has_row & newer(table, event)) | (_not(has_row) & is_below(event, swept_below))
    known = has_row & same(event, table)
    left = _not(stale | known)
    below_purge = left & _not(has_row) & is_below(winner, purged_below)
    left = left & _not(below_purge)
    repeat = left & _not(wins) & same(event, winner)
    return Fates(
        inserted=left & wins & _not(has_row),
        changed=left & wins & has_row,
        superseded=left & _not(wins) & _not(repeat),
        stale=stale,
        same=known | repeat,
        below_purge=below_purge,
    )


def _level(one: tuple[Any, ...], other: tuple[Any, ...]) -> Truth:
    level: Truth = True
    for mine, theirs in zip(one, other, strict=True):
        level = level & (mine == theirs)
    return level


def _not(truth: Truth) -> Truth:
    return truth ^ True
