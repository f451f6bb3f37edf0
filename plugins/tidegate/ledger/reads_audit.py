"""What the audit reads: one small snapshot of where everything stands, then the details page by page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, case, exists, func, or_, select
from sqlalchemy.engine import Connection

from tidegate.core.base.offsets import Interval
from tidegate.core.base.slabs import SCATTERED, SLAB_OFFSETS, Slab, slabs
from tidegate.core.batch.states import INGEST, LANDED
from tidegate.core.deliver.units import SIDES, side_of
from tidegate.core.files.receipt import DATA, LATE, FileEntry
from tidegate.core.look.views import BatchPage, GenerationRow, LossRow, Pinned, Spine, Weight, WindowPage
from tidegate.core.window.states import BUILT, CURRENT, SWAPPING
from tidegate.ledger import deliveries, failovers, log_cut, reopenings, rows, schema, side_units
from tidegate.ledger.reads_rows import (
    Snapshots,
    batches,
    generation_row,
    grouped,
    newest_event,
    select_rows,
    window_row,
    window_total,
)
from tidegate.ledger.store import matched, read_as, row_of, rows_of

PAGE_FILES, PAGE_BATCHES = 4_000, 2_000
"""About so many files and batches of the ledger are in memory at once."""

b, g = schema.batches, schema.generations
files, generation_files, owners = schema.batch_files, schema.generation_files, schema.row_owners
_PLACED = (BUILT, SWAPPING, CURRENT)


class AuditReads(Snapshots):
    """Part of core.views.LedgerReads."""

    def spine(self, name: str) -> Spine | None:
        with self._snapshot() as c:
            pipeline = row_of(c, schema.pipelines, name=name)
            if pipeline is None:
                return None
            tries = tuple(deliveries.all_of(c, name))
            sent = {side_of(one.name) for one in tries}.intersection(SIDES)
            states = select(b.c.state, func.count()).where(b.c.pipeline == name).group_by(b.c.state)
            unlanded = select(b.c.batch_id, b.c.state).where(b.c.pipeline == name, b.c.state != LANDED)
            duties = select(func.count()).where(b.c.pipeline == name, b.c.state == LANDED, b.c.side_moved.is_(False))
            kept = select(func.count()).where(owners.c.pipeline == name, owners.c.cleared.is_(False))
            return Spine(
                name=name,
                next_batch_id=pipeline.next_batch_id,
                topic_id=pipeline.topic_id,
                states={state: count for state, count in c.execute(states.order_by(b.c.state))},
                unlanded={row.batch_id: row.state for row in c.execute(unlanded)},
                unmoved=int(c.scalar(duties) or 0) + int(c.scalar(kept) or 0) + len(reopenings.duties(c, name)),
                losses=tuple(read_as(LossRow, x) for x in rows_of(c, schema.losses, pipeline=name)),
                windows={w.start_ms: window_row(w) for w in rows_of(c, schema.windows, pipeline=name)},
                generations=tuple(_without_files(c, name)),
                newest_event=newest_event(c, name),
                resumptions=log_cut.decided(c, name),
                deliveries=tries,
                versions={side: side_units.all_versions(c, name, side) for side in sent},
                stretches=failovers.all_stretches(c, name),
            )

    def slabs(self, name: str, limit: int = SLAB_OFFSETS) -> list[Slab]:
        """The LANDED batches, cut into runs of at most about `limit` offsets."""
        r = schema.batch_ranges
        read = select(func.sum(r.c.read)).where(matched(r, b, "batch_id"))
        sparse = and_(b.c.kind == INGEST, b.c.records > 16 * SLAB_OFFSETS)  # of a table: a window with few rows
        weight = case(
            (sparse, func.coalesce(read.scalar_subquery(), 0)),
            (b.c.kind == INGEST, b.c.records),
            else_=b.c.records * SCATTERED,
        )
        statement = select(b.c.batch_id, weight.label("weight")).where(b.c.pipeline == name, b.c.state == LANDED)
        with self._snapshot() as c:
            weights = ((row.batch_id, int(row.weight)) for row in c.execute(statement.order_by(b.c.batch_id)))
            return slabs(weights, limit)  # PostgreSQL sums as numeric

    def batch_pages(self, name: str, first: int, last: int, plans: bool = False) -> Iterator[BatchPage]:
        """Batches with ids `[first, last]`, in order; each page is of one instant."""
        sizes = select(files.c.batch_id, func.count()).where(
            files.c.pipeline == name, files.c.batch_id.between(first, last)
        )
        with self._snapshot() as c:
            ends = _page_ends(c.execute(sizes.group_by(files.c.batch_id).order_by(files.c.batch_id)))
        start = first
        for end in _cut(first, last, ends):
            with self._snapshot() as c:
                where = (files.c.pipeline == name, files.c.batch_id.between(start, end))
                found: dict[int, list[FileEntry]] = defaultdict(list)
                for row in select_rows(c, files, *where):
                    found[row.batch_id].append(rows.file_entry(row))
                page = BatchPage(
                    tuple(batches(c, name, start, end)),
                    {i: tuple(f) for i, f in found.items()},
                    _plans(c, name, start, end) if plans else {},
                )
            yield page
            start = end + 1

    def weight(self, name: str, within: Interval | None = None) -> Weight:
        """What lies in force, waits for its window, or is late or dirty."""

        def told(c: Connection, table: Any, column: Any, *where: Any) -> Weight:
            if within is not None:
                where = (*where, column >= within.start, column < within.end)
            sums = (func.count(), func.sum(table.c.bytes), func.sum(table.c.rows))
            return Weight(
                *(int(n or 0) for n in c.execute(select(*sums).where(table.c.pipeline == name, *where)).one())
            )

        def in_force(window: Any) -> Any:
            return exists().where(g.c.pipeline == name, g.c.window_ms == window, g.c.state == CURRENT)

        f = generation_files
        mine = exists().where(
            g.c.pipeline == name, g.c.window_ms == f.c.window_ms, g.c.number == f.c.number, g.c.state == CURRENT
        )
        landed = exists().where(b.c.pipeline == name, b.c.batch_id == files.c.batch_id, b.c.state == LANDED)
        with self._snapshot() as c:
            found = (
                told(c, f, f.c.window_ms, mine),
                told(c, files, files.c.window_ms, landed, files.c.kind != DATA),
                told(c, files, files.c.window_ms, landed, files.c.kind == DATA, ~in_force(files.c.window_ms)),
            )
        return Weight(*(sum(w) for w in zip(*((x.files, x.bytes, x.rows) for x in found), strict=True)))

    def window_pages(self, name: str) -> Iterator[WindowPage]:
        """Every window that the ledger knows of, in order; each page is of one instant."""
        with self._snapshot() as c:
            ends = _page_ends(c.execute(_window_sizes(name)))
        low = None
        for high in [*ends, None]:
            with self._snapshot() as c:
                pages = list(_windows(c, name, low, high))
            yield from pages
            low = high


def _plans(c: Connection, name: str, first: int, last: int) -> dict[int, Pinned | None]:
    """None for a batch whose rows do not make a plan."""

    def between(table: Any) -> dict[int, list[Any]]:
        where = (table.c.pipeline == name, table.c.batch_id.between(first, last))
        return grouped(select_rows(c, table, *where), lambda row: row.batch_id)

    ranges, parts = between(schema.batch_ranges), between(schema.batch_partitions)
    losses, sources = between(schema.losses), between(schema.batch_sources)
    v = schema.spec_versions
    specs = {
        x.version: x.fingerprint for x in c.execute(select(v.c.version, v.c.fingerprint).where(v.c.pipeline == name))
    }
    listed = select(*(column for column in b.c if column.name != "receipt"))
    found: dict[int, Pinned | None] = {}
    for row in c.execute(listed.where(b.c.pipeline == name, b.c.batch_id.between(first, last))):
        i = row.batch_id
        try:
            plan = rows.plan(row, ranges.get(i, []), parts.get(i, []), losses.get(i, []), sources.get(i, []))
            found[i] = Pinned(plan, specs[row.spec_version])
        except (ValueError, KeyError, TypeError, AttributeError):
            found[i] = None
    return found


def _cut(first: int, last: int, ends: Iterable[int]) -> list[int]:
    """Last ids of pages that cover `[first, last]`: batches without files count too."""
    steps = range(first + PAGE_BATCHES - 1, last, PAGE_BATCHES)
    return sorted({*(e for e in ends if e < last), *steps, last}) if first <= last else []


def _page_ends(sizes: Iterable[Any]) -> list[int]:
    """Ids after which a page ends, for (id, number of files) in order of the ids."""
    ends, held = [], 0
    for key, count in sizes:
        held += count
        if held >= PAGE_FILES:
            ends.append(key)
            held = 0
    return ends


def _window_sizes(name: str) -> Any:
    """(window, number of files) by the batches; a page's generations hold about as many again."""
    statement = select(files.c.window_ms, func.count())
    where = (files.c.pipeline == name, files.c.window_ms.is_not(None))
    return statement.where(*where).group_by(files.c.window_ms).order_by(files.c.window_ms)


def _without_files(c: Connection, name: str) -> Iterator[GenerationRow]:
    """Generations with the first and the last of their batches only, and what they took up."""
    x = schema.generation_batches
    spans = select(x.c.window_ms, x.c.number, func.min(x.c.batch_id), func.max(x.c.batch_id))
    spans = spans.where(x.c.pipeline == name).group_by(x.c.window_ms, x.c.number)
    found = {(window_ms, number): (low, high) for window_ms, number, low, high in c.execute(spans)}
    late: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for made in rows_of(c, x, pipeline=name, kind=LATE):
        late[made.window_ms, made.number].append(made)
    for row in rows_of(c, g, pipeline=name):
        key = (row.window_ms, row.number)
        yield replace(generation_row(row, late.get(key, ())), batches=found.get(key, ()))


def _windows(c: Connection, name: str, low: int | None, high: int | None) -> Iterator[WindowPage]:
    """Pages of the windows that start in `(low, high]`; None is open."""

    def these(table: Any, column: Any, *where: Any) -> dict[int, list[Any]]:
        span = [table.c.pipeline == name, column.is_not(None), *where]
        span += [column > low] if low is not None else []
        span += [column <= high] if high is not None else []
        return grouped(select_rows(c, table, *span), lambda row: getattr(row, column.name))

    t, x, f = schema.batch_window_totals, schema.generation_batches, generation_files
    totals, owed = these(t, t.c.window_ms), these(files, files.c.window_ms)
    generations, parts = these(g, g.c.window_ms), these(x, x.c.window_ms)
    known = these(schema.windows, schema.windows.c.start_ms)
    placed = [row for many in generations.values() for row in many if row.state in _PLACED]
    held: dict[tuple[int, int], list[FileEntry]] = defaultdict(list)
    for at in range(0, len(placed), 200):
        wanted = or_(*(and_(f.c.window_ms == row.window_ms, f.c.number == row.number) for row in placed[at : at + 200]))
        for row in select_rows(c, f, f.c.pipeline == name, wanted):
            held[row.window_ms, row.number].append(rows.file_entry(row))
    for window_ms in sorted({*totals, *owed, *generations, *known}):
        made = grouped(parts.get(window_ms, []), lambda part: part.number)
        yield WindowPage(
            window_ms,
            window_row(known[window_ms][0]) if window_ms in known else None,
            tuple(window_total(row) for row in totals.get(window_ms, [])),
            tuple((row.batch_id, rows.file_entry(row)) for row in owed.get(window_ms, [])),
            tuple(
                generation_row(row, made[row.number], held[window_ms, row.number])
                for row in generations.get(window_ms, [])
            ),
        )
