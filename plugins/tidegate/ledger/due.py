"""What the maintenance DAG remembers of a pipeline's windows, so that what is due costs no walk over all of them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, exists, func, insert, or_, select, update

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import dumps, loads
from tidegate.core.files.receipt import DATA
from tidegate.core.window.due import ArchiveNote
from tidegate.core.window.states import CURRENT
from tidegate.ledger import schema
from tidegate.ledger.store import Part, matched, row_of

n, g = schema.archive_notes, schema.generations
t, w, f = schema.batch_window_totals, schema.windows, schema.generation_files


class SqlDue(Part):
    """core.due.DueLedger on PostgreSQL or SQLite."""

    def note(self, name: str) -> ArchiveNote | None:
        with self._store.begin() as c:
            row = row_of(c, n, pipeline=name)
        return None if row is None else loads(ArchiveNote, row.content)

    def save(self, name: str, note: ArchiveNote, old: ArchiveNote | None) -> None:
        with self._store.begin() as c:
            if old is None:
                c.execute(insert(n).values(pipeline=name, content=dumps(note)))
                return
            row = row_of(c, n, pipeline=name)
            if row is None or loads(ArchiveNote, row.content) != old:
                raise LostComparison(f"the note on {name}: somebody else has looked since")
            mine = and_(n.c.pipeline == name, n.c.content == row.content)
            self._store.compare_and_set(c, update(n).where(mine).values(content=dumps(note)), f"the note on {name}")

    def published_within(self, name: str, parts: Sequence[Interval]) -> list[int]:
        if not parts:
            return []
        within = or_(*(and_(g.c.window_ms >= part.start, g.c.window_ms < part.end) for part in parts))
        # the state is compared here: in WHERE it would tempt SQLite to walk over every published window by its index
        statement = select(g.c.window_ms, g.c.state).where(g.c.pipeline == name, within)
        with self._store.begin() as c:
            return sorted(row.window_ms for row in c.execute(statement) if row.state == CURRENT)

    def rows_within(self, name: str, part: Interval) -> dict[int, int]:
        rows = (
            select(func.coalesce(func.sum(f.c.rows), 0))
            .where(matched(f, g, "window_ms", "number"))
            .scalar_subquery()
            .label("rows")
        )
        within = and_(g.c.window_ms >= part.start, g.c.window_ms < part.end)
        statement = select(g.c.window_ms, g.c.state, rows).where(g.c.pipeline == name, within)
        with self._store.begin() as c:
            return {row.window_ms: int(row.rows) for row in c.execute(statement) if row.state == CURRENT}

    def located(self, name: str, part: Interval, location: str) -> list[int]:
        within = and_(g.c.window_ms >= part.start, g.c.window_ms < part.end)
        with self._store.begin() as c:
            return sorted(
                set(c.scalars(select(g.c.window_ms).where(g.c.pipeline == name, within, g.c.location == location)))
            )

    def unpublished(self, name: str) -> list[int]:
        mine = t.c.pipeline == name
        # from each window to the next by the index: DISTINCT would read the rows of all batches
        seen = select(func.min(t.c.window_ms).label("at")).where(mine).cte("seen", recursive=True)
        following = select(func.min(t.c.window_ms)).where(mine, t.c.window_ms > seen.c.at).scalar_subquery()
        seen = seen.union_all(select(following).where(seen.c.at.is_not(None)))
        data = exists().where(mine, t.c.window_ms == seen.c.at, t.c.kind == DATA)
        in_force = exists().where(g.c.pipeline == name, g.c.window_ms == seen.c.at, g.c.state == CURRENT)
        with self._store.begin() as c:
            return sorted(c.scalars(select(seen.c.at).where(seen.c.at.is_not(None), data, ~in_force)))

    def starts_within(self, name: str, first_ms: int, last_ms: int) -> list[int]:
        landed = select(t.c.window_ms).where(
            t.c.pipeline == name, t.c.kind == DATA, t.c.window_ms.between(first_ms, last_ms)
        )
        begun = select(w.c.start_ms).where(w.c.pipeline == name, w.c.start_ms.between(first_ms, last_ms))
        with self._store.begin() as c:
            return sorted(set(c.scalars(landed.distinct())) | set(c.scalars(begun)))
