"""What a window's rows rest on, read from the tables that their batches left: sums by SQL, lists cut at a length."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import and_, case, func, or_, select
from sqlalchemy.engine import Connection

from tidegate.core.base.offsets import Interval, union
from tidegate.core.base.plain import from_plain, loads
from tidegate.core.batch.states import ABANDONED, INGEST
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.publish.grounds import (
    MAX_GAPS,
    MAX_LOSSES,
    MAX_RANGES,
    BatchGround,
    Grounds,
    Lost,
    PartitionGround,
    RangeGround,
    bounded,
)
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import WindowKey
from tidegate.ledger import schema
from tidegate.ledger.store import matched, read_as

t, r, b = schema.batch_window_totals, schema.batch_ranges, schema.batches


def grounds_of(c: Connection, name: str, key: WindowKey, batches: Iterable[int], late: Iterable[int]) -> Grounds:
    """Grounds of the generation that holds the window's rows of `batches`; those of `late` among them came late."""
    ids, came_late = sorted(batches), sorted(late)
    data = and_(t.c.kind == DATA, t.c.batch_id.in_(sorted(set(ids) - set(came_late))))
    mine = and_(
        t.c.pipeline == name,
        t.c.window_ms == key.start_ms,
        or_(data, and_(t.c.kind == LATE, t.c.batch_id.in_(came_late))),
    )
    w = schema.windows
    closing = c.scalar(select(w.c.closing_batch).where(w.c.pipeline == name, w.c.start_ms == key.start_ms))
    ranges, range_count = _ranges(c, mine)
    gaps, gap_ranges = _gaps(c, mine)
    losses, loss_count = _losses(c, name, _while_open(c, name, key, ids, closing))
    return Grounds(
        closing_batch=closing,
        batches=_batches(c, mine, set(came_late)),
        partitions=_partitions(c, mine),
        ranges=ranges,
        range_count=range_count,
        gap_intervals=gaps,
        gap_ranges=gap_ranges,
        losses=losses,
        loss_count=loss_count,
    )


def _with_ranges() -> Any:
    return t.join(r, matched(r, t, "batch_id", "partition"))


def _batches(c: Connection, mine: Any, late: set[int]) -> tuple[BatchGround, ...]:
    columns = [b.c.batch_id, b.c.kind, b.c.spec_version, b.c.clock_ms, b.c.landed_ms, b.c.floor]
    source = t.join(b, matched(b, t, "batch_id"))
    sums = [func.sum(t.c.rows).label("rows"), func.sum(t.c.rerouted).label("rerouted")]
    found = c.execute(select(*columns, *sums).select_from(source).where(mine).group_by(*columns).order_by(b.c.batch_id))
    return tuple(_ground(row, loads(Floor, row.floor), row.batch_id in late) for row in found)


def _ground(row: Any, floor: Floor, late: bool) -> BatchGround:
    sums = {"rows": int(row.rows), "rerouted": int(row.rerouted)}
    return read_as(BatchGround, row, **sums, late=late, floor_ms=floor.low_ms, closed_above=len(floor.closed))


def _partitions(c: Connection, mine: Any) -> tuple[PartitionGround, ...]:
    """A redrive reads no offsets of its own: what lies between its rows is no gap."""
    of_kafka = b.c.kind == INGEST
    source = _with_ranges().join(b, matched(b, t, "batch_id"))
    sums = [
        func.sum(t.c.rows), func.min(t.c.min_offset), func.max(t.c.max_offset), func.count(),
        func.sum(case((of_kafka, r.c.end - r.c.start), else_=0)),
        func.sum(case((of_kafka, r.c.end - r.c.start - r.c.read), else_=0)),
    ]  # fmt: skip
    found = c.execute(
        select(t.c.partition, *sums).select_from(source).where(mine).group_by(t.c.partition).order_by(t.c.partition)
    )
    names = [f.name for f in fields(PartitionGround)]
    return tuple(PartitionGround(**dict(zip(names, map(int, row), strict=True))) for row in found)


def _ranges(c: Connection, mine: Any) -> tuple[tuple[RangeGround, ...], int]:
    columns = [t.c.batch_id, t.c.partition, r.c.start, r.c.end, t.c.rows, t.c.min_offset, t.c.max_offset]
    found = select(*columns).select_from(_with_ranges()).where(mine).order_by(t.c.batch_id, t.c.partition)
    count = c.scalar(select(func.count()).select_from(_with_ranges()).where(mine))
    names = [f.name for f in fields(RangeGround)]
    ranges = (dict(zip(names, row, strict=True)) for row in c.execute(found.limit(MAX_RANGES)))
    return tuple(RangeGround(**r) for r in ranges), int(count or 0)


def _gaps(c: Connection, mine: Any) -> tuple[Any, int]:
    source = _with_ranges().join(b, matched(b, t, "batch_id"))
    where = and_(mine, b.c.kind == INGEST, r.c.gaps.is_not(None), r.c.gaps != "[]")
    count = c.scalar(select(func.count()).select_from(source).where(where))
    found = select(t.c.batch_id, t.c.partition, r.c.gaps).select_from(source).where(where)
    rows = c.execute(found.order_by(t.c.batch_id, t.c.partition).limit(MAX_GAPS))
    told = [(x.batch_id, x.partition, union(from_plain(Interval, i) for i in json.loads(x.gaps))) for x in rows]
    return bounded(told), int(count or 0)


def _while_open(c: Connection, name: str, key: WindowKey, ids: list[int], closing: int | None) -> tuple[int, int]:
    """First and last of the batches that may have held rows of the window: from the first that did, or, of one without
    rows, the one after the last that was planned before it began; to the last before its rows were late."""
    last = max([*ids, *([] if closing is None else [closing - 1])], default=0)
    if ids:
        return ids[0], last
    before = select(b.c.batch_id).where(b.c.pipeline == name, b.c.batch_id <= last, b.c.clock_ms < key.start_ms)
    return (c.scalar(before.order_by(b.c.batch_id.desc()).limit(1)) or 0) + 1, last


def _losses(c: Connection, name: str, within: tuple[int, int]) -> tuple[tuple[Lost, ...], int]:
    """Recorded by these batches: what retention took, and batches that were given up."""
    x = schema.losses
    lost = and_(x.c.pipeline == name, x.c.batch_id.between(*within))
    found = [
        read_as(Lost, row)
        for row in c.execute(select(x).where(lost).order_by(x.c.batch_id, x.c.partition).limit(MAX_LOSSES))
    ]
    gone = and_(b.c.pipeline == name, b.c.batch_id.between(*within), b.c.state == ABANDONED, b.c.kind == INGEST)
    source = r.join(b, matched(b, r, "batch_id"))
    given_up = select(r.c.batch_id, r.c.partition, r.c.start, r.c.end).select_from(source).where(gone)
    found += [
        Lost(row.batch_id, row.partition, row.start, row.end, "abandoned")
        for row in c.execute(given_up.order_by(r.c.batch_id, r.c.partition).limit(MAX_LOSSES))
    ]
    count = c.scalar(select(func.count()).select_from(x).where(lost)) or 0
    count += c.scalar(select(func.count()).select_from(source).where(gone)) or 0
    return tuple(sorted(found, key=lambda i: (i.batch_id, i.partition, i.start))[:MAX_LOSSES]), int(count)
