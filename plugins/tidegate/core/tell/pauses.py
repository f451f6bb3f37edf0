"""A pipeline that an operator has paused on purpose: who, why, which DAGs, until when. Times are UTC ms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Protocol

from tidegate.core.base.instants import iso
from tidegate.core.source.loss_warning import TimeToLoss

ALL = ("ingest", "archive", "replay", "apply", "copy", "compare", "deliver", "maintain")
"""The kinds of DAGs, as their ids end; no pipeline has both windows and merges."""
_OWN = ({"ingest", "archive", "replay", "maintain"}, {"ingest", "apply", "maintain"})
"""Of every pipeline with windows, and with merges."""
_MORE = {"copy", "compare", "deliver"}
"""What a pipeline may have beside them."""


@dataclass(frozen=True)
class Pause:
    """`kinds` of DAGs are paused since `since_ms`, by `by`, for the reason `why`; `until_ms`: None without an end.

    `id` is that of the event which says so."""

    id: int
    since_ms: int
    by: str
    why: str
    kinds: tuple[str, ...]
    until_ms: int | None = None

    def over(self, now_ms: int) -> bool:
        """Whether it lasts longer than was said."""
        return self.until_ms is not None and now_ms >= self.until_ms

    def covers(self, kind: str, now_ms: int) -> bool:
        """Whether a DAG of this kind stands still on purpose now, so that nothing is expected of it."""
        return kind in self.kinds and not self.over(now_ms)

    def words(self) -> str:
        """`paused on purpose since 2026-11-22T20:10Z by anna@host (ingest, until 2026-11-23T06:00Z): why`."""
        which = "" if set(self.kinds) - _MORE in _OWN else ", ".join(self.kinds)
        until = "" if self.until_ms is None else f"until {iso(self.until_ms)}"
        about = ", ".join(filter(None, (which, until)))
        since = iso(self.since_ms // 1000 * 1000)
        by = self.by.removeprefix("tidegate command, ")
        return f"paused on purpose since {since} by {by}{f' ({about})' if about else ''}: {self.why}"


class PauseLedger(Protocol):
    """Raises LedgerError; LostComparison where another operator was faster."""

    def standing(self, name: str) -> Pause | None: ...

    def pause(self, name: str, kinds: Collection[str], why: str, until_ms: int | None, old: Pause | None) -> Pause:
        """Replace `old`, which is what was read: its kinds stay paused, since when they are. Raises StepMissing for a
        pipeline that the ledger does not know."""
        ...

    def unpause(self, name: str, kinds: Collection[str], old: Pause) -> Pause | None:
        """Take `kinds` out of `old`, which is what was read; what is left of it, None for nothing."""
        ...


def silent(pause: Pause | None, now_ms: int) -> frozenset[str]:
    """Kinds of notices that say only what the pause explains: windows that wait for the DAGs that it holds."""
    kinds = {
        "archive": "late_window", "ingest": "unready_window", "apply": "late_merge", "copy": "late_copy",
        "deliver": "late_delivery",
    }  # fmt: skip
    return frozenset(kinds[k] for k in kinds if pause is not None and pause.covers(k, now_ms))


def near_loss(loss: TimeToLoss) -> bool:
    """Whether unread records come within `source.loss_warning` of being lost while nothing is read; where Kafka keeps
    little more than that, within half of what it keeps."""
    warning_ms = loss.warning_ms
    if warning_ms is None:
        return False
    rooms = [(f.stopped_ms, f.room_ms) for f in loss.partitions if f.unread and f.stopped_ms is not None]
    return any(left <= (warning_ms if room is None else min(warning_ms, room // 2)) for left, room in rooms)


def ordered(kinds: Collection[str]) -> tuple[str, ...]:
    """Each once, in the order of ALL."""
    return tuple(kind for kind in ALL if kind in kinds)


def without(pause: Pause, kinds: Collection[str]) -> Pause | None:
    """What is left once `kinds` go on."""
    left = tuple(kind for kind in pause.kinds if kind not in kinds)
    return replace(pause, kinds=left) if left else None
