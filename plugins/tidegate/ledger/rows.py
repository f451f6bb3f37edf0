"""Ledger rows to core types and back."""

from __future__ import annotations

import json
from dataclasses import replace
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
from tidegate.ledger.store import columns, read_as

FATES = ("data", "late", "dirty", "filtered", "dropped")
"""Of a record that was read: what became of it."""
Row = Any  # sqlalchemy.engine.Row of the table that the function names


def file_values(entry: FileEntry) -> dict[str, Any]:
    """Columns of batch_files or generation_files, but for the window, which is a key of the latter."""
    return {
        **columns(entry, "path", "kind", "rows", "bytes", "min_event_ms", "max_event_ms"),
        "partition_values": dumps(entry.values),
        "checksum": str(entry.checksum),
        "partitions": dumps(entry.partitions),
    }


def file_entry(row: Row) -> FileEntry:
    """`row` of batch_files or generation_files."""
    return read_as(
        FileEntry,
        row,
        values=tuple((c, v) for c, v in json.loads(row.partition_values)),
        checksum=int(row.checksum),
        partitions=tuple(from_plain(PartitionRows, p) for p in json.loads(row.partitions)),
    )


def range_values(result: RangeResult) -> dict[str, Any]:
    """Columns of batch_ranges that are null until the batch is sealed."""
    return {**columns(result, "read", *FATES, "rerouted", "bytes", "max_kafka_ms"), "gaps": dumps(result.gaps)}


def receipt_text(receipt: Receipt) -> str:
    """The receipt without its files, which have rows of their own."""
    plain = to_plain(receipt)
    plain["files"] = []
    return dumps(plain)


def receipt(text: str, files: list[FileEntry]) -> Receipt:
    return replace(loads(Receipt, text), files=tuple(files))


def plan(batch: Row, ranges: list[Row], partitions: list[Row], losses: list[Row], sources: list[Row]) -> Plan:
    starts = {r.partition: r.start for r in ranges}
    return read_as(
        Plan,
        batch,
        floor=loads(Floor, batch.floor),
        partitions=tuple(
            read_as(PartitionPlan, p, start=starts.get(p.partition, p.planned_end), end=p.planned_end)
            for p in partitions
        ),
        losses=tuple(read_as(Loss, x) for x in losses),
        sources=tuple(read_as(DirtySource, s, batch_id=s.source) for s in sources),
        zone=None if batch.zone is None else loads(ZoneData, batch.zone),
    )


def batch_values(plan: Plan) -> dict[str, Any]:
    """Columns of batches for a plan, but for its key and its state."""
    return {
        **columns(plan, "revision", "spec_version", "rules_version", "topic", "topic_id", "clock_ms"),
        **columns(plan, "records", "kind"),
        "floor": dumps(plan.floor),
        "side_moved": False,
        "side_registered": False,
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
    return AbandonedBatch(its_plan, row.blocked or "", row.epoch, row.nonce)
