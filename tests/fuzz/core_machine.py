"""The pure core between two planners, zombies, replays and cleaners, compared with a model of what may happen.

The model knows the log of each Kafka partition as a list of event times; the ledger here is a few dictionaries whose
changes are compare-and-sets, as the real one's are; storage is a set of directories, and renames may be late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from tests.fuzz.core_world import HOUR, ID, T0, TOPIC, CoreWorld, Row
from tidegate.core.base.offsets import Interval, union
from tidegate.core.base.renames import Do, decide, held_against
from tidegate.core.batch import planning
from tidegate.core.batch.planning import NothingToPlan, PlanningView
from tidegate.core.batch.states import Plan
from tidegate.core.clean import rules
from tidegate.core.files.balance import Balance, window_difference
from tidegate.core.files.receipt import DATA, arithmetic_errors
from tidegate.core.files.second_reading import compare
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Cleaning
from tidegate.core.window.readiness import certify
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import global_watermark, watermarks


class CoreMachine(CoreWorld):
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
