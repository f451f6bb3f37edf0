"""Many pipelines in a few statements, whatever their number: the ground of measures and of the forecast of losses."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import and_, case, exists, func, select
from sqlalchemy.engine import Connection

from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import from_plain, loads
from tidegate.core.batch.states import ABANDONED, INGEST, LANDED, OPEN_STATES, SEALED, BatchState
from tidegate.core.batch.totals import Spent, Totals
from tidegate.core.copy.rounds import Reading
from tidegate.core.daily.purge import KeptOut
from tidegate.core.deliver.states import Backlog
from tidegate.core.deliver.units import sides_beside
from tidegate.core.files.slow_path import Slow
from tidegate.core.late.reopen import LateWindow
from tidegate.core.look.survey import LATELY_MS, Head, Landed, Published, Survey, WindowSteps
from tidegate.core.mirror.applies import Merging
from tidegate.core.replay.abandoned import OF_REPLAYS, Unfinished
from tidegate.core.source.loss_forecast import HORIZON_MS
from tidegate.core.source.progress import BatchLook, Look, Progress
from tidegate.core.spec.pipeline import Delivery
from tidegate.core.window.answer import Answer
from tidegate.core.window.due import ArchiveNote
from tidegate.core.window.states import ARCHIVE, CURRENT
from tidegate.core.window.transitions import UNFINISHED
from tidegate.core.window.watermark import TopicFacts
from tidegate.ledger import applies, copies, deliveries, schema
from tidegate.ledger.applies import kept_out
from tidegate.ledger.blocks import AT_WORK, at_work, open_batches, together
from tidegate.ledger.completeness import waiting
from tidegate.ledger.facts import NOTHING, earlier_facts, left_behind, of_batches
from tidegate.ledger.late import lost_and_late
from tidegate.ledger.log_cut import open_cuts
from tidegate.ledger.notices import audits_and_pauses, failed_tasks, told_and_untold
from tidegate.ledger.pauses import SUBJECT, newest_of, pause_of
from tidegate.ledger.reads_rows import Snapshots, grouped, of_batch
from tidegate.ledger.reopenings import candidates
from tidegate.ledger.store import asked, in_parts, sql_list
from tidegate.ledger.totals import totals

b, g, r, p = schema.batches, schema.generations, schema.batch_ranges, schema.pipelines
parts, w, s, k = schema.batch_partitions, schema.windows, schema.resumptions, schema.log_cuts
T = TypeVar("T")
_STUCK = f"""
WITH asked(pipeline, batch_id) AS (VALUES {{rows}})
SELECT t.pipeline FROM asked AS a JOIN batches AS t ON t.pipeline = a.pipeline AND t.batch_id = a.batch_id
WHERE t.state IN {sql_list(OPEN_STATES)} AND (t.refused IS NOT NULL OR t.blocked IS NOT NULL)
"""
_ALL = 2**62
NAMES = 5_000
"""In one statement; SQLite takes no more than about 32,000 values."""


class SurveyReads(Snapshots):
    """core.survey.SurveyLedger on PostgreSQL or SQLite."""

    def survey(self, names: Collection[str], now_ms: int) -> dict[str, Survey]:
        return self._each(names, lambda c, some: _survey(c, some, now_ms))

    def progress(self, names: Collection[str], now_ms: int) -> dict[str, Progress]:
        found = self._each(names, lambda c, some: _progress(c, some, now_ms))
        return {name: one for name, (one, *_) in found.items()}

    def totals(self, names: Collection[str]) -> dict[str, Totals]:
        return self._each(names, totals)

    def window_steps(self, names: Collection[str]) -> dict[str, WindowSteps]:
        return self._each(names, _window_steps)

    def answers(self, names: Collection[str]) -> dict[str, dict[int, Answer]]:
        return self._each(names, waiting)

    def late_windows(self, names: Collection[str]) -> dict[str, list[LateWindow]]:
        return self._each(names, candidates)

    def merging(self, names: Collection[str]) -> dict[str, Merging]:
        return self._each(names, applies.merging)

    def readings(self, names: Collection[str]) -> dict[str, Reading]:
        return self._each(names, copies.readings)

    def kept_out(self, names: Collection[str]) -> dict[str, KeptOut]:
        return self._each(names, kept_out)

    def backlogs(self, wanted: Mapping[str, Sequence[Delivery]]) -> dict[str, tuple[Backlog, ...]]:
        with self._snapshot() as c:
            return {
                name: tuple(
                    deliveries.backlog(c, name, one.name, one.since_ms, sides_beside(one.name, (d.name for d in some)))
                    for one in some
                )
                for name, some in wanted.items()
            }

    def earlier_each(self, names: Collection[str]) -> dict[str, TopicFacts]:
        return self._each(names, earlier_facts)

    def _each(self, names: Collection[str], ask: Callable[[Connection, Sequence[str]], dict[str, T]]) -> dict[str, T]:
        """Ask for as many at once as a statement takes, each time in one snapshot."""
        found: dict[str, T] = {}
        for some in in_parts(names, NAMES):
            with self._snapshot() as c:
                found |= ask(c, some)
        return found

    def heads(self) -> dict[str, Head]:
        """The newest batch alone may be open."""
        e, newest = schema.events, select(func.max(b.c.batch_id)).where(b.c.pipeline == p.c.name).scalar_subquery()
        with self._snapshot() as c:
            said = p.outerjoin(e, e.c.id == newest_of(p.c.name, SUBJECT))
            cut = exists().where(k.c.pipeline == p.c.name, k.c.topic_id == p.c.topic_id).label("cut")
            rows = c.execute(select(p.c.name, newest.label("newest"), cut, e).select_from(said)).all()
            pairs = [(x.name, x.newest) for x in rows if x.newest is not None]
            batches = asked(c, _STUCK, pairs)
            stuck = {x.pipeline for x in batches}
            stuck |= set(c.scalars(select(w.c.pipeline).where(AT_WORK, w.c.blocked.is_not(None))))
            stuck |= {x.name for x in rows if x.cut}
            told, _ = told_and_untold(c)
        return {
            x.name: Head(
                x.name,
                x.name in stuck,
                frozenset(one.kind for one in told.get(x.name, ())),
                None if x.id is None else pause_of(x),
            )
            for x in rows
        }

    def landed_upto_each(self, upto: Mapping[str, int | None]) -> dict[str, Landed]:
        return self._landed("batch_id", {name: _ALL if i is None else i for name, i in upto.items()})

    def landed_before_each(self, upto_ms: Mapping[str, int]) -> dict[str, Landed]:
        return self._landed("landed_ms", upto_ms)

    def _landed(self, column: str, upto: Mapping[str, int]) -> dict[str, Landed]:
        with self._snapshot() as c:
            return _landed_upto(c, column, sorted(upto.items()))

    def published_within_each(self, wanted: Mapping[str, Sequence[Interval]]) -> dict[str, list[int]]:
        spans = [(name, part.start, part.end) for name, within in sorted(wanted.items()) for part in within]
        found: dict[str, list[int]] = {name: [] for name in wanted}
        with self._snapshot() as c:
            for row in _published(c, spans):
                found[row.pipeline].append(row.window_ms)
        return {name: sorted(starts) for name, starts in found.items()}


def _survey(c: Connection, names: Sequence[str], now_ms: int) -> dict[str, Survey]:
    sums, published, notes = totals(c, names), _generations(c, names, now_ms - LATELY_MS), _notes(c, names)
    batches, (closing, alarms), cuts = open_batches(c, names), at_work(c, names), open_cuts(c, names)
    building = _building(c, names)
    lost, late = lost_and_late(c, names)
    (audits, pauses), (told, untold) = audits_and_pauses(c, names), told_and_untold(c, names)
    failed, found, known = failed_tasks(c, names), {}, _progress(c, names, now_ms)
    slow = _slow(c, [(name, one.landed.batch_id) for name, (one, *_) in known.items() if one.landed is not None])
    for name, (progress, facts, begun) in known.items():
        batch, made = batches.get(name), building.get(name, ())
        in_force, lately = published.get(name, (Published(), 0))
        found[name] = Survey(
            progress=progress,
            facts=facts,
            begun=begun,
            open_batch=batch,
            blocks=together(batch, alarms.get(name, ()), cuts.get(name, ())),
            closing=closing.get(name, {}),
            building=frozenset(one.window_ms for one in made),
            totals=sums[name],
            published=in_force,
            busy=Counter(one.state for one in made),
            replays=tuple(one for one in made if one.kind in OF_REPLAYS),
            note=notes.get(name),
            lost=lost.get(name, 0),
            late_now=late.get(name, 0),
            audit=audits.get(name),
            untold=untold.get(name, 0),
            told=tuple(told.get(name, ())),
            pause=pauses.get(name),
            slow=slow.get(name, ()),
            lately=lately,
            failed=tuple(failed.get(name, ())),
        )
    return found


def _building(c: Connection, names: Sequence[str]) -> dict[str, list[Unfinished]]:
    """Generations on their way, by window."""
    columns = (g.c.window_ms, g.c.number, g.c.kind, g.c.state, g.c.began_ms)
    mine = (g.c.pipeline.in_(names), g.c.state.in_(UNFINISHED))
    found: dict[str, list[Unfinished]] = defaultdict(list)
    for name, *row in c.execute(select(g.c.pipeline, *columns).where(*mine).order_by(g.c.window_ms)):
        found[name].append(Unfinished(*row))
    return found


def _progress(c: Connection, names: Sequence[str], now_ms: int) -> dict[str, tuple[Progress, TopicFacts, bool]]:
    """The progress; what readiness rests on, since it is the newest landed batch's too; and whether one was ever
    planned."""
    heads = c.execute(_heads(names, now_ms - HORIZON_MS)).all()
    pairs = sorted({(x.name, i) for x in heads for i in (x.newest, x.landed, x.base) if i is not None})
    batches = {of_batch(x): x for x in of_batches(c, b, pairs)}
    met = grouped(of_batches(c, parts, pairs), of_batch)
    ranges = {(x.pipeline, x.batch_id, x.partition): x for x in of_batches(c, r, pairs)}
    resumed: dict[tuple[str, str | None, int], dict[int, int]] = defaultdict(dict)
    for x in c.execute(select(s).where(s.c.pipeline.in_(names))):
        resumed[x.pipeline, x.topic_id, x.after_batch][x.partition] = x.offset

    def look(name: str, batch_id: int | None, topic_id: str | None) -> BatchLook | None:
        batch = batches.get((name, batch_id))
        if batch is None or batch.topic_id != topic_id:
            return None
        seen = {x.partition: _look(x, ranges.get((name, x.batch_id, x.partition))) for x in met[name, batch.batch_id]}
        state = BatchState.known(batch.state)
        read, given_up = state in (SEALED, LANDED), state == ABANDONED
        return BatchLook(batch.batch_id, read, batch.clock_ms, batch.landed_ms, seen, given_up)

    found = {}
    for head in heads:
        newest, landed, base = (look(head.name, i, head.topic_id) for i in (head.newest, head.landed, head.base))
        decided = resumed.get((head.name, head.topic_id, head.newest or 0), {})
        found[head.name] = (
            Progress(head.topic_id, newest, landed, base, decided),
            _facts(batches, met, head),
            head.begun,
        )
    return found


def _facts(batches: dict[Any, Any], met: dict[Any, list[Any]], head: Any) -> TopicFacts:
    landed = batches.get((head.name, head.landed))
    return NOTHING if landed is None else left_behind(landed, met[head.name, head.landed])


def _landed_upto(c: Connection, column: str, wanted: Sequence[tuple[str, int]]) -> dict[str, Landed]:
    """One probe of an index for each pipeline."""
    statement = (
        "WITH asked(pipeline, upto) AS (VALUES {rows}) SELECT a.pipeline, (SELECT n.batch_id FROM batches AS n "
        f"WHERE n.pipeline = a.pipeline AND n.{column} <= a.upto AND n.state = '{LANDED}' AND n.kind = '{INGEST}' "
        "ORDER BY n.batch_id DESC LIMIT 1) AS batch_id FROM asked AS a"
    )
    pairs = [(x.pipeline, x.batch_id) for x in asked(c, statement, wanted) if x.batch_id is not None]
    if not pairs:
        return {}
    batches = {of_batch(x): x for x in of_batches(c, b, pairs)}
    met = grouped(of_batches(c, parts, pairs), of_batch)
    return {
        name: Landed(i, batches[name, i].landed_ms, left_behind(batches[name, i], met[name, i])) for name, i in pairs
    }


def _heads(names: Sequence[str], landed_before_ms: int) -> Any:
    """Batches of each pipeline that tell its position and pace (core.progress); each is one probe of an index."""

    def one(*where: Any, oldest: bool = False) -> Any:
        n = b.alias()
        order = n.c.batch_id if oldest else n.c.batch_id.desc()
        found = select(n.c.batch_id).where(n.c.kind == INGEST, *(w(n) for w in where)).order_by(order).limit(1)
        return found.scalar_subquery()

    def landed(n: Any) -> Any:
        return n.c.state == LANDED

    heads = (
        select(
            p.c.name,
            p.c.topic_id,
            (p.c.next_batch_id > 1).label("begun"),
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
    return select(heads.c.name, heads.c.topic_id, heads.c.begun, heads.c.newest, heads.c.landed, base.label("base"))


def _look(part: Any, planned: Any | None) -> Look:
    """A partition without a range had nothing new."""
    if planned is None:
        start, read, size, newest = part.planned_end, 0, 0, None
    else:
        start, read, size, newest = planned.start, planned.read or 0, planned.bytes or 0, planned.max_kafka_ms
    return Look(
        start=start,
        end=part.planned_end,
        log_start=part.log_start,
        high_watermark=part.high_watermark,
        read=read,
        bytes=size,
        max_kafka_ms=newest,
        open_transaction_since_ms=part.open_transaction_since_ms,
        last_stable_offset=part.last_stable_offset,
    )


def _generations(c: Connection, names: Sequence[str], since_ms: int) -> dict[str, tuple[Published, int]]:
    """What is in force, and how many windows were published for the first time since then."""
    new = and_(g.c.kind == ARCHIVE, g.c.published_ms > since_ms)
    sums = (func.count().label("windows"), func.sum(g.c.rows).label("rows"), func.max(g.c.window_ms).label("newest"))
    current = select(g.c.pipeline, *sums, func.sum(case((new, 1), else_=0)).label("lately"))
    current = current.where(g.c.pipeline.in_(names), g.c.state == CURRENT).group_by(g.c.pipeline).subquery()
    first = and_(g.c.pipeline == current.c.pipeline, g.c.window_ms == current.c.newest, g.c.number == 1)
    statement = select(current, g.c.published_ms).select_from(current.outerjoin(g, first))
    return {
        x.pipeline: (Published(x.windows, int(x.rows or 0), x.newest, x.published_ms), int(x.lately))
        for x in c.execute(statement)
    }


def _window_steps(c: Connection, names: Sequence[str]) -> dict[str, WindowSteps]:
    """Times that windows took. One that was restored from storage's records has no beginning, and does not count."""
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


def _slow(c: Connection, landed: Sequence[tuple[str, int]]) -> dict[str, tuple[Slow, ...]]:
    """Messages that took the slow path, by receipts; the database takes those apart, for they are large."""
    sqlite = c.dialect.name == "sqlite"
    part = "json_extract(t.receipt, '$.slow')" if sqlite else "CAST(t.receipt AS json) ->> 'slow'"
    statement = (
        f"WITH asked(pipeline, batch_id) AS (VALUES {{rows}}) SELECT a.pipeline, {part} AS slow FROM asked AS a "
        "JOIN batches AS t ON t.pipeline = a.pipeline AND t.batch_id = a.batch_id"
    )
    rows = asked(c, statement, landed)
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
