"""What a keyed table says of itself (M3, M4): in the summary of the commit that made it so, and nowhere beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pyiceberg.table.metadata import TableMetadata

from tidegate.core.base.plain import dumps, loads
from tidegate.core.mirror.balance import Totals
from tidegate.core.mirror.copied import NOTHING, Complete, Copied
from tidegate.core.mirror.counts import add_up
from tidegate.core.mirror.jobs import START, Position, position_of, spelled
from tidegate.core.mirror.purge import marker
from tidegate.core.mirror.servers import purge_words
from tidegate.core.target.prefix import Merged, Prefix
from tidegate.targets.iceberg.live import PREFIX, first_copy, line, newest, said_by

UPTO = f"{PREFIX}upto"
ATTEMPT = f"{PREFIX}attempt"
_PURGED_BELOW = f"{PREFIX}purged-below"
_PURGED_UPTO = f"{PREFIX}purged-upto"
_BELOW_PURGE = f"{PREFIX}below-purge"
_KEPT_OUT = f"{PREFIX}kept-out"
_NEWEST_MS = f"{PREFIX}source-ms"
_BUCKETS = f"{PREFIX}buckets"
_BEGINS = f"{PREFIX}begins"
_LAST = f"{PREFIX}position"
_COPIED = f"{PREFIX}copied"
_COMPLETE_TO = f"{PREFIX}complete-to"
_COMPLETE_EXACTLY = f"{PREFIX}complete-exactly"
_COMPLETE_MS = f"{PREFIX}complete-ms"
_SUMS = ("rows", "tombstones", "events", "inserted", "purged")
SAMPLES = 3
"""Events that were kept out, in a summary."""
FIRST = 1
"""Sequence number of a table's first snapshot: a line that begins later has lost its beginning, whatever it says of a
parent (pyiceberg takes the name of an expired one away)."""


def summary_of(pipeline: str, merged: Merged, sums: Totals, before: Prefix, copied: Copied) -> dict[str, str]:
    """What the snapshot of a merge says; sums are of the table's whole life, `rows` and `tombstones` of now."""
    receipt, below = merged.receipt, before.purged_below
    purges = receipt.purged_below is not None
    kept_out = add_up(b.counts for b in receipt.buckets).below_purge
    buckets = merged.buckets or before.buckets
    begins, last = _positions(merged, before)
    return {
        f"{PREFIX}pipeline": pipeline,
        f"{PREFIX}first": str(merged.first),
        UPTO: str(merged.last),
        ATTEMPT: merged.attempt,
        _PURGED_BELOW: purge_words(marker(below, receipt.purged_below or below), copied.servers),
        _PURGED_UPTO: str(merged.last if purges else before.purged_upto),
        _BELOW_PURGE: str(before.below_purge + kept_out),
        **({_KEPT_OUT: json.dumps(receipt.below_purge[:SAMPLES])} if kept_out else {}),
        **({_BUCKETS: str(buckets)} if buckets else {}),
        **({_BEGINS: spelled(begins), _LAST: spelled(last)} if begins and last else {}),
        **({_COPIED: dumps(copied)} if copied != NOTHING else {}),
        **_completeness(copied.complete),
        _NEWEST_MS: str(max(before.newest_ms, receipt.newest_ms)),
        **{f"{PREFIX}{name}": str(getattr(sums, name)) for name in _SUMS},
    }


def _completeness(found: Complete | None) -> dict[str, str]:
    """S9' and S9, for readers."""
    if found is None:
        return {}
    instant = {} if found.at_ms is None else {_COMPLETE_MS: str(found.at_ms)}
    exactly = {_COMPLETE_EXACTLY: "true"} if found.exact else {}
    return {_COMPLETE_TO: found.spelled, **instant, **exactly}


def _positions(merged: Merged, before: Prefix) -> tuple[Position | None, Position | None]:
    """(where its events begin, the greatest position of them) once the commit stands; rows of copies are no events."""
    last = merged.receipt.last_position
    if merged.first > merged.last or last is None:
        return before.begins, before.last_position
    return before.begins or last, max(before.last_position or last, last)


def prefix_of(metadata: TableMetadata) -> Prefix:
    """The table as its newest snapshot has it: what the newest merge in its line says. A compaction by others adds a
    snapshot and says nothing. A snapshot that the current one need not come from says nothing, even if it is kept:
    a table that was taken back may have one that is further.

    Raises ValueError for a summary that no merge has written, and where the line of snapshots ends before it tells."""
    current, hidden = newest(metadata), first_copy(metadata) is not None
    snapshot = None if current is None else str(current.snapshot_id)
    oldest = None
    for oldest in line(metadata):
        said = said_by(oldest)
        if UPTO in said:
            sums: dict[str, Any] = {name: int(said[f"{PREFIX}{name}"]) for name in _SUMS}
            return Prefix(
                snapshot=snapshot,
                upto=int(said[UPTO]),
                purged_below=START if "=" in said[_PURGED_BELOW] else position_of(said[_PURGED_BELOW]),
                attempt=said[ATTEMPT],
                newest_ms=int(said.get(_NEWEST_MS, 0)),
                buckets=int(said.get(_BUCKETS, 0)),
                purged_upto=int(said.get(_PURGED_UPTO, 0)),
                below_purge=int(said.get(_BELOW_PURGE, 0)),
                kept_out=tuple(json.loads(said.get(_KEPT_OUT, "[]"))),
                begins=position_of(said[_BEGINS]) if _BEGINS in said else None,
                last_position=position_of(said[_LAST]) if _LAST in said else None,
                copied=replace(loads(Copied, said[_COPIED]) if _COPIED in said else NOTHING, hidden=hidden),
                **sums,
            )
    if oldest is not None and oldest.sequence_number != FIRST:
        raise ValueError("the snapshots that tell up to which batch the table is have expired")
    return Prefix(snapshot=snapshot, purged_below=START)


def telling(metadata: TableMetadata) -> int:
    """How many snapshots there are from the current one to the newest merge, with both: without one of them nothing
    tells up to which batch the table is. All of the line, where no merge is in it."""
    snapshots = list(line(metadata))
    return next((n for n, each in enumerate(snapshots, 1) if UPTO in said_by(each)), len(snapshots))


def still(now: Prefix, before: Prefix) -> bool:
    """M1: whether the table is what a merge has read. Any other snapshot counts, a compaction by others too: its files
    are those that the merge would replace."""
    return now == before


def has(metadata: TableMetadata, attempt: str) -> bool:
    """Whether a merge of that attempt is among those from which the current snapshot descends."""
    return any(said_by(snapshot).get(ATTEMPT) == attempt for snapshot in line(metadata))
