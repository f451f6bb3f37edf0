"""What a keyed table says of itself (M3, M4): in the summary of the commit that made it so, and nowhere beside it."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata

from tidegate.core.mirror.balance import Totals
from tidegate.core.mirror.jobs import START, Position
from tidegate.core.target.port import Merged, Prefix
from tidegate.targets.iceberg.live import PREFIX, line, said_by

UPTO = f"{PREFIX}upto"
ATTEMPT = f"{PREFIX}attempt"
_PURGED_BELOW = f"{PREFIX}purged-below"
_SUMS = ("rows", "tombstones", "events", "inserted", "purged")
FIRST = 1
"""Sequence number of a table's first snapshot: a line that begins later has lost its beginning, whatever it says of a
parent (pyiceberg takes the name of an expired one away)."""


def summary_of(pipeline: str, merged: Merged, sums: Totals, purged_below: Position) -> dict[str, str]:
    """What the snapshot of a merge says; sums are of the table's whole life, `rows` and `tombstones` of now."""
    return {
        f"{PREFIX}pipeline": pipeline,
        f"{PREFIX}first": str(merged.first),
        UPTO: str(merged.last),
        ATTEMPT: merged.attempt,
        _PURGED_BELOW: ",".join(map(str, purged_below)),
        **{f"{PREFIX}{name}": str(getattr(sums, name)) for name in _SUMS},
    }


def prefix_of(metadata: TableMetadata) -> Prefix:
    """The table as its current snapshot has it: what the newest merge in its line says. A compaction by others adds a
    snapshot and says nothing. A snapshot that the current one need not come from says nothing, even if it is kept:
    a table that was taken back may have one that is further.

    Raises ValueError for a summary that no merge has written, and where the line of snapshots ends before it tells."""
    current = metadata.current_snapshot_id
    snapshot = None if current is None else str(current)
    oldest = None
    for oldest in line(metadata):
        said = said_by(oldest)
        if UPTO in said:
            commit, row, n = (int(part) for part in said[_PURGED_BELOW].split(","))
            sums = {name: int(said[f"{PREFIX}{name}"]) for name in _SUMS}
            return Prefix(
                snapshot=snapshot,
                upto=int(said[UPTO]),
                purged_below=(commit, row, n),
                attempt=said[ATTEMPT],
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
