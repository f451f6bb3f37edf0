"""The pure core between two planners, zombies, replays and cleaners, held against a model of what may happen.

The model knows the log of each Kafka partition as a list of event times; the ledger here is a few dictionaries whose
changes are compare-and-sets, as the real one's are; storage is a set of directories, and renames may be late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidegate.core.base.offsets import Interval, subtract, union
from tidegate.core.base.renames import Do, decide, held_against
from tidegate.core.batch import planning
from tidegate.core.batch.planning import NothingToPlan, PlanningView
from tidegate.core.batch.states import Plan
from tidegate.core.clean import rules
from tidegate.core.files.balance import Balance, window_difference
from tidegate.core.files.receipt import DATA, LATE, FileEntry, PartitionRows, RangeResult, Receipt, arithmetic_errors
from tidegate.core.files.second_reading import compare
from tidegate.core.source.port import Lane, LogState
from tidegate.core.spec.pipeline import (
    ArchiveRun,
    Cleaning,
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
from tidegate.core.window.readiness import certify
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import TopicFacts, global_watermark, watermarks

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


class CoreMachine(RuleBasedStateMachine):
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

    # ------------------------------------------------------------ two planners

    @rule(who=st.sampled_from("AB"))
    def gather(self, who: str) -> None:
        topic = LogState(topic=TOPIC, topic_id=ID, partitions={p: log.offsets() for p, log in self.logs.items()})
        self.gathered[who] = (self._view(), topic, self.clock)

    def _view(self) -> PlanningView:
        newest = self.batches[max(self.batches)].plan if self.batches else None
        ends = {p.partition: p.end for p in newest.partitions} if newest else {}
        accepted = ID if newest else None
        not_open = tuple(sorted({*self.closing, *self.closed}))
        view = PlanningView(
            version=self.version,
            next_batch_id=len(self.batches) + 1,
            accepted_topic_id=accepted,
            open_batch=None,
            planned_ends=ends,
            not_open=not_open,
            facts=self.facts,
        )
        return view

    @rule(who=st.sampled_from("AB"))
    def plan(self, who: str) -> None:
        """With what was gathered, however long ago; the ledger compares the version and allows one open batch."""
        if who not in self.gathered:
            return
        view, topic, clock = self.gathered.pop(who)
        first = planning.first_offsets("earliest", topic, {})
        made = planning.plan_batch(self.pipeline, 1, view, topic, first, clock)
        is_open = any(row.state != "LANDED" for row in self.batches.values())
        if isinstance(made, NothingToPlan) or view.version != self.version or is_open:
            return
        assert made.batch_id == len(self.batches) + 1
        assert made.records <= max(self.pipeline.ingest.max_records, len(made.partitions))
        self.batches[made.batch_id] = Row(made)
        self.version += 1

    # ------------------------------------------------------------ writers, some of them zombies

    def _open(self) -> Row | None:
        return next((row for row in self.batches.values() if row.state != "LANDED"), None)

    @rule()
    def take(self) -> None:
        row = self._open()
        if row is not None and row.state in ("PLANNED", "WRITING"):
            row.state, row.epoch = "WRITING", row.epoch + 1
            attempt = (row.plan.batch_id, row.epoch)
            self.taken.append(attempt)
            self.tmp.add(attempt)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def job_ends(self, data: st.DataObject) -> None:
        """Of any task that ever held an epoch, while its directory is there."""
        self._job_ends(data.draw(st.sampled_from(self.taken)))

    def _job_ends(self, attempt: tuple[int, int]) -> None:
        if attempt in self.tmp and attempt not in self.attempts:
            self.attempts[attempt] = self._read(self.batches[attempt[0]].plan, attempt[1])

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

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        """By whoever has a complete receipt; the epoch is compared."""
        self._seal(data.draw(st.sampled_from(sorted(self.attempts))))

    def _seal(self, attempt: tuple[int, int]) -> None:
        batch_id, epoch = attempt
        row, receipt = self.batches[batch_id], self.attempts[batch_id, epoch]
        assert arithmetic_errors(receipt, row.plan.ranges, self.pipeline.source.gaps) == []
        if row.state == "WRITING" and row.epoch == epoch:
            row.state, row.manifest = "SEALED", receipt

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), by=st.sampled_from((-1, 1)))
    def a_receipt_that_lies(self, data: st.DataObject, by: int) -> None:
        """No single number of a receipt can be changed without an objection."""
        receipt = self.attempts[data.draw(st.sampled_from(sorted(self.attempts)))]
        plan = self.batches[receipt.batch_id].plan
        if not receipt.ranges:
            return
        n = data.draw(st.integers(0, len(receipt.ranges) - 1))
        name = data.draw(st.sampled_from(("read", "data", "late", "dirty", "filtered", "dropped")))
        r = receipt.ranges[n]
        lie = replace(r, **{name: getattr(r, name) + by})
        ranges = (*receipt.ranges[:n], lie, *receipt.ranges[n + 1 :])
        assert arithmetic_errors(replace(receipt, ranges=ranges), plan.ranges, self.pipeline.source.gaps)
        if receipt.files:
            fewer = replace(receipt, files=receipt.files[1:])
            assert arithmetic_errors(fewer, plan.ranges, self.pipeline.source.gaps)

    # ------------------------------------------------------------ landing: renames that may be late

    def _look(self, place: str, batch_id: int, epoch: int, manifest: dict[str, int]) -> Any:
        holds: tuple[int, int] | None = None
        if place == "tmp" and (batch_id, epoch) in self.tmp:
            holds = (batch_id, epoch)
        elif place == "landed" and batch_id in self.landed:
            holds = (batch_id, self.landed[batch_id])
        listing = None if holds is None else [(f.path, f.bytes) for f in self.attempts[holds].files]
        return held_against(manifest, listing)

    def _execute(self, batch_id: int, epoch: int) -> None:
        """A rename that never replaces: refused if its source is gone or its destination taken."""
        if (batch_id, epoch) in self.tmp and batch_id not in self.landed:
            self.tmp.remove((batch_id, epoch))
            self.landed[batch_id] = epoch

    @rule(now=st.sampled_from(("executed", "lost", "late", "between the looks")))
    def land(self, now: str) -> None:
        row = self._open()
        if row is None or row.state != "SEALED":
            return
        assert row.manifest is not None
        batch_id, epoch = row.plan.batch_id, row.manifest.epoch
        manifest = {f.path: f.bytes for f in row.manifest.files}
        source = self._look("tmp", batch_id, epoch, manifest)
        if now == "between the looks" and self.flying:
            self._execute(*self.flying.pop())
        todo = decide(source, self._look("landed", batch_id, epoch, manifest))
        assert not todo.is_alarm, f"a false alarm: {todo}"
        if todo is Do.RENAME:
            if now == "executed":
                self._execute(batch_id, epoch)
            elif now == "late":
                self.flying.append((batch_id, epoch))
            return
        assert todo is Do.DONE or batch_id in self.landed
        row.state = "LANDED"
        events = {r.range.partition: r.max_event_ms for r in row.manifest.ranges}
        self.facts = planning.advance(self.facts, row.plan, events)

    @precondition(lambda self: self.flying)
    @rule()
    def a_rename_arrives(self) -> None:
        self._execute(*self.flying.pop(0))

    # ------------------------------------------------------------ closing, replays, cleaning

    @rule(hour=st.integers(-1, 12))
    def close(self, hour: int) -> None:
        key = WindowKey(T0 + hour * HOUR, T0 + (hour + 1) * HOUR)
        if key.start_ms in self.closing or key.start_ms in self.closed:
            return
        certificate = certify("readings", self.pipeline.windows, self.facts, key, self.clock)
        marks = watermarks(self.pipeline.windows, self.facts)
        low = global_watermark(marks)
        before = key.end_ms <= self.pipeline.windows.start_ms
        assert certificate.ready == (before or (low is not None and low >= key.end_ms))
        assert certificate.ready or certificate.blockers or not marks
        if certificate.ready:
            self.closing[key.start_ms] = len(self.batches) + 1
            self.version += 1

    @precondition(lambda self: self.closing)
    @rule(data=st.data())
    def finish_close(self, data: st.DataObject) -> None:
        self._finish_close(data.draw(st.sampled_from(sorted(self.closing))))

    def _finish_close(self, start: int) -> None:
        if any(b < self.closing[start] and row.state != "LANDED" for b, row in self.batches.items()):
            return
        del self.closing[start]
        self.closed[start] = tuple(b for b, row in self.batches.items() if self._owes(row, start))
        self.version += 1

    def _owes(self, row: Row, start: int) -> bool:
        files = row.manifest.files if row.manifest and row.state == "LANDED" else ()
        return any(f.kind == DATA and f.window_ms == start for f in files)

    @precondition(lambda self: self.closed)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        """Read again and judged by the pinned plan, an hour has the same rows from each Kafka partition."""
        start = data.draw(st.sampled_from(sorted(self.closed)))
        owed, again = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for batch_id in self.closed[start]:
            row = self.batches[batch_id]
            assert row.manifest is not None
            reread = self._read(row.plan, 99)
            for told, receipt in ((owed, row.manifest), (again, reread)):
                for f in receipt.files:
                    if f.kind == DATA and f.window_ms == start:
                        told[batch_id, f.partitions[0].partition] += f.rows
            for then, now in zip(row.manifest.ranges, reread.ranges, strict=True):
                span = Interval(then.range.start, then.range.end)
                assert compare(span, then.gaps, now.gaps).objection("forbid") is None
        assert window_difference(owed, again) == {}

    @precondition(lambda self: self.tmp)
    @rule(data=st.data())
    def clean(self, data: st.DataObject) -> None:
        """A cleaner whose clock is a year ahead: what it takes nobody can need."""
        batch_id, epoch = data.draw(st.sampled_from(sorted(self.tmp)))
        row = self.batches[batch_id]
        facts = rules.BatchFacts(
            batch_id=batch_id,
            state=row.state,
            epoch=row.epoch,
            side_moved=True,
            landed_ms=0,
            cleaned_ms=None,
            newest=batch_id == max(self.batches),
        )
        attempt = rules.BatchAttempt(batch_id, epoch)
        verdict = rules.batch_attempt(attempt, facts, 0, Cleaning(), 400 * 24 * HOUR)
        if verdict.go:
            self.tmp.remove((batch_id, epoch))
            assert row.state == "LANDED" or epoch != row.epoch, "a live attempt"

    # ------------------------------------------------------------ what mostly happens

    @rule(
        runs=st.lists(
            st.tuples(st.sampled_from((6, 6, 1, 2, 3, 4, 5)), st.integers(0, 1), st.floats(-1.5, 3.0), st.booleans()),
            min_size=1,
            max_size=6,
        )
    )
    def runs(self, runs: list[tuple[int, int, float, bool]]) -> None:
        """As they should be, each up to one of its steps: without this hardly any batch would come far."""
        whole = (self._plan_now, self.take, self._job_ends_now, self._seal_now, self._land_now, self._land_now)
        for steps, partition, hours, archive in runs:
            self.records(partition, hours, 2)
            for step in whole[:steps]:
                step()
            if archive:
                self.archive_runs()

    def _plan_now(self) -> None:
        self.gather("A")
        self.plan("A")

    def _job_ends_now(self) -> None:
        if self.taken:
            self._job_ends(self.taken[-1])

    def _seal_now(self) -> None:
        if self.taken and self.taken[-1] in self.attempts:
            self._seal(self.taken[-1])

    def _land_now(self) -> None:
        self.land("executed")

    @rule()
    def archive_runs(self) -> None:
        for hour in range(-1, 13):
            self.close(hour)
        for start in list(self.closing):
            self._finish_close(start)

    # ------------------------------------------------------------ what must be true

    @invariant()
    def offsets_are_read_once_and_none_is_skipped(self) -> None:
        """Planned ranges and recorded losses tile each partition from its first offset on."""
        for partition in self.logs:
            parts = [
                Interval(a, b) for row in self.batches.values() for a, b in self._parts(row.plan, partition) if a < b
            ]
            assert sum(map(len, parts)) == sum(map(len, union(parts))), f"partition {partition}: {parts}"
            whole = union(parts)
            assert len(whole) <= 1, f"partition {partition} has holes: {whole}"

    def _parts(self, plan: Plan, partition: int) -> Iterator[tuple[int, int]]:
        yield from ((r.start, r.end) for r in plan.ranges if r.partition == partition)
        yield from ((x.start, x.end) for x in plan.losses if x.partition == partition)

    @invariant()
    def at_most_one_batch_is_open(self) -> None:
        assert sum(row.state != "LANDED" for row in self.batches.values()) <= 1

    @invariant()
    def what_is_sealed_is_there(self) -> None:
        for batch_id, row in self.batches.items():
            if row.state in ("SEALED", "LANDED"):
                assert row.manifest is not None
                epoch = row.manifest.epoch
                there = self.landed.get(batch_id) == epoch or (row.state == "SEALED" and (batch_id, epoch) in self.tmp)
                assert there or not row.manifest.files, f"batch {batch_id} is {row.state}, epoch {epoch} is nowhere"

    @invariant()
    def a_closed_hour_has_all_its_rows(self) -> None:
        """No batch owes data to an hour that was closed without it."""
        for start, batches in self.closed.items():
            late = [b for b, row in self.batches.items() if self._owes(row, start) and b not in batches]
            assert late == [], f"batches {late} owe rows to {start}, closed with {batches}"

    @invariant()
    def the_books_balance(self) -> None:
        total = Balance()
        for row in self.batches.values():
            for r in row.manifest.ranges if row.manifest else ():
                offsets, gaps = r.range.count, sum(map(len, r.gaps))
                total += Balance(
                    offsets=offsets,
                    read=r.read,
                    gaps=gaps,
                    data=r.data,
                    late=r.late,
                    dirty=r.dirty,
                    filtered=r.filtered,
                    dropped=r.dropped,
                )
        assert total.holds, total.text()
        files = [f for row in self.batches.values() if row.manifest for f in row.manifest.files]
        assert total.data + total.late == sum(f.rows for f in files)


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
