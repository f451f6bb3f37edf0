"""What is true of each kind of generation: rules ask this table, not the kind's name."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.instants import iso
from tidegate.core.window.states import ARCHIVE, HEAL, REOPEN, REPLAY, REREAD, ROLLBACK, GenerationKind


@dataclass(frozen=True)
class Kind:
    """`landed`: its rows are those of its batches' landed files, as they were decoded then, and may be the only copy.
    `decoded`: all its rows are by the columns of the spec that built it. `takes_up`: late rows leave the late table for
    it. `restores`: its rows are those of an earlier generation, which the ledger names. `rereads`: they are of another
    reading of the source than its batch's.

    `command`: begins one, and goes on with it; None: the archive run does."""

    landed: bool = False
    decoded: bool = False
    takes_up: bool = False
    restores: bool = False
    rereads: bool = False
    command: str | None = None


_KINDS = {
    ARCHIVE: Kind(landed=True),
    HEAL: Kind(decoded=True),
    REPLAY: Kind(decoded=True, command="tidegate replay {name} {at}"),
    REOPEN: Kind(takes_up=True, command="tidegate reopen {name} {at}"),
    ROLLBACK: Kind(restores=True, command="tidegate rollback {name} {at} --why '...'"),
    REREAD: Kind(decoded=True, rereads=True, command="tidegate replay {name} {at} --from source"),
}


def of_kind(kind: GenerationKind) -> Kind:
    return _KINDS[kind]


def same_rows(a: GenerationKind, b: GenerationKind) -> bool:
    """Whether a rebuild of kind `b` may go on with an unfinished one of kind `a`: what has begun to read a table anew
    never gets rows of files, nor the other way round."""
    return of_kind(a).decoded and of_kind(b).decoded and of_kind(a).rereads == of_kind(b).rereads


def command_of(kind: GenerationKind, name: str, start_ms: int) -> str | None:
    """The command for the pipeline's window that starts then (UTC ms)."""
    command = of_kind(kind).command
    return None if command is None else command.format(name=name, at=iso(start_ms))
