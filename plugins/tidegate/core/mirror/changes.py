"""Which batches a reader of changes takes next: whole batches, in order, each once, by a token that it keeps itself."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.errors import Alarm, NotReady, SpecError
from tidegate.core.mirror.applies import Landed
from tidegate.core.mirror.next_merge import BatchRange

START = 0
"""Before the first batch."""


@dataclass(frozen=True, kw_only=True)
class ChangeFile:
    """A Parquet file of a landed batch: it stays where it is, and as it is. `path` is a URI. Files of one
    `spec_version` have the same columns and types."""

    batch_id: int
    path: str
    rows: int
    bytes: int
    spec_version: int


def batch_of(token: str | int | None) -> int:
    """The last batch that a token has seen; None: none yet. Raises ValueError."""
    if token is None:
        return START
    text = str(token).strip()
    if not text.isdecimal():
        raise ValueError(f"{token!r} is no token of changes: it is what the last reading returned, a batch's number")
    return int(text)


def between(name: str, after: int, until: int | None, landed: Landed) -> BatchRange | None:
    """Batches above `after`, up to `until` (inclusive; None: to the newest that has landed); None if no batch is left.

    Raises SpecError for a token that is beyond what has landed, NotReady for an `until` that has not landed yet, Alarm
    for a hole."""
    if after > landed.newest:
        raise SpecError(
            f"{name}: the token names batch {after}, but the newest that has landed is {landed.newest}",
            advice="it is another pipeline's, or the ledger was restored from a backup: tidegate repair --adopt",
        )
    last = landed.newest if until is None else until
    if last > landed.newest:
        raise NotReady(
            f"{name}: batch {last} has not landed yet, the newest is {landed.newest}", advice="ask again later"
        )
    if last < after:
        raise SpecError(f"{name}: batch {last} is before the token's, {after}", advice="give a later one")
    if last == after:
        return None
    missing = [n for n in range(after + 1, last + 1) if n not in landed.rows]
    if missing:
        raise Alarm(f"{name}: the ledger does not know of batch {missing[0]}")
    return BatchRange(after + 1, last)
