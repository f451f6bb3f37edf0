"""What a publication does about what it finds in the table (C4), and which of the table's own files may go (C10),
decided from gathered facts."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import Enum

from tidegate.core.target.port import Token
from tidegate.targets.iceberg.names import Kind, Made


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


READERS_MS = 3_600_000
"""How long a reader may take from its look at the catalogue to the last of the table's own files that it opens."""


@dataclass(frozen=True, kw_only=True)
class Needed:
    """One look at a table. `named`: names of the files that its metadata, the log of that and all its snapshots name.

    `version`: of its metadata file, None if its name says none. `logged_ms`: since when the oldest metadata file of
    the log was the table; None for an empty log. `sequence`, `since_ms`: of the oldest snapshot from which the current
    one descends, and that the table still has; None for a table without any."""

    named: Set[str]
    version: int | None
    logged_ms: int | None
    sequence: int | None
    since_ms: int | None


def may_go(name: str, made: Made | None, needed: Needed, now_ms: int) -> bool:
    """C10: whether nobody can need the file any more, now or ever: what may go once may always go.

    A commit that has not been answered can be executed only while its number is not taken (C6), so older files are
    named or never will be; and nobody reads by what the table was before the oldest thing that it keeps, once that has
    been there for a while."""
    if made is None or name in needed.named:
        return False
    is_metadata = made.kind is Kind.METADATA
    since_ms = needed.logged_ms if is_metadata else needed.since_ms
    if since_ms is None or since_ms > now_ms - READERS_MS:
        return False
    if is_metadata:
        return needed.version is not None and made.number <= needed.version
    return needed.sequence is not None and made.number < needed.sequence
