"""Batches: `PLANNED -> WRITING(epoch) -> SEALED(manifest) -> LANDED`, each state a type.

What a state does not have, its type does not have: a planned batch has no epoch, only a sealed one has a manifest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.core.base.choice import Choice
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.files.receipt import Receipt
from tidegate.core.window.lateness import Floor
from tidegate.core.window.zonedata import ZoneData


class BatchState(Choice):
    PLANNED = "PLANNED"
    WRITING = "WRITING"
    SEALED = "SEALED"
    LANDED = "LANDED"
    ABANDONED = "ABANDONED"


class BatchKind(Choice):
    """Ranges of Kafka, or dirty rows of earlier batches that are read again from their files."""

    INGEST = "ingest"
    REDRIVE = "redrive"


PLANNED, WRITING, SEALED, LANDED, ABANDONED = BatchState
INGEST, REDRIVE = BatchKind
OPEN_STATES = (PLANNED, WRITING, SEALED)
"""At most one batch of a pipeline is in these."""
OVER_STATES = (LANDED, ABANDONED)


@dataclass(frozen=True, kw_only=True)
class PartitionPlan:
    """One Kafka partition in a plan: what will be read, and what the broker said at plan time (offsets exclusive)."""

    partition: int
    start: int
    end: int
    log_start: int
    last_stable_offset: int
    high_watermark: int
    leader_epoch: int | None = field(default=None, compare=False)  # of the leader that told the ends

    @property
    def drained(self) -> bool:
        """Nothing more can come from here: not even an open transaction's records."""
        return self.end == self.last_stable_offset == self.high_watermark

    @property
    def has_open_transaction(self) -> bool:
        return self.last_stable_offset < self.high_watermark


@dataclass(frozen=True)
class Loss:
    """Offsets that were due and that Kafka no longer has: recorded, a term of the balance."""

    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, order=True)
class DirtySource:
    """The dirty rows of one landed batch that come from one Kafka partition; offsets inclusive."""

    batch_id: int
    partition: int
    rows: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides what a batch is, pinned before anything is read (R1). `clock_ms` is the ingest clock.

    A redrive has `sources` instead of `partitions`: it reads nothing from Kafka, so it moves no planned end and no
    watermark. `zone`: the zone data that it was planned by; None where clocks never change, and of older releases."""

    pipeline: str
    batch_id: int
    revision: int
    spec_version: int
    rules_version: int
    topic: str
    topic_id: str
    clock_ms: int
    floor: Floor
    partitions: tuple[PartitionPlan, ...]
    losses: tuple[Loss, ...] = ()
    kind: BatchKind = INGEST
    sources: tuple[DirtySource, ...] = ()
    zone: ZoneData | None = field(default=None, metadata=LEFT_OUT)

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The non-empty ranges, by partition. Those of a redrive reach from its first row to its last: whatever lies
        between is a gap of it."""
        if self.is_redrive:
            return spans(self.topic, self.sources)
        return tuple(OffsetRange(self.topic, p.partition, p.start, p.end) for p in self.partitions if p.end > p.start)

    @property
    def records(self) -> int:
        """Offsets planned; the records among them may be fewer (gaps). Of a redrive exactly its rows."""
        if self.is_redrive:
            return sum(s.rows for s in self.sources)
        return sum(r.count for r in self.ranges)

    @property
    def is_redrive(self) -> bool:
        return self.kind == REDRIVE


def spans(topic: str, sources: Iterable[DirtySource]) -> tuple[OffsetRange, ...]:
    """One range for each Kafka partition, from the first row to the last."""
    found: dict[int, tuple[int, int]] = {}
    for s in sources:
        low, high = found.get(s.partition, (s.min_offset, s.max_offset))
        found[s.partition] = (min(low, s.min_offset), max(high, s.max_offset))
    return tuple(OffsetRange(topic, p, low, high + 1) for p, (low, high) in sorted(found.items()))


@dataclass(frozen=True)
class PlannedBatch:
    plan: Plan
    state = PLANNED


@dataclass(frozen=True)
class WritingBatch:
    """Somebody writes, or died writing. `epoch` and `nonce` name the attempt's directory (R9)."""

    plan: Plan
    epoch: int
    nonce: str
    state = WRITING


@dataclass(frozen=True)
class SealedBatch:
    plan: Plan
    epoch: int
    nonce: str
    manifest: Receipt
    state = SEALED


@dataclass(frozen=True)
class LandedBatch:
    """Its files now belong to their windows. `side_moved`: whether late and dirty files are in their tables."""

    plan: Plan
    epoch: int
    nonce: str
    side_moved: bool
    state = LANDED


@dataclass(frozen=True)
class AbandonedBatch:
    """`epoch` and `nonce`: as in the state it was given up in."""

    plan: Plan
    reason: str
    epoch: int
    nonce: str
    state = ABANDONED


OpenBatch = PlannedBatch | WritingBatch | SealedBatch
Batch = OpenBatch | LandedBatch | AbandonedBatch


_ON_ITS_WAY = {
    PLANNED: "is planned, and about to be written",
    WRITING: "is being written",
    SEALED: "is written, and about to land",
}


def first_batch(batch_id: int, state: BatchState, stuck: bool = False) -> str:
    """Words about the open batch while none has landed; `stuck`: it was refused or is blocked."""
    if stuck or state not in _ON_ITS_WAY:
        return f"batch {batch_id} is {state}, and waits for somebody"
    return f"batch {batch_id} {_ON_ITS_WAY[state]} ({state})"
