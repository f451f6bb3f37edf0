"""Catalogue changes that may still be executed (R8): written before a change, removed by its answer.

Deadlines are set and judged by one clock, the database's: those of two hosts may differ by more than a request lives.
"""

from __future__ import annotations

import uuid
from typing import TypeAlias

from sqlalchemy import delete, func, insert, or_, select
from sqlalchemy.engine import Connection
from sqlalchemy.sql import ColumnElement

from tidegate.core.base.errors import CatalogueUnsure
from tidegate.core.base.instants import iso
from tidegate.core.window.states import BuiltGeneration, PublishedGeneration
from tidegate.ledger import schema

i = schema.intents


Instant: TypeAlias = ColumnElement | int
"""UTC ms by the database's clock, as SQL or as it was read."""


def refuse_doubt(
    c: Connection, generation: BuiltGeneration | PublishedGeneration, location: str, now_ms: Instant
) -> None:
    """Refuse to swap or retire while a change for another generation may still be executed. Raises CatalogueUnsure.

    Generations may share a location (swap: directory): a late DROP of one would hide rows of the next."""
    doubt = select(func.max(i.c.deadline_ms)).where(
        i.c.pipeline == generation.pipeline,
        i.c.window_ms == generation.window.start_ms,
        or_(i.c.location != location, i.c.number != generation.number),
        i.c.deadline_ms > now_ms,
    )
    until = c.scalar(doubt)
    if until is not None:
        raise CatalogueUnsure(
            f"an earlier change of window {iso(generation.window.start_ms)} got no answer and may still be executed",
            advice=f"nothing to do: tries after {iso(until)} go on",
        )


def declare(
    c: Connection, generation: BuiltGeneration | PublishedGeneration, location: str, deadline_ms: Instant
) -> str:
    call_id = uuid.uuid4().hex
    c.execute(
        insert(i).values(
            call_id=call_id,
            pipeline=generation.pipeline,
            window_ms=generation.window.start_ms,
            number=generation.number,
            location=location,
            deadline_ms=deadline_ms,
        )
    )
    return call_id


def answer(c: Connection, call_id: str) -> None:
    c.execute(delete(i).where(i.c.call_id == call_id))


def forget_outlived(c: Connection, name: str, window_ms: int, now_ms: Instant) -> None:
    c.execute(delete(i).where(i.c.pipeline == name, i.c.window_ms == window_ms, i.c.deadline_ms <= now_ms))
