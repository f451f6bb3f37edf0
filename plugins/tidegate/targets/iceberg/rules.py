"""What a publication does about what it finds in the table (C4), decided from gathered facts."""

from __future__ import annotations

from enum import Enum

from tidegate.core.target.port import Token


class Held(Enum):
    """How what stands for a unit compares with its manifest."""

    EMPTY = "nothing stands, nothing should"
    AS_WRITTEN = "these files"
    REWRITTEN = "as many rows in each part, in files that others made of them (C9)"
    OTHER = "other rows"


class Do(Enum):
    """What is to be done about a unit."""

    NOTHING = "it stands"
    COMMIT = "replace what stands for it"
    STOP = "the table knows more than the ledger"
    REFUSE = "somebody else's rows stand for it"


def decide(mine: Token, newest: Token | None, held: Held, foreign: bool) -> Do:
    """`newest`: the unit's newest publication that the table knows of; snapshots expire, so None may be an old one.
    `foreign`: files stand for the unit that no publication can have brought."""
    if newest is not None and newest != mine and newest.generation >= mine.generation:
        return Do.STOP  # R11: a ledger that lost commits must not put an older generation over a newer one
    if newest == mine and held is not Held.OTHER:
        return Do.NOTHING
    if newest is None and held is Held.AS_WRITTEN:
        return Do.NOTHING
    if newest is None and foreign:
        return Do.REFUSE
    return Do.COMMIT
