"""Generations that bring an earlier one's rows back: begun in one transaction that looks at both."""

from __future__ import annotations

from sqlalchemy import and_, func, select
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.instants import iso
from tidegate.core.files.receipt import LATE
from tidegate.core.replay.rollback import ROLLBACK, Known, Origin
from tidegate.core.window import transitions
from tidegate.core.window.states import CURRENT, DISCARDED, FORGOTTEN, RETIRED, WindowKey
from tidegate.ledger import moves, schema
from tidegate.ledger.comparison import lock
from tidegate.ledger.store import Part, insert_all, row_of, rows_of

g, x = schema.generations, schema.generation_batches


class SqlRollbacks(Part):
    """core.rollback.RollbackLedger."""

    def begin(self, name: str, key: WindowKey, current: int, origin: int, why: str) -> int:
        mine = and_(g.c.pipeline == name, g.c.window_ms == key.start_ms)
        with self._store.begin() as c:
            lock(c, name, key)
            newest = c.scalar(select(func.max(g.c.number)).where(mine, g.c.state != DISCARDED))
            in_force = c.scalar(select(g.c.number).where(mine, g.c.state == CURRENT))
            if not newest == in_force == current:
                raise LostComparison(f"generation {current} of {iso(key.start_ms)} is not the newest any more")
            old = row_of(c, g, pipeline=name, window_ms=key.start_ms, number=origin)
            if old is None or old.state != RETIRED or (old.cleaned_ms or old.cleaning_ms) is not None:
                raise LostComparison(f"generation {origin} of {iso(key.start_ms)} cannot be brought back any more")
            held = _batches(c, name, key, current)
            if _batches(c, name, key, origin).keys() != held.keys():
                raise LostComparison(f"generations {origin} and {current} of {iso(key.start_ms)} have other batches")
            number = (c.scalar(select(func.max(g.c.number)).where(mine)) or 0) + 1
            rows = sorted(i for i, kind in held if kind != LATE)
            step = transitions.begin(
                transitions.BEGIN, name, key, number, ROLLBACK, rows_of=origin, why=why, batches=rows
            )
            spec = FORGOTTEN if old.spec_version == FORGOTTEN else None
            moves.move(self._store, c, g, step, {"origin": origin, "why": why, "spec_version": spec})
            made = [{**step.row, "batch_id": i, "kind": kind, "cleared": done} for (i, kind), done in held.items()]
            insert_all(c, x, made)
        return number

    def generations(self, name: str, key: WindowKey) -> list[Known]:
        with self._store.begin() as c:
            found = rows_of(c, g, pipeline=name, window_ms=key.start_ms)
            held = {row.number: _batches(c, name, key, row.number) for row in found}
        return [
            Known(
                row.number,
                row.state,
                row.retired_ms,
                row.cleaned_ms,
                tuple(sorted(i for i, _ in held[row.number])),
                tuple(sorted(i for i, kind in held[row.number] if kind == LATE)),
                row.cleaning_ms,
                row.kind,
                row.origin,
            )
            for row in sorted(found, key=lambda row: row.number)
        ]

    def of(self, name: str, key: WindowKey, number: int) -> Origin | None:
        with self._store.begin() as c:
            row = row_of(c, g, pipeline=name, window_ms=key.start_ms, number=number)
        return None if row is None or row.origin is None else Origin(row.origin, row.why or "")


def _batches(c: Connection, name: str, key: WindowKey, number: int) -> dict[tuple[int, str], bool]:
    """(batch, kind of its rows) -> whether late files have left the late table."""
    made = rows_of(c, x, pipeline=name, window_ms=key.start_ms, number=number)
    return {(row.batch_id, row.kind): bool(row.cleared) for row in made}
