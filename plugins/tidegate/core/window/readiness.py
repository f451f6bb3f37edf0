"""When a window is complete, so that it may be closed: the certificate, which says why, or what blocks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.base.instants import iso, span
from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.base.wording import many, those
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.answer import Comparison
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import Held, PartitionWatermark, TopicFacts, global_watermark, watermarks


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Why a window is ready, or which Kafka partitions block it. `decided_ms` is the control plane's clock.

    `after`: the window that must be published before this one (`core.window.turn`)."""

    pipeline: str
    window: WindowKey
    ready: bool
    reason: str
    decided_ms: int
    batch_id: int | None
    watermark_ms: int | None
    partitions: tuple[PartitionWatermark, ...]
    blockers: tuple[int, ...]
    completeness: Comparison | None = None  # with what another system says, where one is asked
    after: WindowKey | None = field(default=None, metadata=LEFT_OUT)

    def text(self) -> str:
        """Words that an operator can act on."""
        return f"{self.pipeline} {iso(self.window.start_ms)}: {'ready' if self.ready else 'blocked'}: {self.reason}"


def certify(
    pipeline: str,
    windows: Windows,
    facts: TopicFacts,
    window: WindowKey,
    now_ms: int,
    unread: Mapping[int, int] | None = None,
    first: str = "",
) -> Certificate:
    """Whether `window` may be closed, and why (not). A window before `windows.start` holds nothing: ready at once.

    `unread`: how many records wait in each Kafka partition that no batch has planned, where somebody has asked. `first`
    says where the first batch is, see `first_batch`. They decide nothing: only the words are others."""
    marks = watermarks(windows, facts, now_ms)
    blocking = tuple(m for m in marks if _blocks(m, window))
    low = global_watermark(marks)
    if windows.read_whole:
        ready = not blocking and bool(marks) and window.start_ms >= windows.start_ms
        reason, blocking = _read_whole(windows, window, ready), ()  # nobody waits for a partition
    elif window.end_ms <= windows.start_ms:
        ready, reason, blocking = True, "ends before windows.start: nothing belongs here", ()
    elif facts.batch_id is None:
        ready, reason = False, f"no batch has landed yet: {first or 'run the ingest DAG (an empty topic has none)'}"
    elif not marks:
        ready, reason = False, "the topic has no partitions"
    elif blocking:
        ready, reason = False, "; ".join(_blocked(m, window, (unread or {}).get(m.partition, 0)) for m in blocking[:3])
        if len(blocking) > 3:
            reason += f"; and {many(len(blocking) - 3, 'more partition')}"
    else:
        ready, reason = True, f"watermark {iso(low)} has passed the window's end {iso(window.end_ms)}"
    return Certificate(
        pipeline=pipeline,
        window=window,
        ready=ready,
        reason=reason,
        decided_ms=now_ms,
        batch_id=facts.batch_id,
        watermark_ms=low,
        partitions=marks,
        blockers=tuple(m.partition for m in blocking),
    )


def _read_whole(windows: Windows, window: WindowKey, ready: bool) -> str:
    """A table without a log says nothing of a window before it has been read for it."""
    if ready:
        return "the reading of the source for this window has landed"
    if window.start_ms < windows.start_ms:
        return "it begins before windows.start: the source is never read for it"
    due = iso(window.end_ms + windows.watermark_delay_ms)
    return f"no reading of the source for this window has landed; the first ingest run from {due} on reads it"


def _blocks(mark: PartitionWatermark, window: WindowKey) -> bool:
    return mark.watermark_ms is None or mark.watermark_ms < window.end_ms


def _blocked(mark: PartitionWatermark, window: WindowKey, unread: int) -> str:
    who = f"partition {mark.partition}"
    if mark.open_transaction_since_ms is not None:
        at = "" if mark.last_stable_offset is None else f", from offset {mark.last_stable_offset} on"
        return f"{who}: an open transaction holds it since {iso(mark.open_transaction_since_ms)}{at}"
    why = f"; {_HELD[mark.held]}" if mark.held else ""
    if not mark.drained:
        why = "; more is waiting to be ingested"
    elif unread:
        why = f"; {those(unread, 'record', 'wait')} there that no batch has read"
    elif mark.advanced_ms is not None:
        why = f"; idle since {iso(mark.advanced_ms)}{why}"
    last = f"last event {iso(mark.max_event_ms)}"
    if mark.max_event_ms is None:
        last = "never had a record with an event time"
    if mark.watermark_ms is None:
        return f"{who}: {last}{why}"
    by = "" if mark.basis == "own" else f" (idle: {mark.basis})"
    behind = span(window.end_ms - mark.watermark_ms)
    return f"{who}: {last}, watermark {iso(mark.watermark_ms)}{by} is {behind} short{why}"


_HELD = {
    Held.LAG: "the clock does not stand in: what was read is older than windows.idle_max_lag allows",
    Held.BEHIND: "its producer was behind the clock when it was last read",
    Held.ALONE: "no other partition has had a record",
}
