"""Replays in the ledger: what has been rebuilt by which spec, and dry runs."""

from __future__ import annotations

from sqlalchemy import and_, exists, or_, select

from tidegate.core.clean.dry_runs import EVENT, NO_WINDOW, Rehearsal
from tidegate.core.replay.abandoned import OF_REPLAYS, Unfinished
from tidegate.core.window.states import CURRENT, DISCARDED, REPLAY, WindowKey
from tidegate.core.window.transitions import UNFINISHED
from tidegate.ledger import schema
from tidegate.ledger.store import Part, matched

g = schema.generations


class SqlReplays(Part):
    """core.rehearsing.ReplayLedger."""

    def rebuilt_by(self, name: str, spec_version: int) -> dict[int, int]:
        made = g.alias()
        joined = and_(matched(made, g, "window_ms"), made.c.number >= g.c.number)
        newer = g.alias()
        mine = and_(matched(newer, g, "window_ms"), newer.c.number > g.c.number)
        begun = exists().where(mine, newer.c.state.in_(UNFINISHED))
        same = or_(made.c.state == CURRENT, and_(made.c.state == DISCARDED, made.c.digest == g.c.digest))
        statement = (
            select(g.c.window_ms, g.c.number)
            .select_from(g.join(made, joined))
            .where(g.c.pipeline == name, g.c.state == CURRENT)
            .where(made.c.kind == REPLAY, made.c.spec_version == spec_version, same, ~begun)
        )
        with self._store.begin() as c:
            return {row.window_ms: row.number for row in c.execute(statement)}

    def unfinished(self, name: str) -> list[Unfinished]:
        working = g.c.state.in_(UNFINISHED), g.c.kind.in_(OF_REPLAYS)
        columns = g.c.window_ms, g.c.number, g.c.kind, g.c.state, g.c.began_ms
        statement = select(*columns).where(g.c.pipeline == name, *working).order_by(g.c.window_ms)
        with self._store.begin() as c:
            return [Unfinished(*row) for row in c.execute(statement)]

    def rehearsed(self, name: str, key: WindowKey | None, attempt: str) -> None:
        at = NO_WINDOW if key is None else key.start_ms
        with self._store.begin() as c:
            self._store.note(c, name, EVENT, Rehearsal(at).subject, {"attempt": attempt})
