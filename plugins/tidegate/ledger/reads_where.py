"""What the ledger knows of single offsets: by the ranges of batches, then by the spans of their files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, func, select
from sqlalchemy.engine import Connection

from tidegate.core.base.plain import loads
from tidegate.core.batch.states import ABANDONED, INGEST, LANDED
from tidegate.core.files.receipt import DIRTY, LATE, FileEntry
from tidegate.core.look.sighting import Earlier, Life, OffsetFacts, WindowFacts
from tidegate.core.look.views import BatchRow, LossRow
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import BUILT, CURRENT, SWAPPING
from tidegate.ledger import log_cut, rows, schema
from tidegate.ledger.reads_rows import Snapshots, batches, events, generation_row, window_row
from tidegate.ledger.store import matched, read_as, row_of, rows_of

b, r, p = schema.batches, schema.batch_ranges, schema.batch_partitions


class WhereReads(Snapshots):
    """Part of core.views.LedgerReads."""

    def offsets(self, name: str, wanted: Sequence[tuple[int, int]]) -> list[OffsetFacts] | None:
        """Facts of each (Kafka partition, offset), all in one snapshot; None for a pipeline that no run has
        registered."""
        with self._snapshot() as c:
            pipeline = row_of(c, schema.pipelines, name=name)
            if pipeline is None:
                return None
            look = _Look(c, name, pipeline.topic_id)
            return [look.at(partition, offset) for partition, offset in wanted]


class _Files:
    """Files of one batch or generation; only those that are wanted are made into entries."""

    def __init__(self, found: Iterable[Any]) -> None:
        self._rows = [
            (tuple((x["partition"], x["min_offset"], x["max_offset"]) for x in json.loads(row.partitions)), row)
            for row in found
        ]
        self._entries: dict[str, FileEntry] = {}

    def around(self, partition: int, offset: int) -> tuple[FileEntry, ...]:
        """Files whose spans hold the offset."""
        return tuple(
            self._entry(row)
            for spans, row in self._rows
            if any(p == partition and low <= offset <= high for p, low, high in spans)
        )

    def _entry(self, row: Any) -> FileEntry:
        if row.path not in self._entries:
            self._entries[row.path] = rows.file_entry(row)
        return self._entries[row.path]


class _Era:
    """The batches of one topic id, from `first` to `last`; between them may be others, of another site's topic.
    `begins`: the first offset after a cut of a partition's log."""

    def __init__(self, topic_id: str, first: int, last: int, begins: int | None = None) -> None:
        self.topic_id, self.first, self.last, self.begins = topic_id, first, last, begins

    def has(self, batch: BatchRow) -> bool:
        return batch.topic_id == self.topic_id and self.first <= batch.batch_id <= self.last


class _Look:
    """Remembers batches and windows: many offsets share them."""

    def __init__(self, c: Connection, name: str, accepted: str | None) -> None:
        self._c, self._name, self._accepted = c, name, accepted
        statement = select(b.c.topic_id, func.min(b.c.batch_id), func.max(b.c.batch_id)).where(
            b.c.pipeline == name, b.c.kind == INGEST
        )
        eras = [_Era(*row) for row in c.execute(statement.group_by(b.c.topic_id))]
        self._eras = sorted(eras, key=lambda era: -era.last)
        self._ends: dict[tuple[str, int, int], tuple[int, int] | None] = {}
        self._losses: dict[int, list[LossRow]] = {}
        self._batches: dict[int, tuple[BatchRow, Floor, _Files]] = {}
        self._windows: dict[int, tuple[WindowFacts, _Files]] = {}
        self._endings: dict[int, int | None] = {}
        self._cuts = log_cut.decided(c, name)

    def at(self, partition: int, offset: int) -> OffsetFacts:
        lives = tuple(
            self._life(part, partition, offset)
            for era in self._eras
            for part in self._between_cuts(era, partition, offset)
        )
        if self._accepted is not None and not any(life.accepted for life in lives):
            lives = (
                Life(topic_id=self._accepted, accepted=True),
                *lives,
            )  # accepted by an operator, nothing of it planned yet
        return OffsetFacts(partition, offset, lives)

    def _between_cuts(self, era: _Era, partition: int, offset: int) -> list[_Era]:
        """Parts of the era, newest first: where a log was cut and the offset freed, it may have a fate before, and one
        after."""
        parts, first = [], era.first
        begins: int | None = None
        for cut in self._cuts:
            if (cut.topic_id, cut.partition) == (era.topic_id, partition) and era.first <= cut.after_batch <= era.last:
                parts.append(_Era(era.topic_id, first, cut.after_batch, begins))
                first, begins = cut.after_batch + 1, cut.cut
        parts.append(_Era(era.topic_id, first, max(era.last, first), begins))
        newest = next(n for n, x in reversed([*enumerate(parts)]) if x.begins is None or offset >= x.begins)
        below = [part for n, part in enumerate(parts) if n < newest and self._planned(part, partition, offset)]
        return [parts[newest], *reversed(below)]

    def _planned(self, part: _Era, partition: int, offset: int) -> bool:
        """Whether the offset was read before the cut that ended this part."""
        ends = self._reach(part, partition)
        return ends is not None and (part.begins or 0) <= offset < ends[1]

    def _life(self, era: _Era, partition: int, offset: int) -> Life:
        life = Life(topic_id=era.topic_id, accepted=era.topic_id == self._accepted)
        ends = self._reach(era, partition)
        if ends is None and era.begins is not None:
            ends = era.begins, era.begins  # decided, and not planned yet
        if ends is None:
            return life
        values: dict[str, Any] = {"first_offset": ends[0], "planned_end": ends[1]}
        batch_id = self._batch_with(era, partition, offset) if offset < ends[1] else None
        if batch_id is not None:
            values |= self._in_batch(batch_id, partition, offset)
        else:
            loss = next((x for x in self._lost(partition) if x.start <= offset < x.end and self._of(era, x)), None)
            if loss is not None:
                values |= {"loss": loss, "loss_planned_ms": self._batch(loss.batch_id)[0].planned_ms}
        return Life(topic_id=era.topic_id, accepted=era.topic_id == self._accepted, **values)

    def _of(self, era: _Era, loss: LossRow) -> bool:
        return era.has(self._batch(loss.batch_id)[0])

    def _reach(self, era: _Era, partition: int) -> tuple[int, int] | None:
        """(where reading began, planned end); None if no batch has the partition."""
        key = (era.topic_id, era.first, partition)
        if key not in self._ends:
            of = and_(matched(b, p, "batch_id"), b.c.topic_id == era.topic_id)
            mine = (p.c.pipeline == self._name, p.c.partition == partition, p.c.batch_id.between(era.first, era.last))
            found = select(p).select_from(p.join(b, of)).where(*mine).limit(1)
            first = self._c.execute(found.order_by(p.c.batch_id)).first()
            last = self._c.execute(found.order_by(p.c.batch_id.desc())).first()
            self._ends[key] = None
            if first is not None and last is not None:
                began = row_of(self._c, r, pipeline=self._name, batch_id=first.batch_id, partition=partition)
                lost = [x.start for x in self._lost(partition) if x.batch_id == first.batch_id]
                start = began.start if began is not None else first.planned_end
                self._ends[key] = (min([start, *lost]), last.planned_end)
        return self._ends[key]

    def _lost(self, partition: int) -> list[LossRow]:
        if partition not in self._losses:
            found = rows_of(self._c, schema.losses, pipeline=self._name, partition=partition)
            self._losses[partition] = [read_as(LossRow, x) for x in found]
        return self._losses[partition]

    def _batch_with(self, era: _Era, partition: int, offset: int) -> int | None:
        for batch_id, (row, _, _) in self._batches.items():
            if era.has(row) and not row.is_redrive and _holds(row, partition, offset):
                return batch_id
        same = and_(matched(b, r, "batch_id"), b.c.kind == INGEST)
        statement = (
            select(r.c.batch_id, r.c.end)
            .select_from(r.join(b, same))
            .where(
                r.c.pipeline == self._name,
                r.c.partition == partition,
                r.c.start <= offset,
                r.c.batch_id.between(era.first, era.last),
                b.c.topic_id == era.topic_id,
            )
        )
        found = self._c.execute(statement.order_by(r.c.start.desc()).limit(1)).first()
        return found.batch_id if found is not None and found.end > offset else None

    def _in_batch(self, batch_id: int, partition: int, offset: int) -> dict[str, Any]:
        row, floor, files = self._batch(batch_id)
        earlier: list[Earlier] = []
        while row.redriven_by is not None and self._took(row.redriven_by, partition, offset):
            earlier.append(Earlier(row, tuple(f for f in files.around(partition, offset) if f.kind == DIRTY)))
            batch_id = row.redriven_by
            row, floor, files = self._batch(batch_id)
        values: dict[str, Any] = {"batch": row, "floor": floor, "earlier": tuple(earlier)}
        if row.state == ABANDONED:
            values |= {"abandoned": row.blocked or "no reason was given", "ended_ms": self._abandoned(batch_id)}
        if row.state != LANDED:
            return values
        mine = files.around(partition, offset)
        windows = {f.window_ms for f in mine if f.kind != DIRTY and f.window_ms is not None}
        values["files"] = mine
        values["windows"] = {w: self._window_around(w, partition, offset) for w in windows}
        return values

    def _took(self, redrive: int, partition: int, offset: int) -> bool:
        """Whether the offset is one of the redrive's rows: what lies between them are gaps."""
        ranges = (x for x in self._batch(redrive)[0].ranges if x.range.partition == partition)
        return any(x.range.start <= offset < x.range.end and not any(offset in gap for gap in x.gaps) for x in ranges)

    def _abandoned(self, batch_id: int) -> int | None:
        if batch_id not in self._endings:
            found = events(self._c, self._name, 20, f"batch {batch_id}")
            self._endings[batch_id] = next((e.at_ms for e in found if e.what == "abandoned"), None)
        return self._endings[batch_id]

    def _batch(self, batch_id: int) -> tuple[BatchRow, Floor, _Files]:
        if batch_id not in self._batches:
            (row,) = batches(self._c, self._name, batch_id, batch_id)
            where = (b.c.pipeline == self._name, b.c.batch_id == batch_id)
            floor = loads(Floor, self._c.scalar(select(b.c.floor).where(*where)))
            found = rows_of(self._c, schema.batch_files, pipeline=self._name, batch_id=batch_id)
            self._batches[batch_id] = (row, floor, _Files(found))
        return self._batches[batch_id]

    def _window_around(self, window_ms: int, partition: int, offset: int) -> WindowFacts:
        """The window with those files of its generation only that may hold the row."""
        window, files = self._window(window_ms)
        if window.placed is None:
            return window
        return replace(window, placed=replace(window.placed, files=files.around(partition, offset)))

    def _window(self, window_ms: int) -> tuple[WindowFacts, _Files]:
        if window_ms not in self._windows:
            key = {"pipeline": self._name, "window_ms": window_ms}
            row = row_of(self._c, schema.windows, pipeline=self._name, start_ms=window_ms)
            others = tuple(map(generation_row, rows_of(self._c, schema.generations, **key)))
            placed = next((g for g in others if g.state == CURRENT), None) or next(
                (g for g in others if g.number == 1 and g.state in (BUILT, SWAPPING)), None
            )
            found = [] if placed is None else rows_of(self._c, schema.generation_files, **key, number=placed.number)
            if placed is not None:
                made = rows_of(self._c, schema.generation_batches, **key, number=placed.number, kind=LATE)
                placed = replace(placed, late=tuple(x.batch_id for x in made))
            facts = WindowFacts(window_ms, row and window_row(row), placed, others)
            self._windows[window_ms] = (facts, _Files(found))
        return self._windows[window_ms]


def _holds(batch: BatchRow, partition: int, offset: int) -> bool:
    return any(x.range.partition == partition and x.range.start <= offset < x.range.end for x in batch.ranges)
