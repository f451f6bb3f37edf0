"""What a keyed table says of itself, and what a commit of it brings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import Complete, Copied, CopyStep
from tidegate.core.mirror.jobs import ApplyReceipt, ServerLog


@dataclass(frozen=True, kw_only=True)
class Prefix(Told):
    """A keyed table as one snapshot of it says (M3, M4). `snapshot`: names it; None for a table without any. Sums are
    those of its whole life: `rows + tombstones + purged = inserted`; `rows`, `tombstones` stand in it. `newest_ms`: the
    newest time at the source (UTC) of all events in it, 0 if none is known (M8)."""

    newest_ms: int = 0


@dataclass(frozen=True)
class Merged:
    """What an apply job has made of the batches above `upto`: `last` is the new one, `files` have their URIs in
    `directory`; buckets that are not named stay as they are. Of upkeep `last` is `upto` itself. `copy`: what it brings
    of a copy, or ends (S8). `buckets`: how many the table has then; 0: as many as before. `anew`: no old file stays.
    `complete`: what the table may tell then (S9'). `by_hand`: a person has its contradicting events taken (M7, M8).
    `servers`: what is known of each then, where there are several (S11)."""

    first: int
    last: int
    attempt: str
    directory: str
    receipt: ApplyReceipt
    buckets: int = 0
    anew: bool = False
    copy: CopyStep | None = None
    complete: Complete | None = None
    by_hand: bool = False
    servers: tuple[ServerLog, ...] = ()

    def copied(self, before: Copied) -> Copied:
        """What the table says of copies once it is committed."""
        after = replace(before if self.copy is None else self.copy.after(before), servers=self.servers)
        after = replace(after, by_hand=before.by_hand or self.by_hand)
        return replace(after, complete=after.may_tell(self.complete))
