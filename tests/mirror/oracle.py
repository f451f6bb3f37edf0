"""What a mirror must hold, and how its events must be counted: plain Python, event by event. Imports no rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.mirror.histories import Event, Key, Position

Rows = dict[Key, Event]
"""What stands for each key: rows and tombstones."""


def newest(events: Iterable[Event]) -> Rows:
    """The last word of each key; of repeats the first to arrive. No two contents are at one position."""
    found: Rows = {}
    for e in sorted(events, key=lambda e: e.arrival):
        old = found.get(e.key)
        if old is None or _rank(e) > _rank(old):
            found[e.key] = e
    return found


def merged(table: Rows, events: Iterable[Event], purged_below: Position) -> tuple[Rows, Counter[str]]:
    """The table after a merge, and the fate of its events."""
    events = list(events)
    last, table, fates = newest(events), dict(table), Counter[str]()
    before = dict(table)
    for key, e in last.items():
        row = before.get(key)
        if (row is None and e.position >= purged_below) or (row and _rank(e) > _rank(row)):
            table[key] = e
    for e in events:
        row, best = before.get(e.key), last[e.key]
        if row is not None and _rank(e) <= _rank(row):
            fates["same" if _rank(e) == _rank(row) else "stale"] += 1
        elif table.get(e.key) is e:
            fates["changed" if row else "inserted"] += 1
        elif e.key not in table:
            fates["below_purge"] += 1
        else:
            fates["same" if _rank(e) == _rank(best) else "superseded"] += 1
    return table, fates


def purged(table: Rows, below: Position) -> Rows:
    """Without the tombstones below that position."""
    return {key: e for key, e in table.items() if not (e.deleted and e.position < below)}


def seen(table: Rows) -> set[Event]:
    """What readers see."""
    return {e for e in table.values() if not e.deleted}


def _rank(e: Event) -> tuple[Position, bool]:
    return e.position, not e.deleted
