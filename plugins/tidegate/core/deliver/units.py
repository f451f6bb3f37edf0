"""What a delivery sends at once: an hour, or a batch's part of the late or the dirty table (D9).

A side table's delivery is called `<delivery>.late` or `<delivery>.dirty`: names in the YAML have no dots. Where an hour
is known by its start and its generation, a batch is known by its number and its version: 1 + how often rows of it have
left the table, because a generation of their hour has taken them up, or a redrive.
"""

from __future__ import annotations

from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import DIRTY, LATE
from tidegate.core.window.cut import parse_window_id, window_id
from tidegate.core.window.states import WindowKey

SIDES = (LATE, DIRTY)


def name_of(delivery: str, side: str) -> str:
    """Of the delivery of a side table."""
    return f"{delivery}.{side}"


def side_of(delivery: str) -> str:
    """late | dirty; empty: it sends hours."""
    return delivery.partition(".")[2]


def base_of(delivery: str) -> str:
    """The name in the YAML."""
    return delivery.partition(".")[0]


def in_words(side: str, unit: int) -> str:
    """`batch 7`, or an hour's start."""
    return f"batch {unit}" if side else iso(unit)


def id_of(side: str, unit: int) -> str:
    """By which paths name it: `window_id` of its start, or a batch's number."""
    return str(unit) if side else window_id(unit)


def parsed(side: str, name: str) -> int:
    """What `id_of` named."""
    return int(name) if side else parse_window_id(name)


def counted(side: str, count: int) -> str:
    """`1 window`, `1,200 batches`."""
    return many(count, "batch" if side else "window")


def key_of(batch_id: int) -> WindowKey:
    """A batch, where units are named by their keys."""
    return WindowKey(batch_id, batch_id + 1)
