"""Dirty rows that change their owner: one row for each batch says whose they are, so that no two batches take them."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, exists, func, insert, select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.plain import dumps, from_plain
from tidegate.core.batch.states import LANDED, OPEN_STATES, DirtySource, Plan
from tidegate.core.dirty.redrive import ASK_LASTS_MS, KINDS, Ask, DirtyBatch, InTheWay, add_up, source_batches
from tidegate.core.files.receipt import DIRTY, PartitionRows
from tidegate.ledger import schema
from tidegate.ledger.store import Part, Store, columns, in_parts, matched, read_as

b, f, o, r = schema.batches, schema.batch_files, schema.row_owners, schema.batch_ranges
e, k = schema.events, schema.run_bindings
SUBJECT, ASKED, WITHDRAWN = "redrive", "asked for its turn", "had asked for its turn"
_LOOKED_AT = 20
"""Asks that commands left when they were killed, and those of others that wait."""


class SqlRedrives(Part):
    """core.redriving.RedriveLedger."""

    def dirty_batches(self, name: str) -> list[DirtyBatch]:
        statement = (
            select(b.c.batch_id, b.c.topic, b.c.topic_id, b.c.side_moved, b.c.side_registered, f.c.partitions)
            .select_from(f.join(b, matched(b, f, "batch_id")))
            .where(f.c.pipeline == name, f.c.kind == DIRTY, b.c.state == LANDED, ~owned(f.c.batch_id, name))
        )
        told: dict[int, Any] = {}
        parts: dict[int, list[PartitionRows]] = defaultdict(list)
        with self._store.begin() as c:
            for row in c.execute(statement.order_by(b.c.batch_id, f.c.path)):
                told[row.batch_id] = row
                parts[row.batch_id] += (from_plain(PartitionRows, p) for p in json.loads(row.partitions))
        return [
            read_as(DirtyBatch, row, settled=bool(row.side_moved and row.side_registered), rows=add_up(i, parts[i]))
            for i, row in told.items()
        ]

    def counts(self, name: str, batch_id: int) -> dict[str, int]:
        sums = select(*(func.sum(r.c[k]) for k in KINDS)).where(r.c.pipeline == name, r.c.batch_id == batch_id)
        with self._store.begin() as c:
            return {k: int(n or 0) for k, n in zip(KINDS, c.execute(sums).one(), strict=True)}

    def duties(self, name: str) -> list[tuple[int, int]]:
        statement = select(o.c.batch_id, o.c.owner).where(
            o.c.pipeline == name, o.c.kind == DIRTY, o.c.cleared.is_(False)
        )
        with self._store.begin() as c:
            return [(row.batch_id, row.owner) for row in c.execute(statement.order_by(o.c.batch_id))]

    def cleared(self, name: str, batch_id: int) -> None:
        mine = and_(o.c.pipeline == name, o.c.batch_id == batch_id, o.c.kind == DIRTY, o.c.cleared.is_(False))
        with self._store.begin() as c:
            if c.execute(update(o).where(mine).values(cleared=True)).rowcount:
                self._store.note(c, name, "dirty files set aside", f"batch {batch_id}")

    # ------------------------------------------------------------ whose turn is next

    def in_the_way(self, name: str) -> InTheWay | None:
        is_open = and_(b.c.pipeline == name, b.c.state.in_(OPEN_STATES))
        with self._store.begin() as c:
            row = c.execute(select(b).where(is_open).order_by(b.c.batch_id)).first()
            if row is None:
                return None
            bound = select(k.c.run).where(k.c.pipeline == name, k.c.batch_id == row.batch_id)
            runs = tuple(c.scalars(bound.order_by(k.c.run)))
        since = max(row.planned_ms, row.began_ms or 0)
        return InTheWay(row.batch_id, row.state, row.epoch, since, runs, (row.blocked or "").partition("\n")[0])

    def asked(self, name: str) -> Ask | None:
        mine = select(e).where(e.c.pipeline == name, e.c.subject == SUBJECT, e.c.what == ASKED)
        with self._store.begin() as c:
            now_ms = self._store.read_now(c)
            newest = c.execute(mine.order_by(e.c.id.desc()).limit(_LOOKED_AT)).all()
        standing = [ask for ask in map(_ask_of, newest) if ask.until_ms > now_ms]
        return standing[-1] if standing else None

    def ask(self, name: str, old: Ask | None) -> Ask:
        with self._store.begin() as c:
            now_ms = self._store.read_now(c)
            detail = {"until_ms": now_ms + ASK_LASTS_MS}
            if old is None:
                self._store.note(c, name, ASKED, SUBJECT, detail)
                made = select(e).where(e.c.pipeline == name, e.c.subject == SUBJECT, e.c.what == ASKED)
                return _ask_of(c.execute(made.order_by(e.c.id.desc()).limit(1)).one())
            if old.until_ms <= now_ms:
                raise LostComparison("the redrive's ask has lapsed: it asks again")
            self._store.compare_and_set(c, _standing(name, old).values(detail=dumps(detail)), "the redrive's ask")
        return replace(old, until_ms=detail["until_ms"])

    def withdraw(self, name: str, ask: Ask) -> None:
        with self._store.begin() as c:
            c.execute(_standing(name, ask).values(what=WITHDRAWN))


def _standing(name: str, ask: Ask) -> Any:
    """UPDATE of this ask, unless it was changed since it was read."""
    same = and_(e.c.pipeline == name, e.c.id == ask.id, e.c.subject == SUBJECT, e.c.what == ASKED)
    return update(e).where(same, e.c.detail == dumps({"until_ms": ask.until_ms}))


def _ask_of(row: Any) -> Ask:
    return Ask(row.id, row.at_ms, row.actor, json.loads(row.detail)["until_ms"])


def insert_sources(c: Connection, plan: Plan) -> None:
    """Insert the sources in the transaction of the plan. Raises LostComparison unless all of its sources are there, and
    free."""
    if not plan.is_redrive:
        return
    name, wanted = plan.pipeline, source_batches(plan)
    free: set[int] = set()
    for some in in_parts(wanted):
        landed = select(b.c.batch_id).where(b.c.pipeline == name, b.c.batch_id.in_(some), b.c.state == LANDED)
        free |= set(c.scalars(landed.where(~owned(b.c.batch_id, name))))
    taken = sorted(set(wanted) - free)
    if taken:
        raise LostComparison(f"the dirty rows of batch {taken[0]} belong to another batch by now")
    c.execute(insert(schema.batch_sources), [_source_values(plan, s) for s in plan.sources])


def take_over(store: Store, c: Connection, plan: Plan) -> None:
    """Take the rows over in the transaction of LANDED: from here on the sources' dirty rows are the redrive's alone.

    The unique row of each batch makes a second owner a lost comparison."""
    if not plan.is_redrive:
        return
    key = {"pipeline": plan.pipeline, "kind": DIRTY, "owner": plan.batch_id, "cleared": False}
    ids = source_batches(plan)
    c.execute(insert(o), [key | {"batch_id": i} for i in ids])
    for i in ids:
        store.note(c, plan.pipeline, "redriven", f"batch {i}", {"by": plan.batch_id})


def owned(batch_id: Any, name: str) -> Any:
    return exists().where(o.c.pipeline == name, o.c.batch_id == batch_id, o.c.kind == DIRTY)


def _source_values(plan: Plan, source: DirtySource) -> dict[str, Any]:
    spans = columns(source, "partition", "rows", "min_offset", "max_offset")
    return {"pipeline": plan.pipeline, "batch_id": plan.batch_id, "source": source.batch_id, **spans}
