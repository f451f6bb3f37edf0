"""The world of `core_machine.py`: Kafka's log, the clock, and what a job reports that reads by a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tidegate.core.base.offsets import Interval, subtract
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.states import Plan
from tidegate.core.files.receipt import DATA, LATE, FileEntry, PartitionRows, RangeResult, Receipt
from tidegate.core.source.port import Lane, LogState
from tidegate.core.spec.pipeline import (
    ArchiveRun,
    Column,
    DirtyLimits,
    EventTime,
    Format,
    IngestRun,
    Pipeline,
    Sink,
    Source,
    Windows,
)
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.watermark import TopicFacts

HOUR, T0 = 3_600_000, 1_357_344_000_000  # 2013-01-05T00:00:00Z
TOPIC, ID = "readings", "id-1"
GONE = "gap"
"""In place of a record: an offset at which nothing is."""


@dataclass
class Log:
    """`records[i]` is the event time (UTC ms) at offset i, or GONE."""

    records: list[Any] = field(default_factory=list)
    start: int = 0
    open_since: int | None = None

    @property
    def stable(self) -> int:
        return len(self.records) if self.open_since is None else self.open_since

    def offsets(self) -> Lane:
        return Lane(self.start, max(self.stable, self.start), len(self.records))


@dataclass
class Row:
    """A batch in the ledger."""

    plan: Plan
    state: str = "PLANNED"
    epoch: int = 0
    manifest: Receipt | None = None


class CoreWorld(RuleBasedStateMachine):
    """What happens to the log, and what a job reads of it."""

    def __init__(self) -> None:
        super().__init__()
        self.pipeline: Pipeline = _pipeline()
        self.logs: dict[int, Log] = {}
        self.clock = T0
        self.version = 0
        self.batches: dict[int, Row] = {}
        self.closing: dict[int, int] = {}  # window start -> next batch id when it began to close
        self.closed: dict[int, tuple[int, ...]] = {}  # window start -> its batches
        self.facts = TopicFacts(None, None, ())
        self.gathered: dict[str, tuple[PlanningView, LogState, int]] = {}
        self.attempts: dict[tuple[int, int], Receipt] = {}  # receipts by (batch, epoch): complete
        self.taken: list[tuple[int, int]] = []  # tasks that hold, or held, an epoch
        self.tmp: set[tuple[int, int]] = set()  # directories of attempts
        self.landed: dict[int, int] = {}  # batch -> epoch whose directory landed/<batch> is
        self.flying: list[tuple[int, int]] = []  # renames to landed/ that may still be executed
        self.was_ready: dict[int, int] = {}  # window -> log ends when it was certified

    # ------------------------------------------------------------ the world

    @initialize(
        idle=st.sampled_from(("wait", "follow", "clock")),
        gaps=st.sampled_from(("forbid", "allow")),
        limit=st.sampled_from((1, 3, 1000)),
    )
    def begin(self, idle: str, gaps: str, limit: int) -> None:
        spec = self.pipeline
        self.pipeline = replace(
            spec,
            windows=replace(spec.windows, idle=idle),
            source=replace(spec.source, gaps=gaps, on_data_loss="record"),
            ingest=replace(spec.ingest, max_records=limit),
        )
        self.logs = {0: Log(), 1: Log()}

    @rule(partition=st.integers(0, 2), hours=st.floats(-1.5, 3.0), count=st.integers(1, 3))
    def records(self, partition: int, hours: float, count: int) -> None:
        log = self.logs.get(partition)
        if log is not None:
            newest = max((e for other in self.logs.values() for e in other.records if e is not GONE), default=T0)
            log.records += [max(T0 - HOUR, newest + int(hours * HOUR))] * count

    @rule()
    def add_partition(self) -> None:
        self.logs.setdefault(2, Log())

    @rule(partition=st.integers(0, 1), count=st.integers(1, 2))
    def offsets_without_records(self, partition: int, count: int) -> None:
        if self.pipeline.source.gaps == "allow":
            self.logs[partition].records += [GONE] * count

    @rule(partition=st.integers(0, 1))
    def transaction(self, partition: int) -> None:
        log = self.logs[partition]
        log.open_since = len(log.records) if log.open_since is None else None

    @rule(partition=st.integers(0, 1), keep=st.integers(0, 3))
    def retention(self, partition: int, keep: int) -> None:
        """Never past what a batch in the making still has to read."""
        log = self.logs[partition]
        needed = [r.start for row in self.batches.values() if row.state in ("PLANNED", "WRITING")
                  for r in row.plan.ranges if r.partition == partition]  # fmt: skip
        log.start = max(log.start, min([len(log.records) - keep, *needed, log.stable]))

    @rule(hours=st.sampled_from((0.1, 1.0, 30.0)))
    def time_passes(self, hours: float) -> None:
        self.clock += int(hours * HOUR)

    def _read(self, plan: Plan, epoch: int) -> Receipt:
        """What a job reports that reads the planned ranges and judges by the plan."""
        results, rows = [], Counter[tuple[str, int, int]]()
        spans: dict[tuple[str, int, int], list[int]] = {}
        for r in plan.ranges:
            counts, seen, events = Counter[str](), [], []
            for offset in range(r.start, r.end):
                event = self.logs[r.partition].records[offset]
                if event is GONE:
                    continue
                start, kind = self._fate(plan, event)
                counts[kind] += 1
                rows[kind, start, r.partition] += 1
                spans.setdefault((kind, start, r.partition), []).append(offset)
                seen.append(Interval(offset, offset + 1))
                events.append(event)
            gaps = subtract(Interval(r.start, r.end), seen)
            read = sum(counts.values())
            low, high = (min(events), max(events)) if events else (None, None)
            results.append(
                RangeResult(
                    range=r,
                    read=read,
                    data=counts[DATA],
                    late=counts[LATE],
                    dirty=0,
                    filtered=0,
                    dropped=0,
                    gaps=gaps,
                    min_event_ms=low,
                    max_event_ms=high,
                )
            )
        files = tuple(
            FileEntry(
                path=f"{kind}/{start}/{p}",
                kind=kind,
                window_ms=start,
                values=(),
                rows=n,
                bytes=10 * n,
                min_event_ms=start,
                max_event_ms=start,
                checksum=n,
                partitions=(PartitionRows(p, n, min(spans[kind, start, p]), max(spans[kind, start, p])),),
            )
            for (kind, start, p), n in sorted(rows.items())
        )
        return Receipt(
            attempt="a",
            batch_id=plan.batch_id,
            epoch=epoch,
            nonce="n",
            topic=TOPIC,
            topic_id=ID,
            spec_version=1,
            rules_version=1,
            ranges=tuple(results),
            files=files,
        )

    def _fate(self, plan: Plan, event: int) -> tuple[int, str]:
        start = window_start(event, self.pipeline.windows)
        late = plan.floor.is_late(start, window_end(start, self.pipeline.windows))
        return start, LATE if late else DATA


def _pipeline() -> Pipeline:
    return Pipeline(
        name="readings",
        owner="tests",
        tags=(),
        source=Source(conn_id="kafka", topic=TOPIC),
        format=Format(),
        columns=(Column(name="id", type="string", path="$.id"),),
        event_time=EventTime("$.at"),
        windows=Windows(size_ms=HOUR, timezone="UTC", start_ms=T0, watermark_delay_ms=HOUR),
        partition_by=("date", "hour"),
        sink=Sink(conn_id="hive", table="lake.readings", location="file:///lake", workdir="file:///lake/_tidegate"),
        ingest=IngestRun(schedule=None, max_records=1000, spark_conn_id="spark", spark_conf={}),
        archive=ArchiveRun(sla_ms=0),
        dirty=DirtyLimits(None, None),
    )
