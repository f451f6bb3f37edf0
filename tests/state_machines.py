"""The page of the state machines, from core's tables.

python -m tests.state_machines > docs/state-machines.md
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidegate.core.base.transition import NO_ROW, Transition
from tidegate.core.batch.transitions import TRANSITIONS as BATCHES
from tidegate.core.copy.transitions import CHUNK_TRANSITIONS, ROUND_TRANSITIONS
from tidegate.core.deliver.transitions import TRANSITIONS as DELIVERIES
from tidegate.core.mirror.transitions import TRANSITIONS as APPLIES
from tidegate.core.window.transitions import GENERATIONS, WINDOWS

PAGE = Path(__file__).parents[1] / "docs/state-machines.md"
_HEAD = """\
# State machines

Every change of a batch, a window, a generation, a merge, a copy, its chunks or a delivery is one of the steps below.
The tables are those of `core/batch/transitions.py`, `core/window/transitions.py`, `core/mirror/transitions.py`,
`core/copy/transitions.py` and `core/deliver/transitions.py`; `ledger/moves.py` executes them, each as one
compare-and-set: the row must be in a state of *from*, and what is *compared* must still be as it was read. A step that
is refused changes nothing. One whose answer is lost may have been taken or not: the next try reads the row again.

*event* is the line in the event log (`tidegate events`); a step without one is told by another of the same transaction.
Each machine begins with its changes of state, a row for each state it leaves, a column for each it reaches; the table
below that has every step.
"""


def page() -> str:
    """This page is written by hand nowhere."""
    parts = [_HEAD, _machine("Batches", "At most one batch of a pipeline is PLANNED, WRITING or SEALED.", BATCHES)]
    parts.append(_machine("Windows", "A window without a row is OPEN.", WINDOWS))
    parts.append(_machine("Generations", "At most one generation of a window is CURRENT.", GENERATIONS))
    parts.append(_machine("Merges", "Tries to merge batches into a keyed table; several may be OPEN.", APPLIES))
    said = "Readings of the whole source table; at most one of a pipeline is OPEN."
    parts.append(_machine("Copies", said, ROUND_TRANSITIONS))
    parts.append(
        _machine("Chunks", "Key ranges of a copy; whether one is in the table, the table tells.", CHUNK_TRANSITIONS)
    )
    said = "What stands of a window in a further system; one without a row was never sent."
    parts.append(_machine("Deliveries", said, DELIVERIES))
    return "\n".join(parts)


def _machine(title: str, said: str, transitions: Iterable[Transition]) -> str:
    steps = list(transitions)
    head = "| step | from | to | compared | event |\n|---|---|---|---|---|"
    rows = "\n".join(_row(one) for one in steps)
    return f"## {title}\n\n{said}\n\n{changes(steps)}\n\n{head}\n{rows}\n"


def changes(transitions: Iterable[Transition]) -> str:
    """The steps that lead from each state to each other one."""
    names: dict[tuple[str, str], list[str]] = {}
    for one in transitions:
        for start in one.start if one.end is not None else ():
            names.setdefault((start, one.end or NO_ROW), []).append(one.name)
    starts, ends = (list(dict.fromkeys(states)) for states in zip(*names, strict=True))
    rows = [(_shown(a), *(", ".join(names.get((a, z), ())) for z in ends)) for a in starts]
    lines = [("from", *(f"to {_shown(z)}" for z in ends)), ("---",) * (len(ends) + 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _shown(state: str) -> str:
    return "no row" if state == NO_ROW else state


def _row(one: Transition) -> str:
    start = ", ".join(map(_shown, one.start))
    end = {None: "stays", NO_ROW: "no row"}.get(one.end, one.end)
    return f"| {one.name} | {start} | {end} | {', '.join(f'`{g}`' for g in one.guards)} | {one.event or ''} |"


if __name__ == "__main__":
    print(page(), end="")
