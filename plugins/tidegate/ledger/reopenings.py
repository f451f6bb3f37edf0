"""Which batches a generation is made of; late rows that wait, or whose files still have to leave the late table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import and_, exists, func, literal_column, select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.transition import Step
from tidegate.core.batch.states import LANDED, OVER_STATES
from tidegate.core.batch.transitions import SHOW_AGAIN
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.late.reopen import LateBatch, LateWindow, Unfinished
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import CURRENT, DISCARDED, FORGOTTEN, REOPEN, WindowKey
from tidegate.core.window.transitions import BEGIN, TAKE, UNFINISHED
from tidegate.ledger import moves, schema
from tidegate.ledger.store import Part, Store, asked, insert_all, matched, row_of, rows_of, scalar

b, g, t, x = schema.batches, schema.generations, schema.batch_window_totals, schema.generation_batches
_BEGUN = (BEGIN.event, TAKE.event)


class SqlReopenings(Part):
    """core.ledger.ReopenLedger."""

    def candidates(self, name: str, window_ms: int | None = None, since_ms: int | None = None) -> list[LateWindow]:
        with self._store.begin() as c:
            return candidates(c, [name], window_ms, since_ms).get(name, [])

    def duties(self, name: str) -> list[tuple[int, int, int]]:
        with self._store.begin() as c:
            return duties(c, name)

    def unfinished(self, name: str) -> list[Unfinished]:
        w = schema.windows
        mine = and_(g.c.pipeline == name, g.c.state.in_(UNFINISHED), g.c.kind == REOPEN)
        statement = (
            select(g.c.window_ms, g.c.number, g.c.state)
            .select_from(g.join(w, and_(w.c.pipeline == g.c.pipeline, w.c.start_ms == g.c.window_ms)))
            .where(mine, w.c.blocked.is_(None))
        )
        with self._store.begin() as c:
            found = c.execute(statement.order_by(g.c.window_ms)).all()
            return [Unfinished(x.window_ms, x.number, x.state, _begun_ms(c, name, x.window_ms)) for x in found]

    def cleared(self, name: str, window_ms: int, number: int, batch_id: int) -> None:
        mine = and_(x.c.pipeline == name, x.c.window_ms == window_ms, x.c.number == number, x.c.batch_id == batch_id)
        change = update(x).where(mine, x.c.kind == LATE, x.c.cleared.is_(False)).values(cleared=True)
        with self._store.begin() as c:
            if c.execute(change).rowcount:
                detail = {"batch": batch_id, "generation": number}
                self._store.note(c, name, "late files set aside", f"window {window_id(window_ms)}", detail)


def _begun_ms(c: Connection, name: str, window_ms: int) -> int | None:
    e = schema.events
    mine = and_(e.c.pipeline == name, e.c.subject == f"window {window_id(window_ms)}", e.c.what.in_(_BEGUN))
    return scalar(c, select(func.max(e.c.at_ms)).where(mine), int)


def unfinished_below(c: Connection, name: str, batch_id: int) -> list[int]:
    """R5: batches planned before this one that may still bring rows to a window."""
    below = and_(b.c.pipeline == name, b.c.batch_id < batch_id, b.c.state.not_in(OVER_STATES))
    return list(c.scalars(select(b.c.batch_id).where(below).order_by(b.c.batch_id)))


def contributors(c: Connection, name: str, window_ms: int) -> list[int]:
    """Batches with data rows of the window."""
    statement = select(t.c.batch_id).where(t.c.pipeline == name, t.c.window_ms == window_ms, t.c.kind == DATA)
    return sorted(set(c.scalars(statement)))


def insert_building(
    store: Store,
    c: Connection,
    step: Step[None],
    batches: Iterable[int],
    late: Mapping[int, bool] = MappingProxyType({}),
    content: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """A generation that begins. `late`: batches that came late -> whether their files have left the late table."""
    moves.move(store, c, g, step, content)
    made = [{**step.row, "batch_id": i, "kind": DATA, "cleared": False} for i in batches]
    made += [{**step.row, "batch_id": i, "kind": LATE, "cleared": done} for i, done in late.items()]
    insert_all(c, x, made)


def forgotten(c: Connection, name: str, key: WindowKey, number: int) -> int | None:
    """FORGOTTEN for a generation of such rows: what takes them over has it too; else None."""
    row = row_of(c, g, pipeline=name, window_ms=key.start_ms, number=number)
    return FORGOTTEN if row is not None and row.spec_version == FORGOTTEN else None


def duties(c: Connection, name: str) -> list[tuple[int, int, int]]:
    """See core.reopening.ReopenLedger."""
    statement = (
        select(x.c.window_ms, x.c.number, x.c.batch_id)
        .select_from(x.join(g, matched(g, x, "window_ms", "number")))
        .where(x.c.pipeline == name, x.c.kind == LATE, x.c.cleared.is_(False), g.c.state == CURRENT)
    )
    return [tuple(row) for row in c.execute(statement.order_by(x.c.window_ms, x.c.batch_id))]


def carried(c: Connection, name: str, key: WindowKey, number: int) -> dict[int, bool]:
    """Batches whose late rows a generation holds -> whether their files have left the late table."""
    made = rows_of(c, x, pipeline=name, window_ms=key.start_ms, number=number, kind=LATE)
    return {row.batch_id: bool(row.cleared) for row in made}


def show_again(store: Store, c: Connection, name: str, key: WindowKey, late: Iterable[int]) -> None:
    """Late rows that no generation in force holds are due in the late table again (R13): a swap that a database has
    forgotten may have taken them out. Adding what is there changes nothing."""
    current = c.scalar(
        select(g.c.number).where(g.c.pipeline == name, g.c.window_ms == key.start_ms, g.c.state == CURRENT)
    )
    due = sorted(set(late) - set(carried(c, name, key, current or 0)))
    if due:
        which = (b.c.pipeline == name, b.c.batch_id.in_(due))
        moves.move_all(store, c, b, SHOW_AGAIN, *which, sets={"side_registered": False})


def settled(c: Connection, name: str, key: WindowKey, taken: Iterable[int]) -> list[int]:
    """Other LANDED batches with late rows of the window that are in the late table, by the ledger."""
    statement = (
        select(t.c.batch_id)
        .select_from(t.join(b, matched(b, t, "batch_id")))
        .where(t.c.pipeline == name, t.c.window_ms == key.start_ms, t.c.kind == LATE)
        .where(b.c.state == LANDED, b.c.side_moved.is_(True), b.c.side_registered.is_(True))
    )
    return sorted(set(c.scalars(statement)) - set(taken))


def candidates(
    c: Connection, names: Sequence[str], window_ms: int | None = None, since_ms: int | None = None
) -> dict[str, list[LateWindow]]:
    """See core.late.reopen.ReopenLedger; of many pipelines: three statements."""
    held = (matched(g, x, "window_ms", "number"), x.c.batch_id == t.c.batch_id, x.c.kind == LATE)
    taken_up = exists().where(matched(g, t, "window_ms"), g.c.state == CURRENT, *held)
    moved = and_(b.c.side_moved.is_(True), b.c.side_registered.is_(True)).label("settled")
    whose = (t.c.pipeline, t.c.window_ms, t.c.batch_id)
    statement = (
        select(*whose, func.sum(t.c.rows).label("rows"), b.c.landed_ms, moved)
        .select_from(t.join(b, matched(b, t, "batch_id")))
        .where(t.c.pipeline.in_(names), literal_column("batch_window_totals.kind = 'late'"), b.c.state == LANDED)
        .where(~taken_up)
        .group_by(*whose, b.c.landed_ms, b.c.side_moved, b.c.side_registered)
        .order_by(*whose)
    )
    if window_ms is not None:
        statement = statement.where(t.c.window_ms == window_ms)
    if since_ms is not None:
        statement = statement.where(t.c.window_ms >= since_ms)
    late: dict[tuple[str, int], list[LateBatch]] = defaultdict(list)
    for row in c.execute(statement):
        batch = LateBatch(row.batch_id, int(row.rows), row.landed_ms, bool(row.settled))
        late[row.pipeline, row.window_ms].append(batch)
    made: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in asked(c, _GENERATIONS, list(late)):
        made[row.pipeline, row.window_ms].append(row)
    blocked = {(row.pipeline, row.start_ms): row.blocked for row in asked(c, _BLOCKED, list(late))}
    found: dict[str, list[LateWindow]] = defaultdict(list)
    for (name, start_ms), batches in late.items():
        found[name].append(_window(start_ms, batches, made[name, start_ms], blocked.get((name, start_ms))))
    return found


_ASKED = "WITH asked(pipeline, window_ms) AS (VALUES {rows}) "
_GENERATIONS = (
    f"{_ASKED}SELECT t.pipeline, t.window_ms, t.number, t.state, t.kind FROM asked AS a "
    "JOIN generations AS t ON t.pipeline = a.pipeline AND t.window_ms = a.window_ms"
)
_BLOCKED = (
    f"{_ASKED}SELECT t.pipeline, t.start_ms, t.blocked FROM asked AS a "
    "JOIN windows AS t ON t.pipeline = a.pipeline AND t.start_ms = a.window_ms"
)


def _window(start_ms: int, batches: list[LateBatch], made: list[Any], blocked: str | None) -> LateWindow:
    current = next((row.number for row in made if row.state == CURRENT), None)
    reopenings = [row for row in made if row.kind == REOPEN]
    return LateWindow(
        start_ms=start_ms,
        batches=tuple(batches),
        current=current,
        reopened=sum(row.state != DISCARDED for row in reopenings),
        working=any(row.state in UNFINISHED for row in made),
        blocked=blocked,
        refused=sum(row.state == DISCARDED and row.number > (current or 0) for row in reopenings),
    )
