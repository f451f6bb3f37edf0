"""What a table says of itself to those who ask how far it is complete: in the commit that makes it so.

A claim stands in the snapshot's summary, and copied in the table's property of the same name: a compaction by others
has no such entry, and a table that somebody has rolled back keeps its property. What a claim adds to the one
before is looked up in the table: the ledger alone does not know what somebody has done to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AddSnapshotUpdate, SetPropertiesUpdate, SetSnapshotRefUpdate, TableUpdate

from tidegate.core.base.instants import iso
from tidegate.core.publish.complete import MOST, Run, begin, days_ended, through
from tidegate.core.spec.pipeline import Windows
from tidegate.core.target.port import Fence
from tidegate.core.window.cut import time_values, window_end, window_start
from tidegate.targets.iceberg import live
from tidegate.targets.iceberg.catalogue import Loaded
from tidegate.targets.iceberg.properties import number
from tidegate.targets.iceberg.tags import TAG

THROUGH, FROM = f"{live.PREFIX}complete-through", f"{live.PREFIX}complete-from"
DAY = f"{TAG}day-"
"""A tag's name begins so, and a local date follows: when every window of that day was in the table."""
DAYS = 30
_WORDS = 200


@dataclass(frozen=True)
class Claim:
    """What a commit says. `first`: the window that was counted from; `days`: names of the tags that it sets."""

    through: str
    first: str
    reason: str
    days: tuple[str, ...]

    @property
    def said(self) -> dict[str, str]:
        """Entries of the snapshot's summary."""
        return {THROUGH: self.through, FROM: self.first, f"{live.PREFIX}certificate": self.reason[:_WORDS]}

    def updates(self, changed: tuple[TableUpdate, ...]) -> tuple[TableUpdate, ...]:
        """What is added to a commit that makes a snapshot: the property, and the tags of days."""
        made = next(u.snapshot.snapshot_id for u in changed if isinstance(u, AddSnapshotUpdate))
        tags = (
            SetSnapshotRefUpdate.model_validate({"ref-name": name, "type": SnapshotRefType.TAG, "snapshot-id": made})
            for name in self.days
        )
        return (*changed, SetPropertiesUpdate(updates={THROUGH: self.through}), *tags)


def claim(windows: Windows, loaded: Loaded, fence: Fence) -> Claim:
    """What the table may say once the fence's generation is in it."""
    said = claimed(loaded.metadata)
    end_ms = through(windows, said, _stands(windows, begin(windows, said), loaded, fence))
    ended = days_ended(windows, None if said is None else said.end_ms, end_ms, DAYS)
    days = (f"{DAY}{_date(day, windows)}" for day in ended)
    first = iso(window_start(windows.start_ms, windows))
    return Claim(iso(end_ms), first, fence.reason(), tuple(name for name in days if name not in loaded.metadata.refs))


def _date(day_ms: int, windows: Windows) -> str:
    ((_, text),) = time_values(day_ms, ("date",), windows.timezone)
    return str(text)


def claimed(metadata: TableMetadata) -> Run | None:
    """What the current snapshot, or the newest before it, has claimed; None if none has.

    A tag across a gap of the line is no proof that the current snapshot was made from that one."""
    for snapshot in live.line(metadata):
        said = live.said_by(snapshot)
        if THROUGH in said:
            return Run(_ms(said[THROUGH]), _ms(said[FROM]) if FROM in said else None)
    return None


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _stands(windows: Windows, first: int, loaded: Loaded, fence: Fence) -> Callable[[int], bool]:
    """Whether readers meet the window, of those from `first` on: this commit brings it, the table has its token, or the
    ledger has it in force and its rows are there. Of a window without rows only the ledger, or a token, can tell."""
    mine = fence.generation.window.start_ms
    tokens = {token.unit for s in live.line(loaded.metadata) if (token := live.token_in(s)) is not None}
    last = first
    for _ in range(MOST):
        last = window_end(last, windows)
    rows = fence.published(first, last)
    asked = {start for start in rows if rows[start] and start != mine and start not in tokens}
    there = _with_rows(loaded, asked)

    def stands(start: int) -> bool:
        return start == mine or start in tokens or rows.get(start) == 0 or (start in rows and start in there)

    return stands


def _with_rows(loaded: Loaded, starts: set[int]) -> set[int]:
    if not starts:
        return set()
    seen = live.look(loaded.metadata, loaded.io, {start * 1000 for start in starts})
    return {live.unit_of(loaded.metadata, file) // 1000 for file in seen.files}


def days_let_go(metadata: TableMetadata) -> list[str]:
    """Tags of days beyond the newest. Raises CatalogueMismatch."""
    names = sorted(name for name in metadata.refs if name.startswith(DAY))
    keep = number(metadata, f"{live.PREFIX}day-tags", DAYS)
    return names[: max(0, len(names) - keep)]
