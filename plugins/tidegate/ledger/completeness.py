"""What another system said of windows, in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import and_, func, insert, select, update
from sqlalchemy.engine import Connection

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.instants import iso
from tidegate.core.window.answer import Answer
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import WindowKey
from tidegate.ledger import schema
from tidegate.ledger.store import Part, columns, read_as, row_of

t, w = schema.truths, schema.windows


class SqlTruths(Part):
    def known(self, name: str, key: WindowKey, kinds: Iterable[str]) -> tuple[int, Answer | None]:
        totals = schema.batch_window_totals
        mine = and_(totals.c.pipeline == name, totals.c.window_ms == key.start_ms, totals.c.kind.in_(list(kinds)))
        with self._store.begin() as c:
            # another system counts by event time: rows that were rerouted here do not belong to the window
            rows = c.scalar(select(func.sum(totals.c.rows - totals.c.rerouted)).where(mine))
            return int(rows or 0), stored_answer(c, name, key)

    def save(self, name: str, key: WindowKey, answer: Answer, old: Answer | None) -> None:
        values = columns(answer, "source", "rows", "expected", "problem", "asked_ms", "since_ms")
        with self._store.begin() as c:
            if old is None:
                c.execute(insert(t).values(pipeline=name, window_ms=key.start_ms, **values))
            else:
                change = update(t).where(_still(name, key, old)).values(**values)
                self._store.compare_and_set(c, change, f"the count of window {iso(key.start_ms)}")

    def accept(self, name: str, key: WindowKey, answer: Answer, why: str) -> None:
        with self._store.begin() as c:
            if row_of(c, w, pipeline=name, start_ms=key.start_ms) is not None:
                raise LostComparison(f"window {iso(key.start_ms)} of {name} is closed already")
            change = update(t).where(_still(name, key, answer)).values(accepted=why)
            self._store.compare_and_set(c, change, f"the count of window {iso(key.start_ms)}")
            detail = columns(answer, "rows", "expected", "source") | {"why": why}
            self._store.note(c, name, "count accepted", f"window {window_id(key.start_ms)}", detail)


def waiting(c: Connection, names: Sequence[str]) -> dict[str, dict[int, Answer]]:
    """Answers about windows that are OPEN, by pipeline and start."""
    same = and_(w.c.pipeline == t.c.pipeline, w.c.start_ms == t.c.window_ms)
    statement = select(t).select_from(t.outerjoin(w, same)).where(t.c.pipeline.in_(names), w.c.state.is_(None))
    found: dict[str, dict[int, Answer]] = {}
    for row in c.execute(statement.order_by(t.c.pipeline, t.c.window_ms)):
        found.setdefault(row.pipeline, {})[row.window_ms] = answer_of(row)
    return found


def stored_answer(c: Connection, name: str, key: WindowKey) -> Answer | None:
    row = row_of(c, t, pipeline=name, window_ms=key.start_ms)
    return None if row is None else answer_of(row)


def answer_of(row: Any) -> Answer:
    return read_as(Answer, row)


def _still(name: str, key: WindowKey, answer: Answer) -> Any:
    """The comparison: not asked since, and not accepted."""
    return and_(
        t.c.pipeline == name, t.c.window_ms == key.start_ms, t.c.asked_ms == answer.asked_ms, t.c.accepted.is_(None)
    )
