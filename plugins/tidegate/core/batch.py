"""Batches: `PLANNED -> WRITING(epoch) -> SEALED(manifest) -> LANDED`, each state a type.

What a state does not have, its type does not have: a planned batch has no epoch, only a sealed one has a manifest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.lateness import Floor
from tidegate.core.merging import Merge, Source
from tidegate.core.offsets import OffsetRange
from tidegate.core.overflow import Known
from tidegate.core.pipeline import Pipeline
from tidegate.core.plain import LEFT_OUT
from tidegate.core.receipt import Receipt
from tidegate.core.zonedata import ZoneData

RULES_VERSION = 3
"""Version of the classification rules (window, late, dirty, filtered) that a plan pins; raise it when they change.

1: decimals of up to 15 digits by way of the nearest double, no zero in decimal(p,p); how deep a message may be nested
is not defined; a map's numeric key may be `-0`, and keys that become the same value are not noticed. 2: decimals as
they are written; 500 levels; neither of these keys; unknown fields at the top of a message only. 3: those inside of
other fields, too."""
KNOWN_RULES = frozenset({1, 2, 3})
"""Versions that a worker can go by: a replay classifies by the one that its batch was planned with."""


COPYING_RULES = 2
"""What the plan of a job says that decodes no message: a worker of the release before takes it."""


def rules_for(pipeline: Pipeline) -> int:
    """The version that a new plan pins. Where unknown fields are ignored version 3 says what version 2 says: such a
    plan can be taken by a worker of the release before."""
    return COPYING_RULES if pipeline.format.unknown_fields == "ignore" else RULES_VERSION


def rules_of_replay(planned: int, decided_by: Pipeline, today: Pipeline) -> int:
    """The version for rows that are decoded again: their batch's. A batch that ignored unknown fields has captured
    none, so that today's columns get all of them."""
    if planned == 1 or decided_by.format.unknown_fields != "ignore":
        return planned
    return max(planned, rules_for(today))


@dataclass(frozen=True)
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


INGEST, REDRIVE = "ingest", "redrive"
"""Kinds of a batch: ranges of Kafka, or dirty rows of earlier batches that are read again from their files."""


@dataclass(frozen=True, order=True)
class DirtySource:
    """The dirty rows of one landed batch that come from one Kafka partition; offsets inclusive."""

    batch_id: int
    partition: int
    rows: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True)
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
    kind: str = INGEST
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
    state = "PLANNED"


@dataclass(frozen=True)
class WritingBatch:
    """Somebody writes, or died writing. `epoch` and `nonce` name the attempt's directory (R9)."""

    plan: Plan
    epoch: int
    nonce: str
    state = "WRITING"


@dataclass(frozen=True)
class SealedBatch:
    plan: Plan
    epoch: int
    nonce: str
    manifest: Receipt
    state = "SEALED"


@dataclass(frozen=True)
class LandedBatch:
    """Its files now belong to their windows. `side_moved`: whether late and dirty files are in their tables."""

    plan: Plan
    epoch: int
    nonce: str
    side_moved: bool
    state = "LANDED"


@dataclass(frozen=True)
class AbandonedBatch:
    plan: Plan
    reason: str
    state = "ABANDONED"


OpenBatch = PlannedBatch | WritingBatch | SealedBatch
Batch = OpenBatch | LandedBatch | AbandonedBatch


@dataclass(frozen=True)
class JobPlan:
    """`plans/*.json`: all that a Spark job is told. `attempt_dir` and `location` are URIs.

    `mode` ingest: `ranges` are read once, each record routed by `floor`.
    `mode` replay: the rows of `targets` are rebuilt; `parts` say which ranges, each with the pinned rules of its batch;
    late, dirty and other windows' rows are counted, not written. Each range is read once, whatever the number of
    windows. `attempt` and `attempt_dir` are those of the first; the words of a job that fails as a whole go there.
    `mode` merge: `merges` are carried out; nothing is read from Kafka.
    `mode` reopen: the files of `merges` are copied, one or several into one, and the rows of `late` are split by their
    partition values; nothing is read from Kafka.
    `mode` redrive: as ingest, but the records are those of the dirty files that the part names.
    `pipeline` is the compiled spec (columns of today).
    """

    mode: str
    attempt: str
    attempt_dir: str
    pipeline: dict[str, Any]  # core.pipeline.Pipeline, plain
    bootstrap: dict[str, str]  # librdkafka settings without secrets
    topic: str
    topic_id: str
    parts: tuple[JobPart, ...]
    nonce: str
    batch_id: int = 0
    epoch: int = 0
    spec_version: int = 0
    rules_version: int = RULES_VERSION
    window_ms: int | None = None
    merges: tuple[Merge, ...] = ()
    known: Known = field(default_factory=Known)  # dynamic values that windows have already
    late: tuple[Merge, ...] = ()  # late files by the columns that they were written with
    targets: tuple[Target, ...] = ()  # of a replay: the windows; none: the one of `window_ms`
    copies: tuple[Copy, ...] = ()  # of a replay: rows that come from files in force


@dataclass(frozen=True)
class JobPart:
    """Ranges that share one batch's pinned rules. `pinned` is that batch's compiled spec if it is not the plan's.

    With `sources` the records are read from these dirty files and not from Kafka, in a replay too."""

    batch_id: int
    clock_ms: int
    floor: Floor
    ranges: tuple[OffsetRange, ...]
    rules_version: int = RULES_VERSION
    pinned: dict[str, Any] | None = None
    sources: tuple[Source, ...] = ()
    zone: ZoneData | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Target:
    """One window of a replay: its rows and a receipt of its own go to `attempt_dir` (a URI), as if it were alone.

    `parts`: indices of the plan's parts that owe it rows. `taken`: batches whose late rows it has taken up."""

    window_ms: int
    attempt: str
    attempt_dir: str
    nonce: str = ""
    epoch: int = 0
    parts: tuple[int, ...] = ()
    taken: tuple[int, ...] = ()


@dataclass(frozen=True)
class Copy:
    """Rows of a file in force that become rows of the window's rebuild as they are, in the columns of the plan.

    `wanted`: (batch, Kafka partition) of the rows; None: all of them. `columns`: (name, Hive type) of what the file
    holds, where it does not say it itself."""

    window_ms: int
    source: Source
    wanted: tuple[tuple[int, int], ...] | None
    columns: tuple[tuple[str, str], ...] | None = None
