"""Batches in the ledger: `PLANNED -> WRITING(epoch) -> SEALED -> LANDED`, each arrow one compare-and-set."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from sqlalchemy import insert, or_, select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LedgerError, LostComparison
from tidegate.core.base.offsets import Interval, union
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.base.plain import from_plain, loads
from tidegate.core.base.transition import Step
from tidegate.core.batch import transitions
from tidegate.core.batch.planning import PlanningView, advance
from tidegate.core.batch.refusal import Refusal
from tidegate.core.batch.states import (
    LANDED,
    OPEN_STATES,
    SEALED,
    AbandonedBatch,
    Batch,
    LandedBatch,
    OpenBatch,
    Plan,
    SealedBatch,
    WritingBatch,
)
from tidegate.core.files.receipt import DATA, LATE, FileEntry, Receipt, manifest_digest
from tidegate.core.source import stretches
from tidegate.core.window.states import OPEN
from tidegate.core.window.zonedata import ZoneData
from tidegate.ledger import ends, failovers, log_cut, moves, redrives, rows, schema
from tidegate.ledger.facts import topic_facts
from tidegate.ledger.store import Part, columns, insert_all, row_of, rows_of, scalar, update_all
from tidegate.ledger.values import landed_values

b = schema.batches
_ADVANCED = ("max_event_ms", "advanced_ms", "open_transaction_since_ms", "timed_ms")


class SqlBatches(Part):
    # ------------------------------------------------------------ looking

    def planning_view(self, name: str) -> PlanningView:
        w = schema.windows
        with self._store.begin() as c:
            pipeline = row_of(c, schema.pipelines, name=name)
            if pipeline is None:
                unknown = f"pipeline {name} is not in the ledger"
                raise LedgerError(unknown, advice="let its DAG be parsed, or register it")
            at = ends.reach(c, name, pipeline.topic_id)
            not_open = select(w.c.start_ms).where(w.c.pipeline == name, w.c.state != OPEN).order_by(w.c.start_ms)
            return PlanningView(
                version=pipeline.version,
                next_batch_id=pipeline.next_batch_id,
                accepted_topic_id=pipeline.topic_id,
                open_batch=self._open(c, name),
                planned_ends=at.ends or failovers.landed_before(c, name, pipeline.topic_id),
                not_open=tuple(c.scalars(not_open)),
                facts=topic_facts(c, name),
                begun=ends.begun(c, name),
                newest=at.newest,
                epochs=at.epochs,
                cuts=log_cut.open_cuts(c, [name]).get(name, ()),
                skipped=at.skipped,
                rewound=log_cut.rewound(c, name, pipeline.topic_id),
                site=failovers.active(c, name),
                stretches=_stretches(c, name, pipeline.topic_id),
            )

    def get(self, name: str, batch_id: int) -> Batch:
        with self._store.begin() as c:
            row = row_of(c, b, pipeline=name, batch_id=batch_id)
            if row is None:
                raise LedgerError(f"the ledger has no batch {batch_id} of {name}")
            return self._batch(c, row)

    def open(self, name: str) -> OpenBatch | None:
        with self._store.begin() as c:
            return self._open(c, name)

    def _open(self, c: Connection, name: str) -> OpenBatch | None:
        is_open = select(b).where(b.c.pipeline == name, b.c.state.in_(OPEN_STATES))
        row = c.execute(is_open.order_by(b.c.batch_id)).first()
        return None if row is None else self._batch(c, row)  # type: ignore[return-value]

    def _batch(self, c: Connection, row: Any) -> Batch:
        key = {"pipeline": row.pipeline, "batch_id": row.batch_id}
        plan = rows.plan(
            row,
            rows_of(c, schema.batch_ranges, **key),
            rows_of(c, schema.batch_partitions, **key),
            rows_of(c, schema.losses, **key),
            rows_of(c, schema.batch_sources, **key),
        )
        files = []
        if row.state == SEALED:
            files = [rows.file_entry(f) for f in rows_of(c, schema.batch_files, **key)]
        return rows.batch(row, plan, files)

    def bound(self, name: str, run: str) -> int | None:
        with self._store.begin() as c:
            row = row_of(c, schema.run_bindings, pipeline=name, run=run)
        return row and row.batch_id

    def newest_spec(self, name: str) -> int | None:
        newest = select(b.c.spec_version).where(b.c.pipeline == name).order_by(b.c.batch_id.desc()).limit(1)
        with self._store.begin() as c:
            return scalar(c, newest, int)

    def newest_zone(self, name: str) -> ZoneData | None:
        landed = select(b.c.zone).where(b.c.pipeline == name, b.c.state == LANDED)
        with self._store.begin() as c:
            text = c.scalar(landed.order_by(b.c.batch_id.desc()).limit(1))
        return None if text is None else loads(ZoneData, text)

    def refusal(self, name: str, batch_id: int) -> Refusal | None:
        with self._store.begin() as c:
            row = row_of(c, b, pipeline=name, batch_id=batch_id)
        return None if row is None else rows.refusal(row)

    def side_duties(self, name: str) -> list[tuple[int, bool]]:
        statement = select(b.c.batch_id, b.c.side_moved).where(
            b.c.pipeline == name, b.c.state == LANDED, b.c.side_registered.is_(False)
        )
        with self._store.begin() as c:
            return [(r.batch_id, bool(r.side_moved)) for r in c.execute(statement.order_by(b.c.batch_id))]

    def manifest_files(self, name: str, batch_id: int, kind: str | None = None) -> list[FileEntry]:
        where = {"pipeline": name, "batch_id": batch_id} | ({"kind": kind} if kind else {})
        with self._store.begin() as c:
            return [rows.file_entry(f) for f in rows_of(c, schema.batch_files, **where)]

    def values(self, name: str, first_ms: int, last_ms: int | None = None) -> dict[int, set[PartitionValues]]:
        with self._store.begin() as c:
            return landed_values(c, name, first_ms, last_ms)

    def gaps(self, name: str, batch_id: int) -> dict[int, tuple[Interval, ...]]:
        with self._store.begin() as c:
            found = rows_of(c, schema.batch_ranges, pipeline=name, batch_id=batch_id)
        return {
            r.partition: union(from_plain(Interval, i) for i in json.loads(r.gaps))
            for r in found
            if r.gaps and r.gaps != "[]"
        }

    # ------------------------------------------------------------ changing

    def insert_plan(self, plan: Plan, version: int, run: str | None) -> None:
        p, name, batch_id = schema.pipelines, plan.pipeline, plan.batch_id
        with self._store.begin() as c:
            compare = update(p).where(p.c.name == name, p.c.version == version, p.c.next_batch_id == batch_id)
            change = compare.values(version=version + 1, next_batch_id=batch_id + 1)
            if not plan.is_redrive:  # whose rows may be of a topic that was recreated since
                change = change.where(or_(p.c.topic_id.is_(None), p.c.topic_id == plan.topic_id))
                change = change.values(topic_id=plan.topic_id)
            self._store.compare_and_set(c, change, f"plan of batch {batch_id}")
            if self._open(c, name) is not None:
                raise LostComparison(f"another batch of {name} is open")
            redrives.insert_sources(c, plan)
            if not plan.is_redrive:
                log_cut.taken_up(c, plan, ends.newest_batch(c, name, plan.topic_id))
            moves.move(self._store, c, b, transitions.plan(plan, run), rows.batch_values(plan))
            key = {"pipeline": name, "batch_id": batch_id}
            ranges = [key | columns(r, "partition", "start", "end") for r in plan.ranges]
            losses = [key | columns(x, "partition", "start", "end", "reason") for x in plan.losses]
            insert_all(c, schema.batch_ranges, ranges)
            insert_all(c, schema.batch_partitions, [_partition_values(name, batch_id, p) for p in plan.partitions])
            insert_all(c, schema.losses, losses)
            if run is not None:
                c.execute(insert(schema.run_bindings).values(pipeline=name, run=run, batch_id=batch_id))

    def bind(self, name: str, run: str, batch_id: int) -> int:
        try:
            with self._store.begin() as c:
                c.execute(insert(schema.run_bindings).values(pipeline=name, run=run, batch_id=batch_id))
            return batch_id
        except LostComparison:
            bound = self.bound(name, run)
            if bound is None:
                raise
            return bound

    def take(self, batch: OpenBatch, nonce: str) -> WritingBatch:
        return moves.alone(self._store, b, transitions.take(batch, nonce))

    def replan(self, batch: WritingBatch, plan: Plan) -> WritingBatch:
        return moves.alone(self._store, b, transitions.replan(batch, plan))

    def refuse(self, batch: WritingBatch, refusal: Refusal) -> None:
        moves.alone(self._store, b, transitions.refuse(batch, refusal))

    def seal(self, batch: WritingBatch, manifest: Receipt) -> SealedBatch:
        return self._seal(transitions.seal(batch, manifest))

    def adopt(self, batch: OpenBatch, manifest: Receipt) -> SealedBatch:
        return self._seal(transitions.adopt(batch, manifest))

    def _seal(self, step: Step[SealedBatch]) -> SealedBatch:
        plan, manifest = step.after.plan, step.after.manifest
        key = {"pipeline": plan.pipeline, "batch_id": plan.batch_id}
        content = {
            "manifest_digest": manifest_digest(manifest.files),
            "receipt": rows.receipt_text(manifest),
            "job_ms": round(manifest.seconds * 1000),
        }
        with self._store.begin() as c:
            moves.move(self._store, c, b, step, content)
            values = [key | {"window_ms": f.window_ms} | rows.file_values(f) for f in manifest.files]
            insert_all(c, schema.batch_files, values)
            found = [
                (key | {"partition": r.range.partition, "start": r.range.start}, rows.range_values(r))
                for r in manifest.ranges
            ]
            update_all(c, schema.batch_ranges, found)
        return step.after

    def land(self, batch: SealedBatch) -> LandedBatch:
        plan, step = batch.plan, transitions.land(batch)
        with self._store.begin() as c:
            before = topic_facts(c, plan.pipeline)
            moves.move(self._store, c, b, step)
            totals = _window_totals(plan, batch.manifest)
            insert_all(c, schema.batch_window_totals, totals)
            redrives.take_over(self._store, c, plan)
            events = {r.range.partition: r.max_event_ms for r in batch.manifest.ranges}
            key = {"pipeline": plan.pipeline, "batch_id": plan.batch_id}
            advanced = [
                (key | {"partition": f.partition}, columns(f, *_ADVANCED))
                for f in advance(before, plan, events).partitions
            ]
            update_all(c, schema.batch_partitions, advanced)
        return step.after

    def mark_side(self, name: str, batch_id: int, flag: str) -> None:
        moves.moved_alone(self._store, b, transitions.side(name, batch_id, flag))

    def abandon(self, batch: OpenBatch, reason: str) -> AbandonedBatch:
        step = transitions.abandon(batch, reason)
        with self._store.begin() as c:
            moves.move(self._store, c, b, step)
            self._store.raise_version(c, batch.plan.pipeline)
        return step.after

    def block(self, batch: OpenBatch, reason: str) -> None:
        moves.alone(self._store, b, transitions.block(batch, reason))


def _stretches(c: Connection, name: str, topic_id: str | None) -> dict[int, tuple[Interval, ...]]:
    """What is never read, as far as the log has not been cut since: a site whose log was cut is never switched away
    from, so all of them are older than its cuts."""
    found = failovers.stretches_of(c, name, topic_id)
    for one in log_cut.decided(c, name, topic_id=topic_id) if found else ():
        found[one.partition] = stretches.below(one.cut, found.get(one.partition, ()))
    return found


def _partition_values(name: str, batch_id: int, part: Any) -> dict[str, Any]:
    said = columns(part, "partition", "log_start", "last_stable_offset", "high_watermark", "drained", "leader_epoch")
    return {"pipeline": name, "batch_id": batch_id, "planned_end": part.end, **said}


def _window_totals(plan: Plan, manifest: Receipt) -> list[dict[str, Any]]:
    """Rows and offset span for each window, kind and Kafka partition: what a replay reads, and owes."""
    rerouted = {(plan.floor.reroute_ms, DATA, r.range.partition): r.rerouted for r in manifest.ranges}
    spans: dict[tuple[int, str, int], list[int]] = defaultdict(lambda: [0, 2**62, -1])
    for f in manifest.files:
        if f.kind not in (DATA, LATE) or f.window_ms is None:
            continue
        for part in f.partitions:
            entry = spans[f.window_ms, f.kind, part.partition]
            entry[0] += part.rows
            entry[1] = min(entry[1], part.min_offset)
            entry[2] = max(entry[2], part.max_offset)
    return [
        {
            "pipeline": plan.pipeline,
            "batch_id": plan.batch_id,
            "window_ms": window,
            "kind": kind,
            "partition": partition,
            "rows": rows_,
            "min_offset": low,
            "max_offset": high,
            "rerouted": rerouted.get((window, kind, partition), 0),
        }
        for (window, kind, partition), (rows_, low, high) in sorted(spans.items())
    ]
