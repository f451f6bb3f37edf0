"""What a delivery sends at once: an hour, or a batch's part of the late or the dirty table (D9).

A side table's delivery is called `<delivery>.late` or `<delivery>.dirty`: names in the YAML have no dots. Where an hour
is known by its start and its generation, a batch is known by its number and its version: 1 + how often rows of it have
left the table, because a generation of their hour has taken them up, or a redrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import DIRTY, LATE
from tidegate.core.window.cut import parse_window_id, window_id
from tidegate.core.window.states import WindowKey

SIDES = (LATE, DIRTY)
HeldBy = Sequence[tuple[str, int]]
"""(side, batch) whose rows have to leave another table there before a unit that has them now is sent (D11)."""
_SHOWN = 3


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


# ---------------------------------------------------------------- what has to leave first (D11)


def sides_beside(delivery: str, names: Iterable[str]) -> list[str]:
    """Side tables that are sent to where the delivery goes, by the names of all deliveries."""
    return [side_of(name) for name in names if side_of(name) and base_of(name) == base_of(delivery)]


def held_in_words(delivery: str, held: HeldBy) -> str:
    """`it holds late rows of batch 17, and shop.late does not stand without them yet`; empty: nothing holds it."""
    if not held:
        return ""
    sides = list(dict.fromkeys(side for side, _ in held))
    rows = ", ".join(f"{side} rows of {_batches([n for kind, n in held if kind == side])}" for side in sides)
    tables = " and ".join(name_of(base_of(delivery), side) for side in sides)
    return f"it holds {rows}, and {tables} {'does' if len(sides) == 1 else 'do'} not stand without them yet"


def held_way_on(pipeline: str, delivery: str, held: HeldBy) -> str:
    """What to do about it."""
    sides = dict.fromkeys(side for side, _ in held)
    tables = [name_of(base_of(delivery), side) for side in sides]
    command = f"tidegate deliver {pipeline} --to "
    first = ", ".join(f"{command}{name}" for name in tables)
    side, batch_id = held[0]
    skip = f"{command}{name_of(base_of(delivery), side)} --batch {batch_id} --skip --why '...'"
    return (
        f"nothing, if {' and '.join(tables)} {'gets' if len(tables) == 1 else 'get'} on: the next run sends it; to "
        f"send now: {first}, then {command}{delivery}; if that table cannot be sent: {skip} (such a row may be in two "
        "tables there then)"
    )


def _batches(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    more = f" and {len(numbers) - _SHOWN:,} more" if len(numbers) > _SHOWN else ""
    return f"{'batch' if len(numbers) == 1 else 'batches'} {shown}{more}"
