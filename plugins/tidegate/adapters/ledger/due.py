"""What the maintenance DAG remembers of a pipeline's windows, so that what is due costs no walk over all of them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, insert, or_, select, update

from tidegate.adapters.ledger import schema
from tidegate.adapters.ledger.store import Store, row_of
from tidegate.core.due import ArchiveNote
from tidegate.core.errors import LostComparison
from tidegate.core.offsets import Interval
from tidegate.core.plain import dumps, loads
from tidegate.core.window import CURRENT

n, g = schema.archive_notes, schema.generations


class SqlDue:
    """core.due.DueLedger on PostgreSQL or SQLite."""

    def __init__(self, store: Store) -> None:
        self._store = store

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
