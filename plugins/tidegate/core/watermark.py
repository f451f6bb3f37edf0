"""Watermarks per Kafka partition, the global one, and the certificate that says whether a window may be closed.

A partition's own watermark is the largest plausible event time seen, minus `watermark_delay`. A drained partition has
nothing to say about the future; `windows.idle` decides what stands in for it:

    wait     its own watermark: an idle partition holds every window
    follow   the largest own watermark of all partitions (loads of old data, where the wall clock means nothing)
    clock    the clock of the newest plan in which another partition advanced, minus the delay; once the whole topic
             has been silent for `topic_silence`, `on_silence: close` lets the newest plan's clock stand in for all

The idea of per-source watermarks whose minimum counts is Flink's; a drained partition is exact here because a plan
records both the planned end and the broker's end at the same instant.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.completeness import Comparison
from tidegate.core.instants import iso, span
from tidegate.core.pipeline import Windows
from tidegate.core.window import WindowKey


@dataclass(frozen=True)
class PartitionFacts:
    """What the ledger knows of one Kafka partition after its newest LANDED batch. All times UTC ms.

    `max_event_ms` is over all landed batches; `advanced_ms` is the clock of the newest plan that read anything here;
    `open_transaction_since_ms` is the clock of the first plan that met the open transaction which begins at
    `last_stable_offset`; None if no transaction was open.
    """

    partition: int
    max_event_ms: int | None
    drained: bool
    advanced_ms: int | None
    open_transaction_since_ms: int | None = None
    last_stable_offset: int | None = None


@dataclass(frozen=True)
class TopicFacts:
    """`batch_id` and `clock_ms` are of the newest LANDED batch; None: nothing has landed yet."""

    batch_id: int | None
    clock_ms: int | None
    partitions: tuple[PartitionFacts, ...]


@dataclass(frozen=True)
class PartitionWatermark:
    """`basis`: own | follow | clock | none (never had a record and nothing stands in)."""

    partition: int
    watermark_ms: int | None
    basis: str
    max_event_ms: int | None
    drained: bool
    advanced_ms: int | None
    open_transaction_since_ms: int | None


@dataclass(frozen=True)
class Certificate:
    """Why a window is ready, or which Kafka partitions block it. `decided_ms` is the control plane's clock."""

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

    def text(self) -> str:
        """Words that an operator can act on."""
        return f"{self.pipeline} {iso(self.window.start_ms)}: {'ready' if self.ready else 'blocked'}: {self.reason}"


def watermarks(windows: Windows, facts: TopicFacts) -> tuple[PartitionWatermark, ...]:
    """The watermark of each partition, idle policy applied."""
    delay = windows.watermark_delay_ms
    seen = [p.max_event_ms for p in facts.partitions if p.max_event_ms is not None]
    largest = max(seen) - delay if seen else None
    result = []
    for p in facts.partitions:
        stand_in: int | None = None
        if windows.idle == "follow":
            stand_in = largest
        elif windows.idle == "clock":
            stand_in = _clock_stand_in(windows, facts, p.partition)
        own = None if p.max_event_ms is None else p.max_event_ms - delay
        mark, basis = own, "own" if own is not None else "none"
        if p.drained and stand_in is not None and (own is None or stand_in > own):
            mark, basis = stand_in, windows.idle
        result.append(
            PartitionWatermark(
                p.partition, mark, basis, p.max_event_ms, p.drained, p.advanced_ms, p.open_transaction_since_ms
            )
        )
    return tuple(result)


def _clock_stand_in(windows: Windows, facts: TopicFacts, partition: int) -> int | None:
    advanced = {p.partition: p.advanced_ms for p in facts.partitions if p.advanced_ms is not None}
    if not advanced or facts.clock_ms is None:
        return None
    if windows.on_silence == "close" and facts.clock_ms - max(advanced.values()) >= windows.topic_silence_ms:
        return facts.clock_ms - windows.watermark_delay_ms
    others = [at for p, at in advanced.items() if p != partition]
    return max(others) - windows.watermark_delay_ms if others else None


def global_watermark(marks: tuple[PartitionWatermark, ...]) -> int | None:
    """The smallest; None while any partition has none, or while there are no partitions."""
    values = [m.watermark_ms for m in marks]
    return None if not values or None in values else min(v for v in values if v is not None)


def certify(pipeline: str, windows: Windows, facts: TopicFacts, window: WindowKey, now_ms: int) -> Certificate:
    """Whether `window` may be closed, and why (not). A window before `windows.start` holds nothing: ready at once."""
    marks = watermarks(windows, facts)
    blocking = tuple(m for m in marks if m.watermark_ms is None or m.watermark_ms < window.end_ms)
    low = global_watermark(marks)
    if window.end_ms <= windows.start_ms:
        ready, reason, blocking = True, "ends before windows.start: nothing belongs here", ()
    elif facts.batch_id is None:
        ready, reason = False, "no batch has landed yet: run the ingest DAG (an empty topic has none)"
    elif not marks:
        ready, reason = False, "the topic has no partitions"
    elif blocking:
        ready, reason = False, "; ".join(_blocked(m, window) for m in blocking[:3])
        if len(blocking) > 3:
            reason += f"; and {len(blocking) - 3} more partitions"
    else:
        ready, reason = True, f"watermark {iso(low)} has passed the window's end {iso(window.end_ms)}"
    return Certificate(
        pipeline, window, ready, reason, now_ms, facts.batch_id, low, marks, tuple(m.partition for m in blocking)
    )


def _blocked(mark: PartitionWatermark, window: WindowKey) -> str:
    who = f"partition {mark.partition}"
    if mark.open_transaction_since_ms is not None:
        return f"{who}: an open transaction holds it since {iso(mark.open_transaction_since_ms)}"
    idle = f"; idle since {iso(mark.advanced_ms)}" if mark.drained else "; more is waiting to be ingested"
    if mark.watermark_ms is None:
        return f"{who}: never had a record with an event time{'' if mark.drained else idle}"
    behind = span(window.end_ms - mark.watermark_ms)
    return f"{who}: last event {iso(mark.max_event_ms)}, watermark {iso(mark.watermark_ms)} is {behind} short{idle}"
