"""Many pipelines in a few statements, whatever their number: the ground of measures and of the forecast of losses."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import and_, case, func, select
from sqlalchemy.engine import Connection

from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import from_plain, loads
from tidegate.core.batch.states import INGEST, OPEN_STATES
from tidegate.core.batch.totals import Spent, Sums, Totals
from tidegate.core.files.slow_path import Slow
from tidegate.core.look.survey import Counts, Landed, Published, Survey, WindowSteps
from tidegate.core.source.progress import BatchLook, Look, Progress
from tidegate.core.source.retention import HORIZON_MS
from tidegate.core.window.due import ArchiveNote
from tidegate.core.window.states import CURRENT
from tidegate.core.window.watermark import TopicFacts
from tidegate.ledger import schema
from tidegate.ledger.facts import NOTHING, partition_facts
from tidegate.ledger.late import lost_and_late
from tidegate.ledger.notices import audits_and_pauses, undelivered
from tidegate.ledger.reads_rows import Snapshots
from tidegate.ledger.totals import totals

b, g, r, p = schema.batches, schema.generations, schema.batch_ranges, schema.pipelines
parts, w = schema.batch_partitions, schema.windows
_LARGE = ("receipt", "floor", "gaps")
"""Columns that are not wanted here."""
_ALL = 2**62
NAMES, SPANS = 5_000, 5_000
"""Values in one statement; SQLite takes no more than about 32,000."""


class SurveyReads(Snapshots):
    """core.survey.SurveyLedger on PostgreSQL or SQLite."""

    def survey(self, names: Collection[str], now_ms: int) -> dict[str, Survey]:
        wanted = sorted(names)
        found: dict[str, Survey] = {}
        for at in range(0, len(wanted), NAMES):
            with self._snapshot() as c:
                found |= _survey(c, wanted[at : at + NAMES], now_ms)
        return found

    def progress(self, names: Collection[str], now_ms: int) -> dict[str, Progress]:
        wanted = sorted(names)
        found: dict[str, Progress] = {}
        for at in range(0, len(wanted), NAMES):
            with self._snapshot() as c:
                found |= {name: one for name, (one, _) in _progress(c, wanted[at : at + NAMES], now_ms).items()}
        return found

    def totals(self, names: Collection[str]) -> dict[str, Totals]:
        wanted = sorted(names)
        found: dict[str, Totals] = {}
        for at in range(0, len(wanted), NAMES):
            with self._snapshot() as c:
                found |= totals(c, wanted[at : at + NAMES])
        return found

    def window_steps(self, names: Collection[str]) -> dict[str, WindowSteps]:
        wanted = sorted(names)
        found: dict[str, WindowSteps] = {}
        for at in range(0, len(wanted), NAMES):
            with self._snapshot() as c:
                found |= _window_steps(c, wanted[at : at + NAMES])
        return found

    def landed_upto_each(self, upto: Mapping[str, int | None]) -> dict[str, Landed]:
        return self._landed("batch_id", {name: _ALL if i is None else i for name, i in upto.items()})

    def landed_before_each(self, upto_ms: Mapping[str, int]) -> dict[str, Landed]:
        return self._landed("landed_ms", upto_ms)

    def _landed(self, column: str, upto: Mapping[str, int]) -> dict[str, Landed]:
        wanted = sorted(upto.items())
        found: dict[str, Landed] = {}
        for at in range(0, len(wanted), SPANS):
            with self._snapshot() as c:
                found |= _landed_upto(c, column, wanted[at : at + SPANS])
        return found

    def published_within_each(self, wanted: Mapping[str, Sequence[Interval]]) -> dict[str, list[int]]:
        spans = [(name, part.start, part.end) for name, within in sorted(wanted.items()) for part in within]
        found: dict[str, list[int]] = {name: [] for name in wanted}
        for at in range(0, len(spans), SPANS):
            with self._snapshot() as c:
                for row in _published(c, spans[at : at + SPANS]):
                    found[row.pipeline].append(row.window_ms)
        return {name: sorted(starts) for name, starts in found.items()}


def _survey(c: Connection, names: Sequence[str], now_ms: int) -> dict[str, Survey]:
    sums, published = totals(c, names), _generations(c, names)
    waiting, notes = _waiting(c, names), _notes(c, names)
    lost, late = lost_and_late(c, names)
    (audits, pauses), untold = audits_and_pauses(c, names), undelivered(c, names)
    found, known = {}, _progress(c, names, now_ms)
    slow = _slow(c, [(name, one.landed.batch_id) for name, (one, _) in known.items() if one.landed is not None])
    for name, (progress, facts) in known.items():
        since, held = waiting.get(name, (None, 0))
        found[name] = Survey(
            progress,
            facts,
            _counts(sums[name]),
            published.get(name, Published()),
            notes.get(name),
            since,
            held,
            lost.get(name, 0),
            sums[name].steps,
            audits.get(name),
            untold.get(name, 0),
            late.get(name, 0),
            pauses.get(name),
            slow.get(name, ()),
        )
    return found


def _progress(c: Connection, names: Sequence[str], now_ms: int) -> dict[str, tuple[Progress, TopicFacts]]:
    """Also what readiness rests on, since it is the newest landed batch's too."""
    heads = c.execute(_heads(names, now_ms - HORIZON_MS)).all()
    pairs = sorted({(x.name, i) for x in heads for i in (x.newest, x.landed, x.base) if i is not None})
    batches = {(x.pipeline, x.batch_id): x for x in _of(c, b, pairs)}
    met: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in _of(c, parts, pairs):
        met[row.pipeline, row.batch_id].append(row)
    ranges = {(x.pipeline, x.batch_id, x.partition): x for x in _of(c, r, pairs)}

    def look(name: str, batch_id: int | None, topic_id: str | None) -> BatchLook | None:
        batch = batches.get((name, batch_id))
        if batch is None or batch.topic_id != topic_id:
            return None
        seen = {x.partition: _look(x, ranges.get((name, x.batch_id, x.partition))) for x in met[name, batch.batch_id]}
        return BatchLook(batch.batch_id, batch.state, batch.clock_ms, batch.landed_ms, seen)

    found = {}
    for head in heads:
        looks = (look(head.name, i, head.topic_id) for i in (head.newest, head.landed, head.base))
        found[head.name] = (Progress(head.topic_id, *looks), _facts(batches, met, head))
    return found


def _facts(batches: dict[Any, Any], met: dict[Any, list[Any]], head: Any) -> TopicFacts:
    landed = batches.get((head.name, head.landed))
    return NOTHING if landed is None else _left(landed, met[head.name, head.landed])


def _left(batch: Any, met: Sequence[Any]) -> TopicFacts:
    rows = sorted(met, key=lambda x: x.partition)
    return TopicFacts(batch.batch_id, batch.clock_ms, tuple(map(partition_facts, rows)))


def _landed_upto(c: Connection, column: str, wanted: Sequence[tuple[str, int]]) -> dict[str, Landed]:
    """One probe of an index for each pipeline."""
    statement = (
        "WITH asked(pipeline, upto) AS (VALUES {rows}) SELECT a.pipeline, (SELECT n.batch_id FROM batches AS n "
        f"WHERE n.pipeline = a.pipeline AND n.{column} <= a.upto AND n.state = 'LANDED' AND n.kind = '{INGEST}' "
        "ORDER BY n.batch_id DESC LIMIT 1) AS batch_id FROM asked AS a"
    )
    pairs = [(x.pipeline, x.batch_id) for x in asked(c, statement, wanted) if x.batch_id is not None]
    if not pairs:
        return {}
    batches = {(x.pipeline, x.batch_id): x for x in _of(c, b, pairs)}
    met: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in _of(c, parts, pairs):
        met[row.pipeline, row.batch_id].append(row)
    return {name: Landed(i, batches[name, i].landed_ms, _left(batches[name, i], met[name, i])) for name, i in pairs}


def _heads(names: Sequence[str], landed_before_ms: int) -> Any:
    """For each pipeline the batches that tell its position and pace (core.progress); each is one probe of an index."""

    def one(*where: Any, oldest: bool = False) -> Any:
        n = b.alias()
        order = n.c.batch_id if oldest else n.c.batch_id.desc()
        found = select(n.c.batch_id).where(n.c.kind == INGEST, *(w(n) for w in where)).order_by(order).limit(1)
        return found.scalar_subquery()

    def landed(n: Any) -> Any:
        return n.c.state == "LANDED"

    heads = (
        select(
            p.c.name,
            p.c.topic_id,
            one(lambda n: n.c.pipeline == p.c.name, lambda n: n.c.topic_id == p.c.topic_id).label("newest"),
            one(lambda n: n.c.pipeline == p.c.name, landed).label("landed"),
        )
        .where(p.c.name.in_(names))
        .cte("heads")
    )

    def before(n: Any) -> Any:
        same = and_(n.c.pipeline == heads.c.name, n.c.topic_id == heads.c.topic_id)
        return and_(same, n.c.batch_id < heads.c.landed)

    base = func.coalesce(
        one(before, landed, lambda n: n.c.landed_ms <= landed_before_ms), one(before, landed, oldest=True)
    )
    return select(heads.c.name, heads.c.topic_id, heads.c.newest, heads.c.landed, base.label("base"))


def _of(c: Connection, table: Any, pairs: Sequence[tuple[str, int]]) -> list[Any]:
    """The rows of `table` that belong to these batches. Joined with the pairs as rows: any other way to say it makes
    PostgreSQL walk over the whole table."""
    columns = ", ".join(f't."{x.name}"' for x in table.c if x.name not in _LARGE)
    statement = (
        f"WITH asked(pipeline, batch_id) AS (VALUES {{rows}}) SELECT {columns} FROM asked AS a "
        f"JOIN {table.name} AS t ON t.pipeline = a.pipeline AND t.batch_id = a.batch_id"
    )
    return [row for at in range(0, len(pairs), SPANS) for row in asked(c, statement, pairs[at : at + SPANS])]


def asked(c: Connection, statement: str, values: Sequence[tuple[Any, ...]]) -> list[Any]:
    """`statement` with these rows in place of `{rows}`."""
    mark = "?" if c.dialect.paramstyle == "qmark" else "%s"
    row = f"({', '.join([mark] * len(values[0]))})"
    sql = statement.format(rows=", ".join([row] * len(values)))
    return list(c.exec_driver_sql(sql, tuple(value for one in values for value in one)))


def _look(part: Any, planned: Any | None) -> Look:
    """A partition without a range had nothing new."""
    if planned is None:
        start, read, size, newest = part.planned_end, 0, 0, None
    else:
        start, read, size, newest = planned.start, planned.read or 0, planned.bytes or 0, planned.max_kafka_ms
    return Look(
        start,
        part.planned_end,
        part.log_start,
        part.high_watermark,
        read,
        size,
        newest,
        part.open_transaction_since_ms,
        part.last_stable_offset,
    )


def _counts(sums: Totals) -> Counts:
    mine = {f.name: getattr(sums.ingested, f.name) for f in fields(Sums)}
    return Counts(**mine, dirty_now=sums.dirty_now)


def _generations(c: Connection, names: Sequence[str]) -> dict[str, Published]:
    current = and_(g.c.pipeline.in_(names), g.c.state == CURRENT)
    totals = (
        select(g.c.pipeline, func.count().label("windows"), func.sum(g.c.rows).label("rows"))
        .add_columns(func.max(g.c.window_ms).label("newest"))
        .where(current)
        .group_by(g.c.pipeline)
        .subquery()
    )
    first = and_(g.c.pipeline == totals.c.pipeline, g.c.window_ms == totals.c.newest, g.c.number == 1)
    statement = select(totals, g.c.published_ms).select_from(totals.outerjoin(g, first))
    return {x.pipeline: Published(x.windows, int(x.rows or 0), x.newest, x.published_ms) for x in c.execute(statement)}


def _window_steps(c: Connection, names: Sequence[str]) -> dict[str, WindowSteps]:
    """What was restored from storage's records has no beginning, and is not counted."""
    closing = _spent("ready", w.c.closed_ms, w.c.end_ms)
    closed = select(w.c.pipeline, *closing).where(w.c.pipeline.in_(names)).group_by(w.c.pipeline)
    first = and_(g.c.number == 1, g.c.published_ms.is_not(None))
    made = select(
        g.c.pipeline,
        *_spent("assemble", g.c.built_ms, g.c.began_ms),
        *_spent("publish", case((g.c.began_ms.is_not(None), g.c.published_ms)), g.c.built_ms),
        *_spent("delay", case((first, g.c.published_ms)), w.c.end_ms),
    ).select_from(g.join(w, and_(w.c.pipeline == g.c.pipeline, w.c.start_ms == g.c.window_ms)))
    made = made.where(g.c.pipeline.in_(names), g.c.published_ms.is_not(None)).group_by(g.c.pipeline)
    found: dict[str, dict[str, Spent]] = defaultdict(dict)
    for statement, steps in ((closed, ("ready",)), (made, ("assemble", "publish", "delay"))):
        for row in c.execute(statement).mappings():
            for step in steps:
                found[row["pipeline"]][step] = Spent(int(row[f"{step}_ms"] or 0), int(row[f"{step}_n"] or 0))
    return {name: WindowSteps(**steps) for name, steps in found.items()}


def _spent(step: str, end: Any, start: Any) -> tuple[Any, Any]:
    took = end - start
    return func.sum(case((took > 0, took), else_=0)).label(f"{step}_ms"), func.count(took).label(f"{step}_n")


def _waiting(c: Connection, names: Sequence[str]) -> dict[str, tuple[int | None, int]]:
    """When the open batch was planned, and how many batches, windows and cut logs wait for a human."""
    held = case((b.c.blocked.is_not(None) | b.c.refused.is_not(None), 1), else_=0)
    batches = select(b.c.pipeline, func.min(b.c.planned_ms), func.sum(held))
    batches = batches.where(b.c.pipeline.in_(names), b.c.state.in_(OPEN_STATES)).group_by(b.c.pipeline)
    found = {name: (since, int(count or 0)) for name, since, count in c.execute(batches)}
    windows = select(w.c.pipeline, func.count()).where(w.c.pipeline.in_(names), w.c.blocked.is_not(None))
    k = schema.log_cuts
    cuts = select(k.c.pipeline, func.count()).where(k.c.pipeline.in_(names))
    for name, count in [*c.execute(windows.group_by(w.c.pipeline)), *c.execute(cuts.group_by(k.c.pipeline))]:
        since, before = found.get(name, (None, 0))
        found[name] = (since, before + count)
    return found


def _slow(c: Connection, landed: Sequence[tuple[str, int]]) -> dict[str, tuple[Slow, ...]]:
    """From receipts; the database takes them apart, for they are large."""
    sqlite = c.dialect.name == "sqlite"
    part = "json_extract(t.receipt, '$.slow')" if sqlite else "CAST(t.receipt AS json) ->> 'slow'"
    statement = (
        f"WITH asked(pipeline, batch_id) AS (VALUES {{rows}}) SELECT a.pipeline, {part} AS slow FROM asked AS a "
        "JOIN batches AS t ON t.pipeline = a.pipeline AND t.batch_id = a.batch_id"
    )
    rows = [row for at in range(0, len(landed), SPANS) for row in asked(c, statement, landed[at : at + SPANS])]
    return {x.pipeline: from_plain(tuple[Slow, ...], json.loads(x.slow)) for x in rows if x.slow}


def _notes(c: Connection, names: Sequence[str]) -> dict[str, ArchiveNote]:
    n = schema.archive_notes
    return {x.pipeline: loads(ArchiveNote, x.content) for x in c.execute(select(n).where(n.c.pipeline.in_(names)))}


def _published(c: Connection, spans: Sequence[tuple[str, int, int]]) -> list[Any]:
    """The state is compared here: in WHERE it would tempt SQLite to walk over every published window by its index."""
    statement = (
        "WITH asked(pipeline, low, high) AS (VALUES {rows}) "
        "SELECT g.pipeline, g.window_ms, g.state FROM asked AS a JOIN generations AS g "
        "ON g.pipeline = a.pipeline AND g.window_ms >= a.low AND g.window_ms < a.high"
    )
    return [row for row in asked(c, statement, spans) if row.state == CURRENT]
