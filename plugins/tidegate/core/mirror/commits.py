"""Which commit a keyed table needs next: a cut before merges, since they go by its buckets; a purge when all is in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.mirror.prefix import BatchRange


@dataclass(frozen=True)
class Merge:
    """Of these batches."""

    range: BatchRange


@dataclass(frozen=True)
class Cut:
    """Of the whole table, which has so many buckets, into the number that the spec wants."""

    before: int


@dataclass(frozen=True)
class Purge:
    """Of tombstones below the positions of batch `settled`."""

    settled: int


Commit = Merge | Cut | Purge


def next_commit(
    lacking: BatchRange | None, cut_before: int | None, settled: Callable[[], int | None] | None
) -> Commit | None:
    """None if the table is as it should be. `lacking`: landed batches that it does not have. `cut_before`: how many
    buckets it has; None if the spec wants as many. `settled`: names the batch to purge by, or None for no purge; it is
    asked only where nothing else is to be done, and is None where the run has just done its upkeep."""
    if cut_before is not None:
        return Cut(cut_before)
    if lacking is not None:
        return Merge(lacking)
    batch = settled() if settled is not None else None
    return None if batch is None else Purge(batch)
