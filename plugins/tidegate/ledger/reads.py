"""Read-only queries for `tidegate status`, `explain`, `audit` and the board; each answer is of one instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.engine import Connection

from tidegate.core.batch.states import INGEST, LANDED, OPEN_STATES
from tidegate.core.look.views import Event, Overview, WindowView
from tidegate.core.window.states import WindowKey
from tidegate.ledger import rows, schema
from tidegate.ledger.reads_audit import AuditReads
from tidegate.ledger.reads_board import BoardReads
from tidegate.ledger.reads_rows import (
    batches_of,
    event,
    grouped,
    newest_event,
)
from tidegate.ledger.reads_rows import events as events_of
from tidegate.ledger.reads_survey import SurveyReads
from tidegate.ledger.reads_where import WhereReads
from tidegate.ledger.store import asked, row_of, rows_of

b, g = schema.batches, schema.generations


class SqlReads(AuditReads, WhereReads, SurveyReads, BoardReads):
    """core.views.LedgerReads on PostgreSQL or SQLite."""

    # ------------------------------------------------------------ pipelines

    def names(self) -> list[str]:
        with self._snapshot() as c:
            return list(c.scalars(select(schema.pipelines.c.name).order_by(schema.pipelines.c.name)))

    def spec_version(self, name: str, fingerprint: str) -> int | None:
        with self._snapshot() as c:
            row = row_of(c, schema.spec_versions, pipeline=name, fingerprint=fingerprint)
        return row and row.version

    def overviews(self, names: Collection[str], events: int = 5) -> dict[str, Overview]:
        return self._each(names, lambda c, some: self._overviews(c, some, events))

    def _overviews(self, c: Connection, names: Sequence[str], events: int) -> dict[str, Overview]:
        i = schema.intents
        batches, windows, generations = (_by_state(c, table, names) for table in (b, schema.windows, g))
        asking = select(i.c.pipeline, func.count()).where(i.c.pipeline.in_(names), self._unanswered)
        intents = {name: count for name, count in c.execute(asking.group_by(i.c.pipeline))}
        newest = _newest_batches(c, names)
        full, told, duties = (
            batches_of(c, sorted(set(newest.values()))),
            _newest_events(c, names, events),
            _duties(c, names),
        )
        return {
            name: Overview(
                batches=batches[name],
                windows=windows[name],
                generations=generations[name],
                intents=intents.get(name, 0),
                open_batch=full.get(newest.get((name, True), (name, 0))),
                newest_landed=full.get(newest.get((name, False), (name, 0))),
                side_duties=tuple(duties.get(name, ())),
                events=tuple(told.get(name, ())),
            )
            for name in names
        }

    def landed(self, name: str) -> list[tuple[int, int]]:
        statement = select(b.c.batch_id, b.c.landed_ms).where(
            b.c.pipeline == name, b.c.state == LANDED, b.c.kind == INGEST
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
        """The view with the files of its generations and the ranges of its batches."""
        with self._snapshot() as c:
            view = self._window_view(c, name, key, events)
            entries = rows_of(c, schema.generation_files, pipeline=name, window_ms=key.start_ms)
            full = batches_of(c, [(name, batch.batch_id) for batch in view.batches])
        files = grouped(entries, lambda f: f.number)
        made = (replace(g, files=tuple(map(rows.file_entry, files[g.number]))) for g in view.generations)
        return replace(view, generations=tuple(made), batches=tuple(full.values()))


# ---------------------------------------------------------------- rows


def _by_state(c: Connection, table: Any, names: Sequence[str]) -> dict[str, dict[str, int]]:
    counts = select(table.c.pipeline, table.c.state, func.count()).where(table.c.pipeline.in_(names))
    found: dict[str, dict[str, int]] = {name: {} for name in names}
    for name, state, count in c.execute(counts.group_by(table.c.pipeline, table.c.state).order_by(table.c.state)):
        found[name][state] = count
    return found


def _newest_batches(c: Connection, names: Sequence[str]) -> dict[tuple[str, bool], tuple[str, int]]:
    """Newest batches by pipeline and whether they are open: of all, and of those that have landed."""
    open_ = case((b.c.state == LANDED, 0), else_=1)
    newest = select(b.c.pipeline, open_, func.max(b.c.batch_id)).where(
        b.c.pipeline.in_(names), b.c.state.in_((*OPEN_STATES, LANDED))
    )
    return {(name, bool(is_open)): (name, i) for name, is_open, i in c.execute(newest.group_by(b.c.pipeline, open_))}


def _duties(c: Connection, names: Sequence[str]) -> dict[str, list[int]]:
    """LANDED batches whose side files are not in their tables yet."""
    mine = (b.c.pipeline.in_(names), b.c.state == LANDED, b.c.side_registered.is_(False))
    found: dict[str, list[int]] = defaultdict(list)
    for name, batch_id in c.execute(select(b.c.pipeline, b.c.batch_id).where(*mine).order_by(b.c.batch_id)):
        found[name].append(batch_id)
    return found


_EVENTS = """
WITH asked(pipeline) AS (VALUES {{rows}}), low AS (SELECT a.pipeline, coalesce((SELECT n.id FROM events AS n
WHERE n.pipeline = a.pipeline ORDER BY n.id DESC LIMIT 1 OFFSET {skip}), 0) AS id FROM asked AS a)
SELECT t.* FROM low JOIN events AS t ON t.pipeline = low.pipeline AND t.id >= low.id ORDER BY t.id DESC
"""


def _newest_events(c: Connection, names: Sequence[str], limit: int) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for x in asked(c, _EVENTS.format(skip=limit - 1), [(name,) for name in names]):
        found[x.pipeline].append(event(x))
    return found
