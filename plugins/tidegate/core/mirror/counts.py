"""What a merge did with the events of its batches. Each event is in exactly one of the counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Events of one merge by their fate. How they fall depends on how batches are cut into merges, so these are
    information about one commit; only `events` and `inserted` are audited over the chain of commits.

    `inserted`: became the first row or tombstone of their key. `changed`: replaced a row or a tombstone.
    `superseded`: another event of the same merge was newer. `stale`: the table's row was newer. `same`: the table, or
    another event of this merge, already said so. `below_purge`: older than `purged_below`, and their key has no row
    (M5)."""

    inserted: int = 0
    changed: int = 0
    superseded: int = 0
    stale: int = 0
    same: int = 0
    below_purge: int = 0

    @property
    def events(self) -> int:
        """All events that were merged."""
        return sum(getattr(self, f.name) for f in fields(self))


def add_up(counts: Iterable[Counts]) -> Counts:
    """Sum of each count."""
    found = list(counts)
    return Counts(**{f.name: sum(getattr(one, f.name) for one in found) for f in fields(Counts)})
