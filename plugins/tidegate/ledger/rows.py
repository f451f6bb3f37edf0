"""Ledger rows to core types and back."""

from __future__ import annotations

import json
from typing import Any

from tidegate.core.base.plain import dumps, from_plain, loads, to_plain
from tidegate.core.batch.refusal import Refusal, refusal_of
from tidegate.core.batch.states import (
    LANDED,
    PLANNED,
    SEALED,
    WRITING,
    AbandonedBatch,
    Batch,
    DirtySource,
    LandedBatch,
    Loss,
    PartitionPlan,
    Plan,
    PlannedBatch,
    SealedBatch,
    WritingBatch,
)
from tidegate.core.files.receipt import FileEntry, PartitionRows, RangeResult, Receipt
from tidegate.core.window.lateness import Floor
from tidegate.core.window.zonedata import ZoneData

Row = Any  # sqlalchemy.engine.Row of the table that the function names


def file_values(entry: FileEntry) -> dict[str, Any]:
    """Columns of batch_files or generation_files, but for the window, which is a key of the latter."""
    return {
        "path": entry.path,
        "kind": entry.kind,
        "partition_values": dumps(entry.values),
        "rows": entry.rows,
        "bytes": entry.bytes,
        "min_event_ms": entry.min_event_ms,
        "max_event_ms": entry.max_event_ms,
        "checksum": str(entry.checksum),
        "partitions": dumps(entry.partitions),
    }


def file_entry(row: Row) -> FileEntry:
    """`row` of batch_files or generation_files."""
    return FileEntry(
        path=row.path,
        kind=row.kind,
        window_ms=row.window_ms,
        values=tuple((c, v) for c, v in json.loads(row.partition_values)),
        rows=row.rows,
        bytes=row.bytes,
        min_event_ms=row.min_event_ms,
        max_event_ms=row.max_event_ms,
        checksum=int(row.checksum),
        partitions=tuple(from_plain(PartitionRows, p) for p in json.loads(row.partitions)),
    )


def range_values(result: RangeResult) -> dict[str, Any]:
    """Columns of batch_ranges that are null until the batch is sealed."""
    return {
        "read": result.read,
        "data": result.data,
        "late": result.late,
        "dirty": result.dirty,
        "filtered": result.filtered,
        "dropped": result.dropped,
        "rerouted": result.rerouted,
        "gaps": dumps(result.gaps),
        "bytes": result.bytes,
        "max_kafka_ms": result.max_kafka_ms,
    }


def receipt_text(receipt: Receipt) -> str:
    """The receipt without its files, which have rows of their own."""
    plain = to_plain(receipt)
    plain["files"] = []
    return dumps(plain)


def receipt(text: str, files: list[FileEntry]) -> Receipt:
    bare = loads(Receipt, text)
    return Receipt(**{**{f: getattr(bare, f) for f in bare.__dataclass_fields__}, "files": tuple(files)})


def plan(batch: Row, ranges: list[Row], partitions: list[Row], losses: list[Row], sources: list[Row]) -> Plan:
    starts = {r.partition: r.start for r in ranges}
    return Plan(
        pipeline=batch.pipeline,
        batch_id=batch.batch_id,
        revision=batch.revision,
        spec_version=batch.spec_version,
        rules_version=batch.rules_version,
        topic=batch.topic,
        topic_id=batch.topic_id,
        clock_ms=batch.clock_ms,
        floor=loads(Floor, batch.floor),
        partitions=tuple(
            PartitionPlan(
                partition=p.partition,
                start=starts.get(p.partition, p.planned_end),
                end=p.planned_end,
                log_start=p.log_start,
                last_stable_offset=p.last_stable_offset,
                high_watermark=p.high_watermark,
                leader_epoch=p.leader_epoch,
            )
            for p in partitions
        ),
        losses=tuple(Loss(x.partition, x.start, x.end, x.reason) for x in losses),
        kind=batch.kind,
        sources=tuple(DirtySource(s.source, s.partition, s.rows, s.min_offset, s.max_offset) for s in sources),
        zone=None if batch.zone is None else loads(ZoneData, batch.zone),
    )


def batch_values(plan: Plan) -> dict[str, Any]:
    """Columns of batches for a plan, but for its key and its state."""
    return {
        "revision": plan.revision,
        "spec_version": plan.spec_version,
        "rules_version": plan.rules_version,
        "topic": plan.topic,
        "topic_id": plan.topic_id,
        "clock_ms": plan.clock_ms,
        "floor": dumps(plan.floor),
        "records": plan.records,
        "side_moved": False,
        "side_registered": False,
        "kind": plan.kind,
        "zone": None if plan.zone is None else dumps(plan.zone),
    }


def refusal(row: Row) -> Refusal | None:
    """`row` of batches."""
    return refusal_of(row.refused, row.refused_kind, row.refused_advice, row.refused_partition, row.refused_offset)


def batch(row: Row, its_plan: Plan, files: list[FileEntry]) -> Batch:
    if row.state == PLANNED:
        return PlannedBatch(its_plan)
    if row.state == WRITING:
        return WritingBatch(its_plan, row.epoch, row.nonce)
    if row.state == SEALED:
        return SealedBatch(its_plan, row.epoch, row.nonce, receipt(row.receipt, files))
    if row.state == LANDED:
        return LandedBatch(its_plan, row.epoch, row.nonce, bool(row.side_moved))
    return AbandonedBatch(its_plan, row.blocked or "")
