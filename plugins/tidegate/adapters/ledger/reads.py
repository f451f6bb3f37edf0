"""Read-only queries for `tidegate status`, `explain`, `audit` and the board; each answer is of one instant."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import and_, func, select
from sqlalchemy.engine import Connection

from tidegate.adapters.ledger import rows, schema
from tidegate.adapters.ledger.store import Store, row_of, rows_of
from tidegate.core.balance import Balance
from tidegate.core.layout import window_id
from tidegate.core.ledger import Intent
from tidegate.core.offsets import Interval, OffsetRange, union
from tidegate.core.plain import from_plain
from tidegate.core.receipt import FileEntry
from tidegate.core.views import (
    BatchRow,
    Books,
    Event,
    GenerationRow,
    LossRow,
    Overview,
    RangeRow,
    WindowRow,
    WindowTotal,
    WindowView,
)
from tidegate.core.watermark import PartitionFacts, TopicFacts
from tidegate.core.window import CURRENT, WindowKey

b, g, r = schema.batches, schema.generations, schema.batch_ranges
_OPEN = ("PLANNED", "WRITING", "SEALED")
_COUNTS = ("read", "data", "late", "dirty", "filtered", "dropped")


class SqlReads:
    """core.views.LedgerReads on PostgreSQL or SQLite."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        """One instant for all that is asked inside. PostgreSQL's default would be an instant for each statement."""
        with self._store.begin() as c:
            if c.dialect.name == "postgresql":
                c.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield c

    @property
    def _unanswered(self) -> Any:
        """Intents that may still be executed: the catalogue refuses a request once its deadline has passed."""
        return schema.intents.c.deadline_ms > self._store.now_ms()

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
            losses, intents = schema.losses, schema.intents
            lost = select(func.sum(losses.c.end - losses.c.start)).where(losses.c.pipeline == name)
            return Overview(
                name,
                pipeline.topic_id,
                _by_state(c, b, name),
                _by_state(c, schema.windows, name),
                _by_state(c, g, name),
                _totals(c, name),
                _sum(c, select(func.sum(g.c.rows)).where(g.c.pipeline == name, g.c.state == CURRENT)),
                _sum(c, lost),
                _sum(c, select(func.count()).select_from(intents).where(intents.c.pipeline == name, self._unanswered)),
                _newest_batch(c, name, _OPEN),
                _newest_batch(c, name, ("LANDED",)),
                _planned_ends(c, name, pipeline.topic_id),
                tuple(_events(c, name, events, None)),
            )

    def landed(self, name: str) -> list[tuple[int, int]]:
        statement = select(b.c.batch_id, b.c.landed_ms).where(b.c.pipeline == name, b.c.state == "LANDED")
        with self._snapshot() as c:
            return [(row.batch_id, row.landed_ms) for row in c.execute(statement.order_by(b.c.batch_id))]

    def facts_after(self, name: str, batch_id: int) -> TopicFacts:
        with self._snapshot() as c:
            batch = row_of(c, b, pipeline=name, batch_id=batch_id, state="LANDED")
            parts = rows_of(c, schema.batch_partitions, pipeline=name, batch_id=batch_id) if batch else []
        if batch is None:
            return TopicFacts(None, None, ())
        facts = (
            PartitionFacts(p.partition, p.max_event_ms, bool(p.drained), p.advanced_ms, p.open_transaction_since_ms)
            for p in parts
        )
        return TopicFacts(batch_id, batch.clock_ms, tuple(facts))

    # ------------------------------------------------------------ events

    def events(self, name: str, limit: int, subject: str | None = None) -> list[Event]:
        with self._snapshot() as c:
            return _events(c, name, limit, subject)

    def newest_event(self, name: str) -> int:
        with self._snapshot() as c:
            return _newest_event(c, name)

    # ------------------------------------------------------------ one window

    def window(self, name: str, key: WindowKey, events: int = 20) -> WindowView:
        intents = schema.intents
        with self._snapshot() as c:
            row = row_of(c, schema.windows, pipeline=name, start_ms=key.start_ms)
            totals = [
                _window_total(t) for t in _all(c, schema.batch_window_totals, pipeline=name, window_ms=key.start_ms)
            ]
            generations = _generations(c, name, key.start_ms)
            ids = {t.batch_id for t in totals} | {i for one in generations for i in one.batches}
            asked = select(intents).where(
                intents.c.pipeline == name, intents.c.window_ms == key.start_ms, self._unanswered
            )
            return WindowView(
                row and _window(row),
                tuple(generations),
                tuple(totals),
                tuple(_batches(c, name, [_batch_where(name, i) for i in sorted(ids)])),
                tuple(Intent(i.call_id, key, i.location, i.deadline_ms) for i in c.execute(asked)),
                tuple(_events(c, name, events, f"window {window_id(key.start_ms)}")),
            )

    # ------------------------------------------------------------ everything

    def books(self, name: str) -> Books | None:
        with self._snapshot() as c:
            pipeline = row_of(c, schema.pipelines, name=name)
            if pipeline is None:
                return None
            files: dict[int, list[FileEntry]] = defaultdict(list)
            for f in _all(c, schema.batch_files, pipeline=name):
                files[f.batch_id].append(rows.file_entry(f))
            return Books(
                name,
                pipeline.next_batch_id,
                pipeline.topic_id,
                tuple(_batches(c, name, [b.c.pipeline == name])),
                {i: tuple(found) for i, found in files.items()},
                tuple(_window_total(t) for t in _all(c, schema.batch_window_totals, pipeline=name)),
                tuple(
                    LossRow(x.batch_id, x.partition, x.start, x.end, x.reason)
                    for x in _all(c, schema.losses, pipeline=name)
                ),
                {w.start_ms: _window(w) for w in _all(c, schema.windows, pipeline=name)},
                tuple(_generations(c, name, None)),
                _newest_event(c, name),
            )


# ---------------------------------------------------------------- rows


def _all(c: Connection, table: Any, **where: Any) -> Iterable[Any]:
    return rows_of(c, table, **where)


def _sum(c: Connection, statement: Any) -> int:
    return int(c.scalar(statement) or 0)


def _by_state(c: Connection, table: Any, name: str) -> dict[str, int]:
    statement = select(table.c.state, func.count()).where(table.c.pipeline == name).group_by(table.c.state)
    return {state: count for state, count in c.execute(statement.order_by(table.c.state))}


def _totals(c: Connection, name: str) -> Balance:
    """Over LANDED batches; gaps are what is left of the offsets, since the intervals are text."""
    landed = and_(b.c.pipeline == r.c.pipeline, b.c.batch_id == r.c.batch_id, b.c.state == "LANDED")
    sums = [func.sum(r.c.end - r.c.start), *(func.sum(r.c[k]) for k in _COUNTS)]
    row = c.execute(select(*sums).select_from(r.join(b, landed)).where(r.c.pipeline == name)).one()
    offsets, read, *kinds = (int(v or 0) for v in row)
    return Balance(offsets, read, offsets - read, *kinds)


def _newest_batch(c: Connection, name: str, states: tuple[str, ...]) -> BatchRow | None:
    newest = select(func.max(b.c.batch_id)).where(b.c.pipeline == name, b.c.state.in_(states))
    batch_id = c.scalar(newest)
    return None if batch_id is None else _batches(c, name, [_batch_where(name, batch_id)])[0]


def _batch_where(name: str, batch_id: int) -> Any:
    return and_(b.c.pipeline == name, b.c.batch_id == batch_id)


def _planned_ends(c: Connection, name: str, topic_id: str | None) -> dict[int, int]:
    newest = select(func.max(b.c.batch_id)).where(b.c.pipeline == name, b.c.topic_id == topic_id)
    batch_id = c.scalar(newest)
    found = rows_of(c, schema.batch_partitions, pipeline=name, batch_id=batch_id) if batch_id is not None else []
    return {p.partition: p.planned_end for p in found}


def _batches(c: Connection, name: str, wheres: list[Any]) -> list[BatchRow]:
    """With their ranges and partitions; one query of each table for each entry of `wheres`, which is of `batches`."""
    found: list[BatchRow] = []
    for where in wheres:
        listed = c.execute(select(b).where(where).order_by(b.c.batch_id)).all()
        one = {"batch_id": listed[0].batch_id} if len(listed) == 1 else {}
        ranges = _grouped(rows_of(c, r, pipeline=name, **one), lambda row: row.batch_id)
        parts = _grouped(rows_of(c, schema.batch_partitions, pipeline=name, **one), lambda row: row.batch_id)
        found += [_batch(row, ranges.get(row.batch_id, []), parts.get(row.batch_id, [])) for row in listed]
    return found


def _grouped(items: Iterable[Any], key: Callable[[Any], int]) -> dict[int, list[Any]]:
    groups: dict[int, list[Any]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def _batch(row: Any, ranges: list[Any], parts: list[Any]) -> BatchRow:
    names = (f for f in BatchRow.__dataclass_fields__ if f not in ("ranges", "ends", "log_starts"))
    values = {name: getattr(row, name) for name in names}
    values |= {"side_moved": bool(row.side_moved), "side_registered": bool(row.side_registered)}
    return BatchRow(
        **values,
        ranges=tuple(_range(row.topic, x) for x in ranges),
        ends={p.partition: p.planned_end for p in parts},
        log_starts={p.partition: p.log_start for p in parts},
    )


def _range(topic: str, row: Any) -> RangeRow:
    # a damaged row must not stop the audit that is there to report it
    planned = OffsetRange(topic, row.partition, row.start, max(row.start, row.end))
    if row.read is None:
        return RangeRow(planned, None)
    gaps = union(from_plain(Interval, i) for i in json.loads(row.gaps or "[]"))
    counts = {k: getattr(row, k) or 0 for k in _COUNTS}
    return RangeRow(planned, Balance(offsets=planned.count, gaps=sum(map(len, gaps)), **counts), gaps)


def _window(row: Any) -> WindowRow:
    return WindowRow(WindowKey(row.start_ms, row.end_ms), row.state, row.closing_batch, row.closed_ms, row.blocked)


def _window_total(row: Any) -> WindowTotal:
    return WindowTotal(row.window_ms, row.batch_id, row.kind, row.partition, row.rows, row.min_offset, row.max_offset)


def _generations(c: Connection, name: str, window_ms: int | None) -> list[GenerationRow]:
    """Of one window, or of all."""
    where: dict[str, Any] = {"pipeline": name} | ({} if window_ms is None else {"window_ms": window_ms})
    batches: dict[tuple[int, int], list[int]] = defaultdict(list)
    for x in _all(c, schema.generation_batches, **where):
        batches[x.window_ms, x.number].append(x.batch_id)
    files: dict[tuple[int, int], list[FileEntry]] = defaultdict(list)
    for f in _all(c, schema.generation_files, **where):
        files[f.window_ms, f.number].append(rows.file_entry(f))
    names = [f for f in GenerationRow.__dataclass_fields__ if f not in ("batches", "files")]
    return [
        GenerationRow(
            **{field: getattr(row, field) for field in names},
            batches=tuple(batches[row.window_ms, row.number]),
            files=tuple(files[row.window_ms, row.number]),
        )
        for row in _all(c, g, **where)
    ]


def _events(c: Connection, name: str, limit: int, subject: str | None) -> list[Event]:
    e = schema.events
    statement = select(e).where(e.c.pipeline == name)
    if subject is not None:
        statement = statement.where(e.c.subject == subject)
    found = c.execute(statement.order_by(e.c.id.desc()).limit(limit))
    return [Event(x.id, x.at_ms, x.actor, x.what, x.subject, json.loads(x.detail)) for x in found]


def _newest_event(c: Connection, name: str) -> int:
    e = schema.events
    return int(c.scalar(select(func.max(e.c.id)).where(e.c.pipeline == name)) or 0)
