"""What the ledger compares before it changes a window or a generation."""

from __future__ import annotations

from typing import Any

from sqlalchemy import and_, select
from sqlalchemy.engine import Connection

from tidegate.core.window.cut import window_id
from tidegate.core.window.states import BUILDING, BuildingGeneration, BuiltGeneration, PublishedGeneration, WindowKey
from tidegate.ledger import schema

w, g = schema.windows, schema.generations


def in_state(generation: BuiltGeneration | PublishedGeneration, state: str) -> Any:
    """Content counts too: in a ledger that lost commits a number can come twice."""
    return and_(
        g.c.pipeline == generation.pipeline,
        g.c.window_ms == generation.window.start_ms,
        g.c.number == generation.number,
        g.c.state == state,
        g.c.digest == generation.digest,
        *((g.c.epoch == generation.epoch,) if isinstance(generation, BuiltGeneration) else ()),
    )


def building(generation: BuildingGeneration) -> Any:
    """The comparison of everybody who assembles: still BUILDING, still this epoch (R3)."""
    return and_(
        g.c.pipeline == generation.pipeline,
        g.c.window_ms == generation.window.start_ms,
        g.c.number == generation.number,
        g.c.state == BUILDING,
        g.c.epoch == generation.epoch,
        g.c.nonce == generation.nonce,
    )


def lock(c: Connection, name: str, key: WindowKey) -> None:
    """One at a time on this window: what is read here and changed in another row must not cross (write skew)."""
    c.execute(select(w.c.state).where(w.c.pipeline == name, w.c.start_ms == key.start_ms).with_for_update())


def subject(key: WindowKey) -> str:
    return f"window {window_id(key.start_ms)}"
