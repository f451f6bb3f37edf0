"""What a published generation rests on: batches, offset ranges, counts by Kafka partition, gaps and losses.

Nothing of it is stored for this: it is read from what the batches left in the ledger. A list that could grow with
batches times Kafka partitions is cut at a stated length, its sums are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.base.offsets import Interval
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import TopicFacts

MAX_RANGES = 1000
MAX_GAPS = 100
MAX_LOSSES = 100


@dataclass(frozen=True, kw_only=True)
class BatchGround:
    """`rows` of the window came with this batch; `late` if they had come late for it and were taken up.

    `clock_ms` is its plan's. Windows that ended at or before `floor_ms` were not open for it, nor were
    `closed_above` single intervals above that."""

    batch_id: int
    kind: str
    rows: int
    late: bool
    rerouted: int
    spec_version: int
    clock_ms: int
    landed_ms: int | None
    floor_ms: int
    closed_above: int


@dataclass(frozen=True, kw_only=True)
class PartitionGround:
    """One Kafka partition: the window's rows lie between `first` and `last` (offsets, inclusive) of `batches` batches,
    which read `offsets` offsets and met no record at `gaps` of them."""

    partition: int
    rows: int
    first: int
    last: int
    batches: int
    offsets: int
    gaps: int


@dataclass(frozen=True, kw_only=True)
class RangeGround:
    """The planned range `[start, end)` of one batch; the window's rows lie between `first` and `last`, inclusive."""

    batch_id: int
    partition: int
    start: int
    end: int
    rows: int
    first: int
    last: int


@dataclass(frozen=True)
class Gap:
    """Offsets `[start, end)` of a range that held no record."""

    batch_id: int
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class Lost:
    """Offsets `[start, end)` that were never read, recorded while the window could get rows."""

    batch_id: int
    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """`ranges`, `gap_intervals` and `losses` are the first of `range_count`, `gap_ranges` (ranges that have gaps) and
    `loss_count`. `closing_batch`: batches from this one on took the window's rows for late."""

    closing_batch: int | None
    batches: tuple[BatchGround, ...]
    partitions: tuple[PartitionGround, ...]
    ranges: tuple[RangeGround, ...]
    range_count: int
    gap_intervals: tuple[Gap, ...]
    gap_ranges: int
    losses: tuple[Lost, ...]
    loss_count: int

    @property
    def rows(self) -> int:
        return sum(p.rows for p in self.partitions)

    @property
    def gaps(self) -> int:
        """Offsets without a record in the ranges that the window's rows come from."""
        return sum(p.gaps for p in self.partitions)

    @property
    def floor_ms(self) -> int | None:
        """The highest low mark that a batch of the window was planned with."""
        return max((b.floor_ms for b in self.batches), default=None)


def bounded(gaps: list[tuple[int, int, tuple[Interval, ...]]]) -> tuple[Gap, ...]:
    """The first `MAX_GAPS` intervals of (batch, partition, gaps of its range)."""
    found = [Gap(batch, partition, g.start, g.end) for batch, partition, its in gaps for g in its[:MAX_GAPS]]
    return tuple(found[:MAX_GAPS])


class GroundsLedger(Protocol):
    """What certificates and explanations ask of the ledger beyond its state; nothing is changed."""

    def earlier_facts(self, name: str) -> TopicFacts:
        """What the batch left behind that a forecast measures from (`core.window.forecast.earlier`)."""
        ...

    def grounds(self, name: str, key: WindowKey, batches: Iterable[int], late: Iterable[int] = ()) -> Grounds:
        """What the window's rows of these batches rest on; of `late` among them those that came late."""
        ...
