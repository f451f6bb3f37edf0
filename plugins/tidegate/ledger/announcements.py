"""What there is to tell of generations in force, and which of them are still untold."""

from __future__ import annotations

from typing import Any

from sqlalchemy import and_, distinct, exists, func, select
from sqlalchemy.engine import Connection

from tidegate.core.base.plain import loads
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.tell.announcement import Notice
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import CURRENT, WindowKey
from tidegate.ledger import schema
from tidegate.ledger.store import Part, row_of

g, w, t = schema.generations, schema.windows, schema.batch_window_totals
x, f = schema.generation_batches, schema.generation_files


class SqlAnnouncements(Part):
    """core.announcing.AnnouncementLedger."""

    def unannounced(self, name: str, published_from_ms: int, limit: int) -> list[tuple[int, int]]:
        mine = and_(g.c.pipeline == name, g.c.state == CURRENT, g.c.announced_ms.is_(None))
        statement = select(g.c.window_ms, g.c.number).where(mine, g.c.published_ms >= published_from_ms)
        with self._store.begin() as c:
            return [tuple(row) for row in c.execute(statement.order_by(g.c.published_ms, g.c.window_ms).limit(limit))]

    def notice(self, name: str, window_ms: int, number: int) -> Notice | None:
        with self._store.begin() as c:
            row = row_of(c, g, pipeline=name, window_ms=window_ms, number=number, state=CURRENT)
            window = row_of(c, w, pipeline=name, start_ms=window_ms)
            if row is None or window is None:
                return None
            certificate = row_of(c, schema.certificates, pipeline=name, window_ms=window_ms)
            first, last, batches = _span(c, x.c.batch_id, row)
            _, _, files = _span(c, f.c.path, row)
            partitions = select(func.count(distinct(f.c.partition_values))).where(_same(f, row))
            return Notice(
                window=WindowKey(window.start_ms, window.end_ms),
                number=number,
                kind=row.kind,
                rows=row.rows or 0,
                digest=row.digest or "",
                location=row.location or "",
                published_ms=row.published_ms,
                announced=row.announced_ms is not None,
                files=files,
                partitions=c.scalar(partitions) or 0,
                first_batch=first,
                last_batch=last,
                batches=batches,
                late_rows=_sum(c, t.c.rows, _totals(row, LATE)),
                taken_up=_sum(c, t.c.rows, _totals(row, LATE), _taken_up(row)),
                rerouted_rows=_sum(c, t.c.rerouted, _totals(row, DATA)),
                certificate=certificate and loads(Certificate, certificate.content),
            )


def _span(c: Connection, column: Any, row: Any) -> tuple[Any, Any, int]:
    """(smallest, largest, how many) in the generation."""
    where = _same(column.table, row)
    return tuple(c.execute(select(func.min(column), func.max(column), func.count()).where(where)).one())


def _same(table: Any, row: Any) -> Any:
    return and_(table.c.pipeline == row.pipeline, table.c.window_ms == row.window_ms, table.c.number == row.number)


def _totals(row: Any, kind: str) -> Any:
    return and_(t.c.pipeline == row.pipeline, t.c.window_ms == row.window_ms, t.c.kind == kind)


def _taken_up(row: Any) -> Any:
    return exists().where(_same(x, row), x.c.kind == LATE, x.c.batch_id == t.c.batch_id)


def _sum(c: Connection, column: Any, *where: Any) -> int:
    return int(c.scalar(select(func.sum(column)).where(*where)) or 0)
