"""Merges into keyed tables: tries by epoch, and the copy of what a table says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import and_, case, exists, func, insert, or_, select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.plain import dumps, loads
from tidegate.core.batch.states import INGEST, LANDED, OPEN_STATES, OVER_STATES
from tidegate.core.daily.purge import KEPT_OUT, KeptOut
from tidegate.core.files.receipt import DATA, DIRTY
from tidegate.core.mirror import transitions
from tidegate.core.mirror.applies import (
    APPLIED,
    OPEN,
    REFUSED,
    Apply,
    Horizon,
    Landed,
    Merging,
    Told,
    Tried,
    parse_apply,
    taken_back,
)
from tidegate.core.mirror.copied import NOTHING, Copied
from tidegate.core.mirror.jobs import position_of, spelled
from tidegate.ledger import moves, schema
from tidegate.ledger.redrives import owned
from tidegate.ledger.store import Part, columns, in_parts, matched, read_as, row_of

a, p, b, f = schema.applies, schema.prefixes, schema.batches, schema.batch_files
e, v = schema.events, schema.spec_versions
SUBJECT, TAKEN_BACK = "mirror", "mirror taken back"
_COPY = (
    *("upto", "snapshot", "attempt", "rows", "tombstones", "events", "inserted", "purged"),
    *("purged_upto", "below_purge"),
)


class SqlApplies(Part):
    """core.mirror.applies.ApplyLedger."""

    # ------------------------------------------------------------ looking

    def told(self, name: str) -> Told | None:
        with self._store.begin() as c:
            return _told(c, name)

    def landed(self, name: str, after: int) -> Landed:
        with self._store.begin() as c:
            over = and_(b.c.pipeline == name, b.c.state.in_(OVER_STATES))
            newest = c.scalar(select(func.max(b.c.batch_id)).where(over)) or 0
            open_batch = c.scalar(
                select(func.min(b.c.batch_id)).where(b.c.pipeline == name, b.c.state.in_(OPEN_STATES))
            )
            rows = dict.fromkeys(c.scalars(select(b.c.batch_id).where(over, b.c.batch_id > after)), 0)
            for batch_id, count in c.execute(_data(name, b.c.batch_id > after)):
                rows[batch_id] = int(count)
        return Landed(rows=rows, newest=newest, open_batch=open_batch)

    def rows(self, name: str, upto: int) -> int:
        data = _data(name, b.c.batch_id <= upto).subquery()
        with self._store.begin() as c:
            return int(c.scalar(select(func.sum(data.c.rows))) or 0)

    def newest(self, name: str) -> Tried | None:
        with self._store.begin() as c:
            row = c.execute(select(a).where(a.c.pipeline == name).order_by(a.c.epoch.desc()).limit(1)).first()
        return None if row is None else _tried(row)

    def tries(self, name: str, epochs: Iterable[int]) -> dict[int, Tried]:
        with self._store.begin() as c:
            found: dict[int, Tried] = {}
            for some in in_parts(epochs):
                mine = and_(a.c.pipeline == name, a.c.epoch.in_(some))
                found |= {row.epoch: _tried(row) for row in c.execute(select(a).where(mine))}
            return found

    def upkeep(self, name: str) -> Tried | None:
        over = and_(
            a.c.pipeline == name,
            a.c.first_batch > a.c.last_batch,
            a.c.state.in_((APPLIED, REFUSED)),
            a.c.copied.is_(None),
        )
        with self._store.begin() as c:
            row = c.execute(select(a).where(over).order_by(a.c.epoch.desc()).limit(1)).first()
        return None if row is None else _tried(row)

    def horizon(self, name: str, upto: int, before_ms: int) -> Horizon:
        merged = and_(b.c.pipeline == name, b.c.state == LANDED, b.c.batch_id <= upto)
        own = and_(f.c.pipeline == name, f.c.batch_id == b.c.batch_id)
        events = exists().where(own, f.c.kind == DATA, f.c.rows > 0)
        dirty = exists().where(own, f.c.kind == DIRTY, f.c.rows > 0)
        settled = select(b.c.batch_id).where(merged, b.c.landed_ms <= before_ms, events)
        left_out = select(b.c.batch_id).where(merged, dirty, ~owned(b.c.batch_id, name))
        with self._store.begin() as c:
            return Horizon(
                read_ms=c.scalar(_read_to_its_ends(name, merged)),
                settled=c.scalar(settled.order_by(b.c.batch_id.desc()).limit(1)),
                left_out=c.scalar(left_out.limit(1)) is not None,
            )

    def holds(self, apply: Apply) -> bool:
        with self._store.begin() as c:
            row = row_of(c, a, pipeline=apply.pipeline, epoch=apply.epoch)
        return row is not None and (row.state, _apply(row)) == (OPEN, apply)

    # ------------------------------------------------------------ changing

    def begin(
        self,
        name: str,
        first: int,
        last: int,
        nonce: str,
        conflicts: str = "",
        base: str | None = None,
        copied: int | None = None,
    ) -> Apply:
        with self._store.begin() as c:
            newest = c.scalar(select(func.max(a.c.epoch)).where(a.c.pipeline == name)) or 0
            found = Apply(pipeline=name, first=first, last=last, epoch=newest + 1, nonce=nonce)
            moves.move(self._store, c, a, transitions.begin(found, conflicts, base, copied))
        return found

    def refuse(self, apply: Apply, why: str) -> None:
        moves.alone(self._store, a, transitions.refuse(apply, why))

    def applied(self, apply: Apply, snapshot: str | None) -> None:
        moves.moved_alone(self._store, a, transitions.applied(apply, snapshot))

    def overtaken(self, apply: Apply) -> None:
        moves.moved_alone(self._store, a, transitions.overtaken(apply))

    def stands(self, name: str, old: Told | None, now: Told, why: str = "") -> None:
        made = parse_apply(name, now.attempt)
        with self._store.begin() as c:
            if old != now:
                self._copy(c, name, old, now)
            if why or taken_back(old, now):
                detail = {"from": now.upto if old is None else old.upto, "to": now.upto, "snapshot": now.snapshot}
                self._store.note(c, name, TAKEN_BACK, SUBJECT, detail | ({"why": why} if why else {}))
            if made is not None:
                moves.moved(self._store, c, a, transitions.applied(made, now.snapshot))
            elsewhere = a.c.snapshot != (now.snapshot or "")  # of upkeep; an earlier release says nothing
            if made is not None:  # it has loaded the table before it was begun, and so before that commit
                elsewhere = or_(elsewhere, a.c.epoch < made.epoch)
            behind = or_(a.c.first_batch <= now.upto, and_(a.c.first_batch > a.c.last_batch, elsewhere))
            moves.move_all(self._store, c, a, transitions.OVERTAKE, a.c.pipeline == name, behind)

    def _copy(self, c: Connection, name: str, old: Told | None, now: Told) -> None:
        values = {**_copied(now), "told_ms": self._store.instant}
        known = 0 if old is None else old.below_purge
        if now.below_purge > known:
            values["kept_out_ms"] = self._store.instant
            more = {"events": now.below_purge - known, "in all": now.below_purge, "samples": list(now.kept_out)}
            self._store.note(c, name, KEPT_OUT, SUBJECT, more)
        if old is None:
            if _told(c, name) is not None:
                raise LostComparison(f"{name}: another task has looked at the table since")
            c.execute(insert(p).values(pipeline=name, **values))
        else:
            read = _copied(old).items()
            same = and_(p.c.pipeline == name, *(p.c[n].is_not_distinct_from(value) for n, value in read))
            self._store.compare_and_set(c, update(p).where(same).values(**values), f"the copy of {name}'s table")


def merging(c: Connection, names: Sequence[str]) -> dict[str, Merging]:
    """How far the keyed tables of these pipelines are: three statements."""
    told = {row.pipeline: row for row in c.execute(select(p).where(p.c.pipeline.in_(names)))}
    newest = select(a.c.pipeline, func.max(a.c.epoch).label("epoch")).where(a.c.pipeline.in_(names))
    epochs = newest.group_by(a.c.pipeline).subquery()
    of_newest = select(a).select_from(a.join(epochs, matched(a, epochs, "epoch")))
    tries = {row.pipeline: _tried(row) for row in c.execute(of_newest)}
    landed = {row.pipeline: row for row in c.execute(_over(names))}
    found = {}
    for name in names:
        row, now = landed.get(name), told.get(name)
        found[name] = Merging(
            told=None if now is None else _read(now),
            told_ms=None if now is None else now.told_ms,
            newest=0 if row is None else int(row.newest),
            waiting=0 if row is None else int(row.waiting),
            since_ms=None if row is None else row.since_ms,
            tried=tries.get(name),
            kept_out_ms=None if now is None else now.kept_out_ms,
            first_ms=None if row is None else row.first_ms,
            spec_ms=None if row is None else row.spec_ms,
        )
    return found


def kept_out(c: Connection, names: Sequence[str]) -> dict[str, KeptOut]:
    """The newest note of each of these tables by days, of those that have any. One statement."""
    mine = and_(e.c.pipeline.in_(names), e.c.subject == SUBJECT, e.c.what == KEPT_OUT)
    newest = select(func.max(e.c.id)).where(mine).group_by(e.c.pipeline)
    return {
        row.pipeline: KeptOut(row.at_ms, **json.loads(row.detail))
        for row in c.execute(select(e).where(e.c.id.in_(newest)))
    }


def _over(names: Sequence[str]) -> Any:
    """Batches that have landed or were given up, and of those above the table's last one how many, and since when."""
    above = b.c.batch_id > func.coalesce(p.c.upto, 0)
    newest_spec = select(func.max(v.c.created_ms)).where(v.c.pipeline == b.c.pipeline).scalar_subquery()
    return (
        select(
            b.c.pipeline,
            func.max(b.c.batch_id).label("newest"),
            func.sum(case((above, 1), else_=0)).label("waiting"),
            func.min(case((above, b.c.landed_ms))).label("since_ms"),
            func.min(b.c.landed_ms).label("first_ms"),
            newest_spec.label("spec_ms"),
        )
        .select_from(b.outerjoin(p, p.c.pipeline == b.c.pipeline))
        .where(b.c.pipeline.in_(names), b.c.state.in_(OVER_STATES))
        .group_by(b.c.pipeline)
    )


def _tried(row: Any) -> Tried:
    return read_as(Tried, row, apply=_apply(row))


def told(c: Connection, names: Sequence[str]) -> dict[str, Told]:
    """What the tables of these pipelines said when somebody last looked; nothing of one that nobody has looked at."""
    return {row.pipeline: _read(row) for row in c.execute(select(p).where(p.c.pipeline.in_(names)))}


def _told(c: Connection, name: str) -> Told | None:
    return told(c, [name]).get(name)


def _read(row: Any) -> Told:
    return read_as(
        Told,
        row,
        purged_below=position_of(row.purged_below),
        kept_out=(),
        buckets=0,
        begins=None if row.begins is None else position_of(row.begins),
        last_position=None if row.last_position is None else position_of(row.last_position),
        copied=NOTHING if row.copied is None else loads(Copied, row.copied),
    )


def _copied(told: Told) -> dict[str, Any]:
    """Its columns but for when it was looked at."""
    return {
        **columns(told, *_COPY),
        "purged_below": spelled(told.purged_below),
        "begins": None if told.begins is None else spelled(told.begins),
        "last_position": None if told.last_position is None else spelled(told.last_position),
        "copied": None if told.copied == NOTHING else dumps(told.copied),
    }


def _read_to_its_ends(name: str, merged: Any) -> Any:
    """When the newest batch was planned that has read all that the accepted topic showed then. Where somebody has sent
    reading back since, older ones say nothing."""
    ends, back, mine = schema.batch_partitions, schema.resumptions, schema.pipelines
    accepted = select(mine.c.topic_id).where(mine.c.name == name).scalar_subquery()
    own = and_(ends.c.pipeline == name, ends.c.batch_id == b.c.batch_id)
    went_back = exists().where(back.c.pipeline == name, back.c.after_batch >= b.c.batch_id)
    return (
        select(b.c.clock_ms)
        .where(merged, b.c.kind == INGEST, b.c.topic_id == accepted, ~went_back)
        .where(exists().where(own), ~exists().where(own, ends.c.planned_end < ends.c.last_stable_offset))
        .order_by(b.c.batch_id.desc())
        .limit(1)
    )


def _apply(row: Any) -> Apply:
    return read_as(Apply, row, first=row.first_batch, last=row.last_batch)


def _data(name: str, which: Any) -> Any:
    """(batch, rows of data) of landed batches."""
    files = f.join(b, matched(b, f, "batch_id"))
    return (
        select(f.c.batch_id, func.sum(f.c.rows).label("rows"))
        .select_from(files)
        .where(f.c.pipeline == name, b.c.state == LANDED, f.c.kind == DATA, which)
        .group_by(f.c.batch_id)
    )
