"""Batches' parts of the late and dirty tables as units of deliveries: versions, and what has not left (D9, D11)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from sqlalchemy import and_, func, literal_column, or_, select
from sqlalchemy.engine import Connection

from tidegate.core.batch.states import LANDED
from tidegate.core.deliver.states import SKIPPED, STANDING, Version
from tidegate.core.deliver.units import name_of
from tidegate.core.files.receipt import DIRTY, LATE, FileEntry, manifest_digest
from tidegate.core.window.states import CURRENT
from tidegate.ledger import rows, schema
from tidegate.ledger.store import matched, rows_of

b, f, g, o = schema.batches, schema.batch_files, schema.generations, schema.row_owners
t, x, d = schema.batch_window_totals, schema.generation_batches, schema.deliveries


def versions(name: str, side: str) -> Any:
    """Landed batches with rows of that kind: (pipeline, window_ms, number, published_ms), where `window_ms` is the
    batch, `number` its version, and `published_ms` since when that is so."""
    return _late(name) if side == LATE else _dirty(name)


def _late(name: str) -> Any:
    """What a generation in force has taken up has left."""
    taken = _taken(name)
    gone = and_(taken.c.batch_id == t.c.batch_id, taken.c.window_ms == t.c.window_ms)
    landed = and_(matched(b, t, "batch_id"), b.c.state == LANDED)
    found = (
        select(
            t.c.pipeline.label("pipeline"),
            t.c.batch_id.label("window_ms"),
            (1 + func.count(taken.c.window_ms.distinct())).label("number"),
            func.coalesce(func.max(taken.c.published_ms), b.c.landed_ms).label("published_ms"),
        )
        .select_from(t.join(b, landed).outerjoin(taken, gone))
        .where(t.c.pipeline == name, literal_column("batch_window_totals.kind = 'late'"))  # as the partial index says
    )
    return found.group_by(t.c.pipeline, t.c.batch_id, b.c.landed_ms).subquery()


def _taken(name: str) -> Any:
    mine = and_(x.c.pipeline == name, x.c.kind == LATE, g.c.state == CURRENT)
    return (
        select(x.c.window_ms, x.c.batch_id, g.c.published_ms)
        .select_from(x.join(g, matched(g, x, "window_ms", "number")))
        .where(mine)
        .subquery()
    )


def _dirty(name: str) -> Any:
    """What a redrive has taken up has left."""
    owner = b.alias()
    landed = and_(matched(b, f, "batch_id"), b.c.state == LANDED)
    owned = and_(matched(o, f, "batch_id"), o.c.kind == DIRTY)
    by = and_(owner.c.pipeline == o.c.pipeline, owner.c.batch_id == o.c.owner)
    found = (
        select(
            f.c.pipeline.label("pipeline"),
            f.c.batch_id.label("window_ms"),
            (1 + func.count(o.c.owner.distinct())).label("number"),
            func.coalesce(func.max(owner.c.landed_ms), b.c.landed_ms).label("published_ms"),
        )
        .select_from(f.join(b, landed).outerjoin(o, owned).outerjoin(owner, by))
        .where(f.c.pipeline == name, literal_column("batch_files.kind = 'dirty'"))  # as the partial index says
    )
    return found.group_by(f.c.pipeline, f.c.batch_id, b.c.landed_ms).subquery()


def files(c: Connection, name: str, side: str, batch_id: int) -> tuple[int, list[FileEntry]]:
    """A batch's version, 0 for none, and its files that have not left."""
    known = versions(name, side)
    number = c.scalar(select(known.c.number).where(known.c.window_ms == batch_id))
    if number is None:
        return 0, []
    found = [rows.file_entry(row) for row in rows_of(c, f, pipeline=name, batch_id=batch_id, kind=side)]
    if side == DIRTY:
        return number, found if number == 1 else []
    taken = _taken(name)
    gone = set(c.scalars(select(taken.c.window_ms).where(taken.c.batch_id == batch_id)))
    return number, [one for one in found if one.window_ms not in gone]


def all_versions(c: Connection, name: str, side: str) -> dict[int, Version]:
    """Each batch's version, with the rows and the digest of the files that have not left; three statements."""
    known = versions(name, side)
    numbers = {row.window_ms: int(row.number) for row in c.execute(select(known.c.window_ms, known.c.number))}
    taken = _taken(name)
    gone = {(row.batch_id, row.window_ms) for row in c.execute(select(taken))} if side == LATE else set()
    mine = select(f).where(f.c.pipeline == name, f.c.kind == side).order_by(f.c.batch_id)
    found = {batch_id: Version(number, 0, manifest_digest(())) for batch_id, number in numbers.items()}
    for batch_id, several in groupby(c.execute(mine), lambda row: row.batch_id):
        number = numbers.get(batch_id)
        if number is None or (side == DIRTY and number > 1):
            continue
        left = [e for e in map(rows.file_entry, several) if (batch_id, e.window_ms) not in gone]
        found[batch_id] = Version(number, sum(e.rows for e in left), manifest_digest(left))
    return found


def not_left(
    c: Connection, name: str, base: str, side: str, unit: int, generation: int, sides: Iterable[str]
) -> list[tuple[str, int]]:
    """(side, batch) that had rows of this unit, and do not stand in the delivery `base` without them."""
    made = and_(x.c.pipeline == name, x.c.window_ms == unit, x.c.number == generation)
    holds = [unit] if side else select(x.c.batch_id).where(made)
    redriven = select(o.c.batch_id).where(o.c.pipeline == name, o.c.kind == DIRTY, o.c.owner.in_(holds))
    had = {DIRTY: redriven}
    if not side:
        had[LATE] = select(x.c.batch_id).where(made, x.c.kind == LATE)
    found: list[tuple[str, int]] = []
    for kind in sides:
        if kind not in had:
            continue
        known = versions(name, kind)
        row = and_(d.c.pipeline == name, d.c.name == name_of(base, kind), d.c.window_ms == known.c.window_ms)
        asked = select(known.c.window_ms).select_from(known.outerjoin(d, row))
        batches = c.scalars(asked.where(known.c.window_ms.in_(had[kind]), _waits(known)).order_by(known.c.window_ms))
        found += [(kind, batch_id) for batch_id in batches]
    return found


def _waits(known: Any) -> Any:
    """A batch that does not stand there in its version; one without a row, too: a ledger that was restored has
    forgotten what it has sent."""
    return or_(d.c.generation.is_(None), d.c.generation != known.c.number, d.c.state.not_in((STANDING, SKIPPED)))
