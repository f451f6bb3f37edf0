"""Executes the steps of core's state machines: the one place that changes rows of batches, windows and generations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy import delete, insert, update
from sqlalchemy.engine import Connection
from sqlalchemy.sql import ClauseElement, ColumnElement

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.transition import NOTHING, Step, Transition
from tidegate.ledger.store import Store

T = TypeVar("T")


def move(
    store: Store,
    c: Connection,
    table: Any,
    step: Step[Any],
    content: Mapping[str, object] = NOTHING,
    now: int | None = None,
) -> None:
    """One row along one arrow, with its event, in the caller's transaction. `content`: further columns; `now`: the
    database's time, where the caller has read it.

    Raises LostComparison where the row is not as it was read; then nothing has changed. A connection that breaks raises
    LedgerError: whether the step was taken is unknown."""
    if not moved(store, c, table, step, content, now):
        raise LostComparison(f"{step.what}: somebody else has moved on")


def alone(store: Store, table: Any, step: Step[T]) -> T:
    """`move` in a transaction of its own; what the row is then."""
    with store.begin() as c:
        move(store, c, table, step)
    return step.after


def moved_alone(store: Store, table: Any, step: Step[Any]) -> None:
    """`moved` in a transaction of its own; whether it was due does not matter."""
    with store.begin() as c:
        moved(store, c, table, step)


def moved(
    store: Store,
    c: Connection,
    table: Any,
    step: Step[Any],
    content: Mapping[str, object] = NOTHING,
    now: int | None = None,
) -> bool:
    """Likewise; False instead of LostComparison, where a step that is not due any more is no mistake."""
    result = c.execute(_statement(store, table, step, content, now))
    done = step.transition.inserts or result.rowcount == 1
    if done and step.transition.event is not None:
        store.note(c, str(step.row["pipeline"]), step.transition.event, step.subject, dict(step.detail))
    return done


def move_all(
    store: Store,
    c: Connection,
    table: Any,
    transition: Transition,
    *which: ColumnElement,
    sets: Mapping[str, object] = NOTHING,
    now: int | None = None,
) -> int:
    """All rows that `which` names, and that are where the arrow begins; another step's event tells of them. Returns how
    many."""
    values = _values(store, transition, sets, now)
    count: int = c.execute(update(table).where(*which, table.c.state.in_(transition.start)).values(**values)).rowcount
    return count


def _statement(
    store: Store, table: Any, step: Step[Any], content: Mapping[str, object], now: int | None
) -> ClauseElement:
    transition = step.transition
    values = _values(store, transition, {**step.sets, **content}, now)
    if transition.inserts:
        return insert(table).values(**step.row, **values)
    where = compared(table, step)
    return delete(table).where(*where) if transition.deletes else update(table).where(*where).values(**values)


def compared(table: Any, step: Step[Any]) -> list[ColumnElement]:
    """The row, in the state and with the guards that were read: the comparison of every change."""
    same = [table.c[column] == value for column, value in (*step.row.items(), *step.as_read.items())]
    return [*same, table.c.state.in_(step.states)]


def _values(store: Store, transition: Transition, sets: Mapping[str, object], now: int | None) -> dict[str, object]:
    stamps = dict.fromkeys(transition.stamps, store.instant if now is None else now)
    state = {} if transition.end is None else {"state": transition.end}
    return {**stamps, **sets, **state}
