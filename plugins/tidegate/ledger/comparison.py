"""What the ledger asks of a window or a generation before it is changed."""

from __future__ import annotations

from sqlalchemy import and_, select
from sqlalchemy.engine import Connection
from sqlalchemy.sql import ColumnElement

from tidegate.core.window import fencing, transitions
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import Generation, WindowKey
from tidegate.ledger import schema

w, g = schema.windows, schema.generations


def as_read(generation: Generation) -> ColumnElement:
    """Whether the generation's row is still as it was read: the comparison of its steps, as a question."""
    number, key = generation.number, generation.window
    row = transitions.of_generation(generation.pipeline, key.start_ms, number).row
    same = {**row, "state": generation.state, **fencing.as_read(generation)}
    return and_(*(g.c[column] == value for column, value in same.items()))


def lock(c: Connection, name: str, key: WindowKey) -> None:
    """One at a time on this window: what is read here and changed in another row must not cross (write skew)."""
    c.execute(select(w.c.state).where(w.c.pipeline == name, w.c.start_ms == key.start_ms).with_for_update())


def subject(key: WindowKey) -> str:
    return f"window {window_id(key.start_ms)}"
