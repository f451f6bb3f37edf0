"""State machines as values: an arrow, and one row's step along it. The ledger has one function that executes a step.

A step has three answers. Done: the row was as it had been read, and has changed. Refused: it was not, and nothing has
changed (LostComparison). Unknown: the connection broke (LedgerError), so the row is read again before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from tidegate.core.base.errors import LostComparison

T = TypeVar("T")
NO_ROW = "-"
"""The state of what has no row, before it is begun and after it was withdrawn."""
NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Transition:
    """Rows in one of the states `start` whose columns `guards` are still as they were read get the state `end`, and
    `event` goes into the event log.

    `end` None: the state stays, other columns change. `stamps`: columns that get the database's time. `event` None: the
    event of another step of the same transaction tells it. `doing`: the step in an error's words, with the names of the
    row in braces."""

    name: str
    start: tuple[str, ...]
    end: str | None
    guards: tuple[str, ...] = ()
    stamps: tuple[str, ...] = ()
    event: str | None = None
    doing: str = ""

    @property
    def inserts(self) -> bool:
        return self.start == (NO_ROW,)

    @property
    def deletes(self) -> bool:
        return self.end == NO_ROW


@dataclass(frozen=True, kw_only=True)
class Step(Generic[T]):
    """One row along one arrow. `row`: the columns that name it. `as_read`: the guards' values. `states`: where it may
    be, one state if it has been read. `sets`: what changes beside the state. `after`: its value once it is done."""

    transition: Transition
    subject: str
    what: str
    row: Mapping[str, object]
    states: tuple[str, ...]
    as_read: Mapping[str, object]
    sets: Mapping[str, object]
    detail: Mapping[str, object]
    after: T


@dataclass(frozen=True, kw_only=True)
class Named:
    """A row: the columns that name it, its name in the event log, and its names in `Transition.doing`."""

    row: Mapping[str, object]
    subject: str
    words: Mapping[str, object] = field(default_factory=dict)


def step(
    transition: Transition,
    named: Named,
    after: T,
    *,
    state: str | None = None,
    as_read: Mapping[str, object] = NOTHING,
    sets: Mapping[str, object] = NOTHING,
    detail: Mapping[str, object] = NOTHING,
) -> Step[T]:
    """A step of the row that was read in `state`, or was not read (None). Raises LostComparison where no such arrow
    begins in that state, ValueError where a guard has no value to be compared with."""
    what = transition.doing.format(**named.words)
    if state is not None and state not in transition.start:
        raise LostComparison(f"{what}: {named.subject} was {state} when it was read")
    missing = set(transition.guards) - set(as_read)
    if missing:
        raise ValueError(f"{transition.name} of {named.subject} does not compare {', '.join(sorted(missing))}")
    return Step(
        transition=transition,
        subject=named.subject,
        what=what,
        row=named.row,
        states=transition.start if state is None else (state,),
        as_read={column: as_read[column] for column in transition.guards},
        sets=sets,
        detail=detail,
        after=after,
    )
