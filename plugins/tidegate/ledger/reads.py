"""Read-only queries for `tidegate status`, `explain`, `audit` and the board; each answer is of one instant."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.engine import Connection

from tidegate.core.batch.states import INGEST, OPEN_STATES
from tidegate.core.files.receipt import FileEntry
from tidegate.core.look.views import LATELY_MS, BatchRow, Event, GenerationRow, Overview, WindowView
from tidegate.core.target.intents import Intent
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import ARCHIVE, CURRENT, WindowKey
from tidegate.ledger import rows, schema
from tidegate.ledger.ends import planned_ends
from tidegate.ledger.late import lost_and_late
from tidegate.ledger.pauses import standing
from tidegate.ledger.reads_audit import AuditReads
from tidegate.ledger.reads_board import BoardReads
from tidegate.ledger.reads_rows import (
    batches,
    generation_row,
    grouped,
    newest_event,
    window_row,
    window_total,
)
from tidegate.ledger.reads_rows import events as events_of
from tidegate.ledger.reads_survey import SurveyReads
from tidegate.ledger.reads_where import WhereReads
from tidegate.ledger.store import row_of, rows_of
from tidegate.ledger.totals import totals

b, g = schema.batches, schema.generations


class SqlReads(AuditReads, WhereReads, SurveyReads, BoardReads):
    """core.views.LedgerReads on PostgreSQL or SQLite."""

    @property
    def _unanswered(self) -> Any:
        """Intents that may still be executed: the catalogue refuses a request once its deadline has passed."""
        return schema.intents.c.deadline_ms > self._store.instant

    # ------------------------------------------------------------ pipelines

    def names(self) -> list[str]:
        with self._snapshot() as c:
            return list(c.scalars(select(schema.pipelines.c.name).order_by(schema.pipelines.c.name)))

    def spec_version(self, name: str, fingerprint: str) -> int | None:
        with self._snapshot() as c:
            row = row_of(c, schema.spec_versions, pipeline=name, fingerprint=fingerprint)
        return row and row.version

    def overview(self, name: str, events: int = 5) -> Overview | None:
        with self._snapshot() as c:
            pipeline = row_of(c, schema.pipelines, name=name)
            if pipeline is None:
                return None
            intents = schema.intents
            lost, late = lost_and_late(c, [name])
            published_rows, lately = self._published(c, name)
            return Overview(
                name,
                pipeline.topic_id,
                _by_state(c, b, name),
                _by_state(c, schema.windows, name),
                _by_state(c, g, name),
                totals(c, [name])[name].balance,
                published_rows,
                lost.get(name, 0),
                _sum(c, select(func.count()).select_from(intents).where(intents.c.pipeline == name, self._unanswered)),
                _newest_batch(c, name, OPEN_STATES),
                _newest_batch(c, name, ("LANDED",)),
                planned_ends(c, name, pipeline.topic_id),
                tuple(events_of(c, name, events, None)),
                late.get(name, 0),
                standing(c, name),
                lately,
            )

    def _published(self, c: Connection, name: str) -> tuple[int, int]:
        """Of the generations in force: rows, and how many are windows' first ones and new."""
        new = (g.c.kind == ARCHIVE) & (g.c.published_ms + LATELY_MS > self._store.instant)
        asked = select(func.sum(g.c.rows), func.sum(case((new, 1), else_=0)))
        rows_, lately = c.execute(asked.where(g.c.pipeline == name, g.c.state == CURRENT)).one()
        return int(rows_ or 0), int(lately or 0)

    def landed(self, name: str) -> list[tuple[int, int]]:
        statement = select(b.c.batch_id, b.c.landed_ms).where(
            b.c.pipeline == name, b.c.state == "LANDED", b.c.kind == INGEST
        )
        with self._snapshot() as c:
            return [(row.batch_id, row.landed_ms) for row in c.execute(statement.order_by(b.c.batch_id))]

    # ------------------------------------------------------------ events

    def events(self, name: str, limit: int, subject: str | None = None) -> list[Event]:
        with self._snapshot() as c:
            return events_of(c, name, limit, subject)

    def newest_event(self, name: str) -> int:
        with self._snapshot() as c:
            return newest_event(c, name)

    # ------------------------------------------------------------ one window

    def window(self, name: str, key: WindowKey, events: int = 20) -> WindowView:
        intents = schema.intents
        with self._snapshot() as c:
            row = row_of(c, schema.windows, pipeline=name, start_ms=key.start_ms)
            totals = [
                window_total(t) for t in rows_of(c, schema.batch_window_totals, pipeline=name, window_ms=key.start_ms)
            ]
            generations = _generations(c, name, key.start_ms)
            ids = {t.batch_id for t in totals} | {i for one in generations for i in one.batches}
            asked = select(intents).where(
                intents.c.pipeline == name, intents.c.window_ms == key.start_ms, self._unanswered
            )
            asked = asked.order_by(intents.c.deadline_ms, intents.c.call_id)
            return WindowView(
                row and window_row(row),
                tuple(generations),
                tuple(totals),
                tuple(batch for i in sorted(ids) for batch in batches(c, name, i, i)),
                tuple(Intent(i.call_id, key, i.location, i.deadline_ms) for i in c.execute(asked)),
                tuple(events_of(c, name, events, f"window {window_id(key.start_ms)}")),
            )


# ---------------------------------------------------------------- rows


def _sum(c: Connection, statement: Any) -> int:
    return int(c.scalar(statement) or 0)


def _by_state(c: Connection, table: Any, name: str) -> dict[str, int]:
    statement = select(table.c.state, func.count()).where(table.c.pipeline == name).group_by(table.c.state)
    return {state: count for state, count in c.execute(statement.order_by(table.c.state))}


def _newest_batch(c: Connection, name: str, states: tuple[str, ...]) -> BatchRow | None:
    newest = select(func.max(b.c.batch_id)).where(b.c.pipeline == name, b.c.state.in_(states))
    batch_id = c.scalar(newest)
    return None if batch_id is None else batches(c, name, batch_id, batch_id)[0]


def _generations(c: Connection, name: str, window_ms: int) -> list[GenerationRow]:
    """Of one window, with all their files."""
    where: dict[str, Any] = {"pipeline": name, "window_ms": window_ms}
    made = grouped(rows_of(c, schema.generation_batches, **where), lambda x: x.number)
    files: dict[int, list[FileEntry]] = defaultdict(list)
    for f in rows_of(c, schema.generation_files, **where):
        files[f.number].append(rows.file_entry(f))
    return [generation_row(row, made[row.number], files[row.number]) for row in rows_of(c, g, **where)]
