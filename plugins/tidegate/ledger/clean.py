"""What a cleaner asks the ledger, and what it tells it afterwards."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

from sqlalchemy import and_, exists, func, or_, select
from sqlalchemy.engine import Connection

from tidegate.core.batch import transitions as batch
from tidegate.core.batch.states import LANDED
from tidegate.core.clean.rules import BatchFacts, GenerationFacts, Moment
from tidegate.core.files.receipt import DATA
from tidegate.core.window import transitions as window
from tidegate.core.window.states import CURRENT, DISCARDED, RETIRED, ROLLBACK, WindowKey
from tidegate.core.window.transitions import SET_ASIDE, UNFINISHED
from tidegate.ledger import moves, schema
from tidegate.ledger.comparison import lock
from tidegate.ledger.reads_rows import grouped
from tidegate.ledger.store import Part, in_parts, matched, read_as

b, g, i = schema.batches, schema.generations, schema.intents


class SqlCleaning(Part):
    """core.ledger.CleaningLedger."""

    # ------------------------------------------------------------ looking

    def batches(self, name: str, ids: Iterable[int]) -> dict[int, BatchFacts]:
        found: dict[int, BatchFacts] = {}
        with self._store.begin() as c:
            newest = c.scalar(select(func.max(b.c.batch_id)).where(b.c.pipeline == name))
            for part in in_parts(ids):
                unpublished = self._unpublished(c, name, part)
                for r in c.execute(select(b).where(b.c.pipeline == name, b.c.batch_id.in_(part))):
                    owed = tuple(unpublished.get(r.batch_id, ()))
                    found[r.batch_id] = read_as(BatchFacts, r, newest=r.batch_id == newest, unpublished=owed)
        return found

    def _unpublished(self, c: Connection, name: str, ids: list[int]) -> dict[int, list[int]]:
        """Windows that a batch owes rows to, without a generation in force that was made of it."""
        t, made = schema.batch_window_totals, schema.generation_batches
        of_it = and_(matched(made, g, "window_ms", "number"), made.c.batch_id == t.c.batch_id)
        mine = and_(g.c.pipeline == name, g.c.window_ms == t.c.window_ms, g.c.state == CURRENT)
        in_force = exists().where(mine, of_it)
        statement = select(t.c.batch_id, t.c.window_ms).distinct()
        owed = statement.where(t.c.pipeline == name, t.c.batch_id.in_(ids), t.c.kind == DATA, ~in_force)
        found: dict[int, list[int]] = defaultdict(list)
        for row in c.execute(owed.order_by(t.c.batch_id, t.c.window_ms)):
            found[row.batch_id].append(row.window_ms)
        return found

    def uncleaned_batches(self, name: str, after: int, landed_before_ms: int, limit: int) -> list[int]:
        statement = select(b.c.batch_id).where(
            b.c.pipeline == name,
            b.c.state == LANDED,
            b.c.cleaned_ms.is_(None),
            b.c.landed_ms <= landed_before_ms,
            b.c.batch_id > after,
        )
        with self._store.begin() as c:
            return list(c.scalars(statement.order_by(b.c.batch_id).limit(limit)))

    def generations(self, name: str, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], GenerationFacts]:
        keys, found = set(wanted), {}
        with self._store.begin() as c:
            for windows in in_parts(window_ms for window_ms, _ in keys):
                for facts in self._generations(c, name, windows):
                    if (facts.window_ms, facts.number) in keys:
                        found[facts.window_ms, facts.number] = facts
        return found

    def _generations(self, c: Connection, name: str, windows: list[int]) -> Iterator[GenerationFacts]:
        """Every generation of these windows."""
        w = schema.windows
        doubts: dict[int, list[str]] = defaultdict(list)
        pending = select(i).where(i.c.pipeline == name, i.c.window_ms.in_(windows))
        pending = pending.where(i.c.deadline_ms > self._store.instant)
        for row in c.execute(pending.order_by(i.c.call_id)):
            doubts[row.window_ms].append(row.location)
        alarmed = select(w.c.start_ms).where(w.c.pipeline == name, w.c.start_ms.in_(windows), w.c.blocked.is_not(None))
        blocked = set(c.scalars(alarmed))
        statement = select(g).where(g.c.pipeline == name, g.c.window_ms.in_(windows))
        rows = grouped(c.execute(statement.order_by(g.c.window_ms, g.c.number)), lambda row: row.window_ms)
        for window_ms, all_of in rows.items():
            current = next((r.number for r in all_of if r.state == CURRENT), None)
            for r in all_of:
                yield read_as(
                    GenerationFacts,
                    r,
                    current=current,
                    newer_retired=sum(o.state == RETIRED and o.number > r.number for o in all_of),
                    doubts=tuple(doubts[window_ms]),
                    blocked=window_ms in blocked,
                    working=any(o.state in UNFINISHED and o.number != r.number for o in all_of),
                )

    def uncleaned_generations(self, name: str, after: tuple[int, int], limit: int) -> list[tuple[int, int]]:
        window_ms, number = after
        later = or_(g.c.window_ms > window_ms, and_(g.c.window_ms == window_ms, g.c.number > number))
        statement = select(g.c.window_ms, g.c.number).where(
            g.c.pipeline == name, g.c.state.in_(SET_ASIDE), g.c.cleaned_ms.is_(None), later
        )
        with self._store.begin() as c:
            found = c.execute(statement.order_by(g.c.window_ms, g.c.number).limit(limit))
            return [(row.window_ms, row.number) for row in found]

    def history(self, name: str, subject: str, whats: Iterable[str] = ()) -> list[Moment]:
        e, wanted = schema.events, tuple(whats)
        statement = select(e.c.at_ms, e.c.what, e.c.detail).where(e.c.pipeline == name, e.c.subject == subject)
        if wanted:
            statement = statement.where(e.c.what.in_(wanted))
        with self._store.begin() as c:
            return [Moment(r.at_ms, r.what, json.loads(r.detail)) for r in c.execute(statement.order_by(e.c.id))]

    # ------------------------------------------------------------ changing

    def batch_cleaned(self, name: str, batch_id: int) -> None:
        moves.moved_alone(self._store, b, batch.clean(name, batch_id))

    def generation_goes(self, name: str, window_ms: int, number: int) -> bool:
        mine = and_(g.c.pipeline == name, g.c.window_ms == window_ms)
        with self._store.begin() as c:
            lock(c, name, WindowKey(window_ms, window_ms))
            given_up = and_(g.c.state == DISCARDED, g.c.kind == ROLLBACK, g.c.cleaned_ms.is_(None))
            if c.scalar(select(func.count()).where(mine, or_(g.c.state.in_(UNFINISHED), given_up))):
                return False  # a rollback may have begun with its files, or have a request on its way
            moves.moved(self._store, c, g, window.begin_cleaning(name, window_ms, number))
            marked = select(g.c.cleaning_ms).where(mine, g.c.number == number, g.c.state == RETIRED)
            return c.scalar(marked) is not None

    def generation_cleaned(self, name: str, window_ms: int, number: int) -> None:
        moves.moved_alone(self._store, g, window.clean(name, window_ms, number))

    def cleaned(self, name: str, counts: dict[str, int], kept: dict[str, str]) -> None:
        with self._store.begin() as c:
            self._store.note(c, name, "cleaned", f"pipeline {name}", {"deleted": counts, "kept": kept})
