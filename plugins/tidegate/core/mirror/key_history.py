"""The history of a key: its landed events in their order (M2), and which of them made the row that is seen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import pairwise
from typing import Any, Protocol

from tidegate.core.base.choice import Choice
from tidegate.core.base.fields import read_as
from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.mirror.jobs import START, Position
from tidegate.core.mirror.key_values import KeyValue
from tidegate.core.mirror.order import Version, contradict, is_below, same

DELETE = "d"
MOST = 1_000
"""Events that are told of a key: the newest ones."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event of the key in a landed file. `commit`, `row`, `n`: its position. `digest`: of the row's columns, by the
    row identity; 0 of a delete. `file`: URI."""

    partition: int
    offset: int
    batch_id: int
    commit: int
    row: int
    n: int
    operation: str
    digest: int
    file: str

    @property
    def deleted(self) -> bool:
        return self.operation == DELETE

    @property
    def version(self) -> Version:
        return Version(self.commit, self.row, self.n, self.deleted, self.digest)


class EventState(Choice):
    """ROW: the event made the row that is seen. TOMBSTONE: it deleted that. PURGED: it did, and the tombstone is old
    enough to have been purged. SWEPT: it is older than a whole copy of the source's table, which found no row (S5).
    KEPT_OUT: it came after that purge, and makes no row (M5). UNSURE: it made the row, unless an earlier purge has kept
    it out. OLDER, REPEAT: it is merged, and another event stands, or one that says the same. WAITING: its batch is not
    merged. CONFLICT: it waits, and its merge is refused (M7)."""

    ROW = "row"
    TOMBSTONE = "tombstone"
    PURGED = "purged"
    SWEPT = "swept"
    KEPT_OUT = "below-purge"
    UNSURE = "row-or-below-purge"
    OLDER = "older"
    REPEAT = "repeat"
    WAITING = "waiting"
    CONFLICT = "conflict"


ROW, TOMBSTONE, PURGED, SWEPT, KEPT_OUT, UNSURE, OLDER, REPEAT, WAITING, CONFLICT = EventState


@dataclass(frozen=True, kw_only=True)
class Happened:
    """An event, and what became of it; `words`: that for people. `day_ms`: of a table by days, when the day begins that
    it counts in (UTC)."""

    state: EventState
    operation: str
    partition: int
    offset: int
    batch_id: int
    commit: int
    row: int
    n: int
    file: str
    words: str
    day_ms: int | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class History:
    """`events`: the newest first, at most as many as were asked for, of `count` in all. `seen`: the one that made the
    row, or its tombstone; None if no event of the key is merged. `newest_merged`: no event that waits is newer, or in
    conflict."""

    events: tuple[Happened, ...]
    count: int
    seen: Happened | None
    newest_merged: bool


@dataclass(frozen=True)
class Question:
    """`files`: of each the URIs where it can be, the likeliest first. `content`: (logical column, Hive type) of what a
    row says. `most`: only so many events are wanted, the newest."""

    key: tuple[KeyValue, ...]
    files: tuple[tuple[str, ...], ...]
    content: tuple[tuple[str, str], ...]
    most: int


@dataclass(frozen=True)
class Found:
    """Of a question's files. `count`: of all events of the key. `unread`: why not every file was read, else empty."""

    events: tuple[Event, ...]
    count: int
    unread: str = ""


@dataclass(frozen=True)
class Purge:
    """The newest one of the table (M5): `below` is its marker, `upto` the last batch that was in it then. `swept`: the
    marker of the newest whole copy (S5). `others`: events were kept out in the table's life, maybe by purges before it,
    of which nobody knows the markers any more."""

    below: Position = START
    upto: int = 0
    swept: Position = START
    others: bool = False


NO_PURGE = Purge()


class EventReader(Protocol):
    """Looks for the events of a key. Raises TidegateError when it cannot work at all."""

    def events(self, question: Question) -> Found: ...


def newest(events: Iterable[Event], most: int) -> list[Event]:
    """The newest ones, the newest first: by version (M2), of equal ones the first to have landed."""
    return nlargest(most, events, key=_rank)


def history(
    merged: Sequence[Event],
    waiting: Sequence[Event],
    count: int,
    most: int,
    purge: Purge = NO_PURGE,
    unit: str = "merge",
    kept_out: Collection[Event] | None = None,
) -> History:
    """What became of each event. `merged`, `waiting`: the newest of each; `count`: of all that there are. `unit`: what
    events wait for, in words. `kept_out`: of a table by days, see `kept_out_by_days`."""
    kept_out = _kept_out(merged, purge) if kept_out is None else kept_out
    standing = next(iter(newest([e for e in merged if e not in kept_out], 1)), None)
    waits = newest(waiting, len(waiting))
    later, conflicts = set(waits), _conflicts(waits, standing)
    listed = newest((*merged, *waiting), most)
    first = listed[0] if listed else None

    def told(event: Event) -> Happened:
        if event in later:
            state = CONFLICT if event in conflicts else WAITING
        else:
            state = KEPT_OUT if event in kept_out else _merged(event, standing, purge)
            if state is ROW and purge.others and _may_be_kept_out(event, merged, purge):
                state = UNSURE
        words = _waits(event, first) if state is WAITING else _WORDS[state]
        return _happened(event, state, words.replace("its merge", f"its {unit}"))

    return History(
        events=tuple(told(e) for e in listed),
        count=count,
        seen=None if standing is None else told(standing),
        newest_merged=first is not None and first not in later and not conflicts,
    )


_WORDS: Mapping[EventState, str] = {
    ROW: "made the row that is seen",
    TOMBSTONE: "deleted the row: a tombstone is left",
    PURGED: "deleted the row; its tombstone is old enough to be purged",
    SWEPT: "older than a whole copy of the source's table, which has not found the row: it makes none",
    KEPT_OUT: "older than the purge, and came after it: kept out, it makes no row",
    UNSURE: "made the row that is seen, unless an earlier purge has kept it out: of purges the newest alone is known, "
    "and some have kept events out; the table says whether it has the row",
    OLDER: "merged; a newer event stands",
    REPEAT: "merged; it says again what stands",
    CONFLICT: "another content at the same position: its merge is refused",
}


def _rank(event: Event) -> tuple[Any, ...]:
    return (*event.version.rank, -event.batch_id, -event.partition, -event.offset)


def _kept_out(merged: Sequence[Event], purge: Purge) -> set[Event]:
    """Events that came after the purge, older than it, while their key had no row: nothing that the purge left had made
    one, and nothing that came since but in their own batch and at or above it."""
    known = newest([e for e in merged if e.batch_id <= purge.upto], 1)
    if known and not (known[0].deleted and is_below(known[0].version, purge.below)):
        return set()
    since = sorted((e for e in merged if e.batch_id > purge.upto), key=lambda e: e.batch_id)
    inserts = next((e.batch_id for e in since if not is_below(e.version, purge.below)), None)
    return {e for e in since if inserts is None or e.batch_id < inserts}


def _may_be_kept_out(event: Event, merged: Sequence[Event], purge: Purge) -> bool:
    """Whether a purge before the newest one may have kept it out: it was in the table, or nowhere, by then, is older
    than the newest marker, and no batch before its own has left a row. Rows of copies are never kept out (S7)."""
    if not 0 < event.batch_id <= purge.upto or not is_below(event.version, purge.below):
        return False
    before = newest([e for e in merged if 0 < e.batch_id < event.batch_id], 1)
    return not before or before[0].deleted


def kept_out_by_days(days: Mapping[int, Sequence[Event]], marker: Callable[[int], Position]) -> set[Event]:
    """Events of the key that purges have kept out (M5). `days`: its events by their day; `marker`: that of the day
    before one, asked only while the key has no row."""
    standing: Event | None = None
    found: set[Event] = set()
    for day in sorted(days):
        winner = newest(days[day], 1)[0]
        if standing is None or standing.deleted:
            below = marker(day)
            if (standing is None or is_below(standing.version, below)) and is_below(winner.version, below):
                found |= set(days[day])
                continue
        standing = winner if standing is None else newest((standing, winner), 1)[0]
    return found


def _merged(event: Event, standing: Event | None, purge: Purge) -> EventState:
    if standing is None:
        return OLDER
    if event == standing and is_below(event.version, purge.swept):
        return SWEPT
    if event == standing:
        gone = event.batch_id <= purge.upto and is_below(event.version, purge.below)
        return (PURGED if gone else TOMBSTONE) if event.deleted else ROW
    return REPEAT if same(event.version, standing.version) else OLDER


def _waits(event: Event, first: Event | None) -> str:
    if event == first:
        return "waits for its merge, which deletes the row" if event.deleted else "waits for its merge: the next row"
    if first is not None and same(event.version, first.version):
        return "waits for its merge, which changes nothing: a repeat"
    return "waits for its merge, which changes nothing: a newer event is there"


def _conflicts(waits: Sequence[Event], standing: Event | None) -> set[Event]:
    """Those that a merge compares, and that say something else at one position: neighbours, and what stands."""
    found = {e for e in waits if standing is not None and contradict(e.version, standing.version)}
    for one, other in pairwise(waits):
        if contradict(one.version, other.version):
            found |= {one, other}
    return found


def _happened(event: Event, state: EventState, words: str) -> Happened:
    return read_as(Happened, event, state=state, words=words, day_ms=None)
