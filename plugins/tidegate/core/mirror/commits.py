"""Which commit a keyed table needs next: a cut before merges, since they go by its buckets; what was read of a copy,
which is soon done, before batches, which go on; a purge when all is in; and where all is done, what it may tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.mirror.copied import Complete, CopyStep
from tidegate.core.mirror.jobs import EventFile
from tidegate.core.mirror.next_merge import BatchRange


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
    """Of tombstones below the positions of batch `settled`; those of servers that are `held` stay (S7)."""

    settled: int
    held: tuple[str, ...] = ()


@dataclass(frozen=True)
class CopyIn:
    """Of chunks of a copy, or the sweep that ends one (S5, S8). `files`: their rows."""

    step: CopyStep
    files: tuple[EventFile, ...] = ()


@dataclass(frozen=True)
class Tell:
    """That nothing in the table is older (S9'): it has no events, and its connector has gone on."""

    complete: Complete


Commit = Merge | Cut | CopyIn | Purge | Tell


def next_commit(
    lacking: BatchRange | None,
    cut_before: int | None,
    purge: Callable[[], Purge | None] | None,
    copy: CopyIn | None = None,
    tell: Callable[[], Complete | None] | None = None,
) -> Commit | None:
    """None if the table is as it should be. `lacking`: landed batches that it does not have. `cut_before`: how many
    buckets it has; None if the spec wants as many. `purge`: returns one that is due; it is asked only where nothing
    else is to be done, and is None where the run has just done its upkeep. `copy`: what is read of a copy and not in
    the table. `tell`: returns what the table is to tell, if that is worth a commit; it is asked last, and is None as
    `purge` is."""
    if cut_before is not None:
        return Cut(cut_before)
    if copy is not None:
        return copy
    if lacking is not None:
        return Merge(lacking)
    due = purge() if purge is not None else None
    if due is not None:
        return due
    found = tell() if tell is not None else None
    return None if found is None else Tell(found)
