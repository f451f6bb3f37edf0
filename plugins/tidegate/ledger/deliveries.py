"""What stands of windows in further systems: the tries that were begun, and what was read back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, case, func, insert, or_, select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.plain import dumps, loads
from tidegate.core.base.transition import Step
from tidegate.core.deliver import places, transitions
from tidegate.core.deliver.places import Place
from tidegate.core.deliver.port import Content, Tries
from tidegate.core.deliver.states import REFUSED, SENDING, SKIPPED, STANDING, WANTED, Backlog, Delivered, Due
from tidegate.core.deliver.units import SIDES, base_of, name_of, side_of
from tidegate.core.files.receipt import FileEntry
from tidegate.core.window.states import CURRENT
from tidegate.ledger import moves, schema, side_units
from tidegate.ledger.store import Part, read_as, row_of

d, g, p = schema.deliveries, schema.generations, schema.delivery_places


class SqlDeliveries(Part):
    """core.deliver.states.DeliveryLedger on PostgreSQL or SQLite."""

    # ------------------------------------------------------------ looking

    def get(self, name: str, delivery: str, window_ms: int) -> Delivered | None:
        with self._store.begin() as c:
            row = row_of(c, d, pipeline=name, name=delivery, window_ms=window_ms)
        return None if row is None else _delivered(row)

    def within(self, name: str, delivery: str, first_ms: int, until_ms: int) -> list[Delivered]:
        mine = and_(d.c.pipeline == name, d.c.name == delivery, d.c.window_ms >= first_ms, d.c.window_ms < until_ms)
        with self._store.begin() as c:
            return [_delivered(row) for row in c.execute(select(d).where(mine).order_by(d.c.window_ms))]

    def standing(self, name: str, delivery: str) -> Tries:
        mine = and_(d.c.pipeline == name, d.c.name == delivery, d.c.state == STANDING)
        with self._store.begin() as c:
            found = c.execute(select(d.c.window_ms, d.c.generation, d.c.epoch).where(mine).order_by(d.c.window_ms))
            return {window_ms: (generation, epoch) for window_ms, generation, epoch in found}

    def due(self, name: str, delivery: str, since_ms: int | None, limit: int) -> list[Due]:
        u = _units(name, delivery)
        due = or_(d.c.generation.is_(None), d.c.generation != u.c.number, d.c.state.in_(WANTED))
        statement = _in_force(u, delivery).where(due, *_young(u, since_ms)).order_by(u.c.window_ms).limit(limit)
        with self._store.begin() as c:
            return [_due(row, delivery) for row in c.execute(statement)]

    def in_force(self, name: str, delivery: str, first_ms: int, until_ms: int) -> list[Due]:
        u = _units(name, delivery)
        within = and_(u.c.window_ms >= first_ms, u.c.window_ms < until_ms)
        with self._store.begin() as c:
            found = c.execute(_in_force(u, delivery).where(within).order_by(u.c.window_ms))
            return [_due(row, delivery) for row in found]

    def holds(self, row: Delivered) -> bool:
        mine = and_(d.c.pipeline == row.pipeline, d.c.name == row.name, d.c.window_ms == row.window_ms)
        same = and_(d.c.generation == row.generation, d.c.epoch == row.epoch, d.c.nonce == row.nonce)
        with self._store.begin() as c:
            held = c.scalar(select(d.c.epoch).where(mine, same, d.c.state == SENDING))
            return held is not None and _newest(c, row.pipeline, row.name, row.window_ms) == row.generation

    def goes_to(self, name: str, delivery: str) -> Place | None:
        with self._store.begin() as c:
            row = row_of(c, p, pipeline=name, name=base_of(delivery))
        return None if row is None else read_as(Place, row, earlier=loads(tuple[str, ...], row.earlier))

    def needed(self, name: str, delivery: str, stagings: Iterable[str]) -> set[str]:
        mine = and_(d.c.pipeline == name, d.c.name == delivery, d.c.state == SENDING)
        with self._store.begin() as c:
            tries = {_delivered(row).attempt(0).staging for row in c.execute(select(d).where(mine))}
        return tries & set(stagings)

    def not_left(self, name: str, delivery: str, due: Due, sides: Iterable[str]) -> list[tuple[str, int]]:
        with self._store.begin() as c:
            return _not_left(c, name, delivery, due, sides)

    def side_files(self, name: str, side: str, batch_id: int) -> tuple[int, list[FileEntry]]:
        with self._store.begin() as c:
            return side_units.files(c, name, side, batch_id)

    # ------------------------------------------------------------ changing

    def take(self, name: str, delivery: str, due: Due, digest: str, nonce: str, above: int = 0) -> Delivered:
        return self._begin(due, name, delivery, transitions.take(name, delivery, due, digest, nonce, above))

    def skip(self, name: str, delivery: str, due: Due, digest: str, why: str) -> Delivered:
        return self._begin(due, name, delivery, transitions.skip(name, delivery, due, digest, why))

    def _begin(self, due: Due, name: str, delivery: str, step: Step[Delivered]) -> Delivered:
        """A step that is of the generation in force only."""
        with self._store.begin() as c:
            now = self._store.read_now(c)
            if _newest(c, name, delivery, due.window_ms) != due.generation:
                raise LostComparison(f"generation {due.generation} of {due.unit} is not in force any more")
            moves.move(self._store, c, d, step, now=now)
        return replace(step.after, since_ms=now)

    def stands(self, row: Delivered, content: Content, place: str) -> Delivered:
        step = transitions.stand(row, content)
        with self._store.begin() as c:
            _compare_place(c, row.pipeline, row.name, place)
            now = self._store.read_now(c)
            moves.move(self._store, c, d, step, now=now)
        return replace(step.after, since_ms=now, stood_ms=now)

    def move(self, name: str, delivery: str, known: Place | None, place: str, why: str) -> int:
        base, after = base_of(delivery), places.moved(known, place)
        named = {"pipeline": name, "name": base}
        mine = and_(d.c.pipeline == name, d.c.name.in_([base, *(name_of(base, side) for side in SIDES)]))
        with self._store.begin() as c:
            now = self._store.read_now(c)
            values = {"place": place, "number": after.number, "earlier": dumps(after.earlier), "since_ms": now}
            if known is None:
                c.execute(insert(p).values(**named, **values))
                return 0
            same = and_(p.c.pipeline == name, p.c.name == base, p.c.number == known.number, p.c.place == known.place)
            self._store.compare_and_set(c, update(p).where(same).values(**values), f"the place of {base}")
            stood = d.c.state.in_((SENDING, STANDING))
            count = moves.move_all(self._store, c, d, transitions.AGAIN, mine, stood, sets={"why": why}, now=now)
            detail = {"to": place, "from": known.place, "to be sent again": count, "why": why}
            self._store.note(c, name, "delivery moved", f"delivery {base}", detail)
        return count

    def failed(self, row: Delivered, why: str, content: Content | None = None) -> None:
        step = transitions.fail(row, why) if content is None else transitions.lack(row, why, content)
        moves.moved_alone(self._store, d, step)

    def refuse(self, row: Delivered, why: str) -> None:
        moves.moved_alone(self._store, d, transitions.refuse(row, why))

    def again(self, row: Delivered, why: str) -> Delivered:
        step = transitions.again(row, why)
        with self._store.begin() as c:
            now = self._store.read_now(c)
            moves.move(self._store, c, d, step, now=now)
        return replace(step.after, since_ms=now)


def _compare_place(c: Connection, name: str, delivery: str, place: str) -> None:
    """Raises LostComparison where the delivery goes elsewhere. A move under way is waited for: it may not see that this
    try was begun."""
    known = select(p.c.place).where(p.c.pipeline == name, p.c.name == base_of(delivery))
    found = c.scalar(known.with_for_update(read=True))
    if found is not None and found != place:
        raise LostComparison(f"{delivery} goes to ({found}) by now, not to ({place})")


def _not_left(c: Connection, name: str, delivery: str, due: Due, sides: Iterable[str]) -> list[tuple[str, int]]:
    base, side = base_of(delivery), side_of(delivery)
    return side_units.not_left(c, name, base, side, due.window_ms, due.generation, sides)


def backlog(c: Connection, name: str, delivery: str, since_ms: int | None, sides: Iterable[str] = ()) -> Backlog:
    """How far a delivery is: up to three statements, and one for each of the `sides` beside it."""
    u = _units(name, delivery)
    mine = _in_force(u, delivery).where(*_young(u, since_ms)).subquery()
    x = mine.c
    due = or_(x.generation.is_(None), x.generation != x.number, x.state.in_(WANTED))
    stands = and_(x.generation == x.number, x.state == STANDING)
    refused = and_(x.generation == x.number, x.state == REFUSED)
    sums = select(
        func.count(case((stands, 1))).label("standing"),
        func.count(case((due, 1))).label("due"),
        func.count(case((and_(x.generation == x.number, x.state == SKIPPED), 1))).label("skipped"),
        func.count(case((refused, 1))).label("refused"),
        func.max(case((stands, x.at_ms))).label("newest_ms"),
    )
    row = c.execute(sums).one()
    first = select(mine).order_by(x.published_ms, x.at_ms).limit(1)
    oldest = c.execute(first.where(due)).first() if row.due else None
    refusal = c.execute(first.where(refused)).first() if row.refused else None
    first_due = None if oldest is None else _due(oldest, delivery)
    return Backlog(
        name=delivery,
        standing=int(row.standing),
        due=int(row.due),
        skipped=int(row.skipped),
        refused=int(row.refused),
        refusal=None if refusal is None else _due(refusal, delivery),
        newest_ms=row.newest_ms,
        oldest=first_due,
        held_by=() if first_due is None else tuple(_not_left(c, name, delivery, first_due, sides)),
    )


def _units(name: str, delivery: str) -> Any:
    """What has a generation in force: windows, or batches with rows of a side table."""
    side = side_of(delivery)
    if side:
        return side_units.versions(name, side)
    mine = and_(g.c.pipeline == name, g.c.state == CURRENT)
    return select(g.c.pipeline, g.c.window_ms, g.c.number, g.c.published_ms).where(mine).subquery()


def _in_force(u: Any, delivery: str) -> Any:
    """Generations in force with their rows of a delivery."""
    same = and_(d.c.pipeline == u.c.pipeline, d.c.name == delivery, d.c.window_ms == u.c.window_ms)
    told = (u.c.window_ms.label("at_ms"), u.c.number.label("number"), u.c.published_ms.label("published_ms"))
    return select(*told, d).select_from(u.outerjoin(d, same))


def _young(u: Any, since_ms: int | None) -> list[Any]:
    """Windows of before count once somebody has sent them, or has begun to."""
    return [] if since_ms is None else [or_(u.c.window_ms >= since_ms, d.c.generation.is_not(None))]


def _newest(c: Connection, name: str, delivery: str, window_ms: int) -> int | None:
    u = _units(name, delivery)
    found: int | None = c.scalar(select(u.c.number).where(u.c.window_ms == window_ms))
    return found


def _due(row: Any, delivery: str) -> Due:
    of, side = None if row.generation is None else _delivered(row), side_of(delivery)
    return Due(window_ms=row.at_ms, generation=row.number, published_ms=row.published_ms, row=of, side=side)


def all_of(c: Connection, name: str) -> list[Delivered]:
    """Every row of the pipeline, of deliveries that the YAML has no more, too."""
    return [_delivered(row) for row in c.execute(select(d).where(d.c.pipeline == name).order_by(d.c.window_ms))]


def _delivered(row: Any) -> Delivered:
    content = None if row.rows is None else Content(rows=int(row.rows), checksum=int(row.checksum))
    return read_as(Delivered, row, content=content)
