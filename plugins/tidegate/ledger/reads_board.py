"""What the board asks: a few statements for any number of pipelines, and none that walks over ranges or files."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, func, literal_column, select
from sqlalchemy.engine import Connection

from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import from_plain, loads
from tidegate.core.files.receipt import LATE, DirtySample
from tidegate.core.files.slow_path import Slow
from tidegate.core.look.glance import BatchDetail, Binding, DirtyShare, Mark, WindowShare
from tidegate.core.look.views import BatchRow, Event, LossRow, WindowView
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.port import Intent
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import CURRENT, DISCARDED, OPEN, RETIRED, WindowKey
from tidegate.ledger import schema
from tidegate.ledger.completeness import answer_of
from tidegate.ledger.reads_rows import (
    Snapshots,
    batch_row,
    batches,
    events,
    generation_row,
    grouped,
    window_row,
)
from tidegate.ledger.reads_rows import window_total as total_of
from tidegate.ledger.store import asked, in_parts, matched, read_as, row_of, rows_of

b, g, w, t = schema.batches, schema.generations, schema.windows, schema.batch_window_totals
made = schema.generation_batches
_WINDOWS = 100
"""Windows of a batch that are listed."""
_DIRTY_LOOK = 300
"""Batches that are looked at for dirty rows."""


class BoardReads(Snapshots):
    """Each answer is of one instant, in a number of statements that does not grow with what there is."""

    @property
    def _unanswered(self) -> Any:
        """Intents that may still be executed: the catalogue refuses a request once its deadline has passed."""
        return schema.intents.c.deadline_ms > self._store.instant

    # ------------------------------------------------------------ pipelines

    def spec_versions(self, names: Collection[str]) -> dict[str, int]:
        v = schema.spec_versions
        statement = select(v.c.pipeline, func.max(v.c.version)).where(v.c.pipeline.in_(sorted(names)))
        with self._snapshot() as c:
            return {name: version for name, version in c.execute(statement.group_by(v.c.pipeline))}

    def newest_specs(self, names: Collection[str]) -> dict[str, Pipeline]:
        v, p, own = schema.spec_versions, schema.pipelines, b.alias()
        newest = select(func.max(own.c.batch_id)).where(own.c.pipeline == p.c.name).correlate(p).scalar_subquery()
        theirs = p.join(b, and_(b.c.pipeline == p.c.name, b.c.batch_id == newest))
        theirs = theirs.join(v, and_(v.c.pipeline == p.c.name, v.c.version == b.c.spec_version))
        statement = select(v.c.pipeline, v.c.compiled).select_from(theirs).where(p.c.name.in_(sorted(names)))
        with self._snapshot() as c:
            return {name: loads(Pipeline, compiled) for name, compiled in c.execute(statement)}

    def specs(self, wanted: Collection[tuple[str, int]]) -> dict[tuple[str, int], Pipeline]:
        if not wanted:
            return {}
        with self._snapshot() as c:
            return {(x.pipeline, x.version): loads(Pipeline, x.compiled) for x in asked(c, _SPECS, sorted(wanted))}

    def dirty_shares(self, name: str, most: int) -> list[DirtyShare]:
        r = schema.batch_ranges
        newest = select(func.max(b.c.batch_id)).where(b.c.pipeline == name).scalar_subquery()
        with self._snapshot() as c:
            rows = c.execute(
                select(r.c.batch_id, func.sum(r.c.dirty).label("rows"))
                .where(r.c.pipeline == name, r.c.batch_id > newest - _DIRTY_LOOK, r.c.dirty > 0)
                .group_by(r.c.batch_id)
                .order_by(r.c.batch_id.desc())
                .limit(most)
            ).all()
            ids = [x.batch_id for x in rows]
            mine = and_(b.c.pipeline == name, b.c.batch_id.in_(ids))
            kept = (
                {x.batch_id: x.receipt for x in c.execute(select(b.c.batch_id, b.c.receipt).where(mine))} if ids else {}
            )
        return [DirtyShare(x.batch_id, int(x.rows), samples(kept.get(x.batch_id))) for x in rows]

    # ------------------------------------------------------------ windows

    def marks(self, name: str, within: Interval) -> list[Mark]:
        def inside(table: Any, column: str = "window_ms") -> Any:
            return and_(table.c.pipeline == name, table.c[column] >= within.start, table.c[column] < within.end)

        with self._snapshot() as c:
            rows = {x.start_ms: x for x in c.execute(select(w).where(inside(w, "start_ms")))}
            mine = (g.c.window_ms, g.c.number, g.c.state, g.c.kind, g.c.rows, g.c.published_ms)
            generations = grouped(c.execute(select(*mine).where(inside(g)).order_by(g.c.number)), lambda x: x.window_ms)
            late = _late(c, inside)
            answers = {x.window_ms: answer_of(x) for x in c.execute(select(schema.truths).where(inside(schema.truths)))}
        starts = sorted({*rows, *generations, *late, *answers})
        return [_mark(s, rows.get(s), generations.get(s, []), late.get(s, 0), answers.get(s)) for s in starts]

    def window_view(self, name: str, key: WindowKey, events_shown: int = 20) -> WindowView:
        with self._snapshot() as c:
            return self._window_view(c, name, key, events_shown)

    def _window_view(self, c: Connection, name: str, key: WindowKey, events_shown: int) -> WindowView:
        """Generations without files, batches without ranges: a window may have very many."""
        i, where = schema.intents, {"pipeline": name, "window_ms": key.start_ms}
        row = row_of(c, w, pipeline=name, start_ms=key.start_ms)
        totals = [total_of(x) for x in rows_of(c, t, **where)]
        batches_of = grouped(rows_of(c, made, **where), lambda x: x.number)
        generations = [generation_row(x, batches_of.get(x.number, [])) for x in rows_of(c, g, **where)]
        ids = {x.batch_id for x in totals} | {n for one in generations for n in one.batches}
        asked = select(i).where(i.c.pipeline == name, i.c.window_ms == key.start_ms, self._unanswered)
        asked = asked.order_by(i.c.deadline_ms, i.c.call_id)
        return WindowView(
            row and window_row(row),
            tuple(generations),
            tuple(totals),
            tuple(_batches(c, name, ids)),
            tuple(read_as(Intent, x, window=key) for x in c.execute(asked)),
            tuple(events(c, name, events_shown, f"window {window_id(key.start_ms)}")),
        )

    def file_counts(self, name: str, key: WindowKey) -> dict[int, tuple[int, int]]:
        f = schema.generation_files
        statement = select(f.c.number, func.count(), func.sum(f.c.bytes)).where(
            f.c.pipeline == name, f.c.window_ms == key.start_ms
        )
        with self._snapshot() as c:
            return {
                number: (count, int(size or 0)) for number, count, size in c.execute(statement.group_by(f.c.number))
            }

    # ------------------------------------------------------------ batches, events, runs

    def batch(self, name: str, batch_id: int) -> tuple[BatchRow | None, BatchDetail | None, int]:
        f, lost = schema.batch_files, schema.losses
        mine = {"pipeline": name, "batch_id": batch_id}
        with self._snapshot() as c:
            newest = int(c.scalar(select(func.max(b.c.batch_id)).where(b.c.pipeline == name)) or 0)
            found = batches(c, name, batch_id, batch_id)
            if not found:
                return None, None, newest
            receipt = c.scalar(select(b.c.receipt).where(b.c.pipeline == name, b.c.batch_id == batch_id))
            of_files = select(f.c.window_ms, f.c.kind, func.count(), func.sum(f.c.rows), func.sum(f.c.bytes))
            of_files = of_files.where(f.c.pipeline == name, f.c.batch_id == batch_id)
            files = c.execute(of_files.group_by(f.c.window_ms, f.c.kind)).all()
            losses = [read_as(LossRow, x) for x in rows_of(c, lost, **mine)]
        windows: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for at, kind, _, rows, _ in files:
            if at is not None:
                windows[at][kind == LATE] += int(rows)
        shares = [WindowShare(at, *counts) for at, counts in sorted(windows.items())]
        balances = [x.balance for x in found[0].ranges if x.balance is not None]
        dirty = DirtyShare(batch_id, sum(x.dirty for x in balances), samples(receipt))
        count, size = sum(x[2] for x in files), sum(int(x[4]) for x in files)
        more = max(0, len(shares) - _WINDOWS)
        detail = BatchDetail(
            files=count,
            bytes=size,
            windows=tuple(shares[:_WINDOWS]),
            more_windows=more,
            losses=tuple(losses),
            dirty=dirty,
            slow=slow(receipt),
        )
        return found[0], detail, newest

    def event_page(self, name: str, limit: int, before: int | None, subject: str | None) -> list[Event]:
        with self._snapshot() as c:
            return events(c, name, limit, subject, before)

    def bindings(self, name: str, batch_id: int) -> list[Binding]:
        with self._snapshot() as c:
            return [
                Binding(x.run, x.batch_id) for x in rows_of(c, schema.run_bindings, pipeline=name, batch_id=batch_id)
            ]


_SPECS = """
WITH asked(pipeline, version) AS (VALUES {rows})
SELECT t.pipeline, t.version, t.compiled
FROM asked AS a JOIN spec_versions AS t ON t.pipeline = a.pipeline AND t.version = a.version
"""


def samples(receipt: str | None) -> tuple[DirtySample, ...]:
    """Samples of a receipt as the ledger keeps it."""
    kept = json.loads(receipt).get("samples", []) if receipt else []
    return tuple(from_plain(DirtySample, one) for one in kept)


def slow(receipt: str | None) -> tuple[Slow, ...]:
    kept = json.loads(receipt).get("slow", []) if receipt else []
    return tuple(from_plain(Slow, one) for one in kept)


def _late(c: Connection, inside: Any) -> dict[int, int]:
    """Rows by window that no generation in force has taken up. The kind is written out: SQLite finds the index so."""
    late = select(t.c.window_ms, t.c.batch_id, func.sum(t.c.rows).label("rows"))
    late = late.where(inside(t), literal_column("kind = 'late'")).group_by(t.c.window_ms, t.c.batch_id).subquery()
    current = and_(matched(g, made, "window_ms", "number"), g.c.state == CURRENT)
    taken = select(made.c.window_ms, made.c.batch_id).select_from(made.join(g, current))
    taken = taken.where(inside(made), made.c.kind == LATE)
    up = {(x.window_ms, x.batch_id) for x in c.execute(taken)}
    found: dict[int, int] = defaultdict(int)
    for x in c.execute(select(late)):
        if (x.window_ms, x.batch_id) not in up:
            found[x.window_ms] += int(x.rows)
    return found


def _mark(start: int, row: Any | None, generations: Sequence[Any], late: int, answer: Any | None) -> Mark:
    current = next((x for x in generations if x.state == CURRENT), None)
    newer = next((x for x in reversed(generations) if x.state not in (CURRENT, RETIRED, DISCARDED)), None)
    return Mark(
        start_ms=start,
        state=OPEN if row is None else row.state,
        blocked=None if row is None else row.blocked,
        number=current and current.number,
        kind=current and current.kind,
        rows=current and current.rows,
        published_ms=current and current.published_ms,
        building=newer and newer.state,
        late=late,
        answer=answer,
    )


def _batches(c: Connection, name: str, ids: Iterable[int]) -> list[BatchRow]:
    """Batches without ranges; of a redrive its sources."""
    s = schema.batch_sources
    found: list[BatchRow] = []
    for part in in_parts(ids):
        rows = c.execute(select(*_BATCH_COLUMNS).where(b.c.pipeline == name, b.c.batch_id.in_(part)))
        sources: dict[int, set[int]] = defaultdict(set)
        redrives = select(s.c.batch_id, s.c.source).where(s.c.pipeline == name, s.c.batch_id.in_(part)).distinct()
        for x in c.execute(redrives):
            sources[x.batch_id].add(x.source)
        found += [replace(batch_row(x, [], []), sources=tuple(sorted(sources.get(x.batch_id, ())))) for x in rows]
    return sorted(found, key=lambda x: x.batch_id)


_BATCH_COLUMNS = [c for c in b.c if c.name in BatchRow.__dataclass_fields__]
