"""What is to be done next of a copy: which chunks to read, which to merge, when a sweep ends a round (S4 to S8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidegate.core.copy.port import Bound, KeyRange
from tidegate.core.copy.rounds import BRINGS_NOTHING, UNDER_WAY, Chunk, ChunkState, Round, RoundState
from tidegate.core.mirror.copied import Copied, CopyStep, numbers
from tidegate.core.mirror.jobs import Position, spelled
from tidegate.core.mirror.parts import KeyPart, covers, is_all

Chunks = Mapping[int, Sequence[Chunk]]
"""Chunks by their round."""


# ---------------------------------------------------------------- which rounds bring something


def read_again_by(one: Round, rounds: Iterable[Round]) -> Round | None:
    """Return the first later round that is whole and has read all keys of this one; None without one.

    No row of a table in which that one is whole is of this one. Wherever a table may be taken back to, that one is
    merged there, and what was read before it is left out: its files may be gone."""
    later = (other for other in rounds if other.number > one.number and other.state == RoundState.WHOLE)
    return next((other for other in later if covers(other.part, one.part)), None)


def brings(one: Round, rounds: Sequence[Round], table: Copied) -> bool:
    """Whether the table may get anything of the round (S6): rounds of a server come in the order of their numbers;
    those that were given up bring nothing more, and nor do those of which a later one has read all keys."""
    if one.state in (*BRINGS_NOTHING, RoundState.COMPARED) or one.number < table.newest_of(one.server):
        return False
    return read_again_by(one, rounds) is None


# ---------------------------------------------------------------- reading


def of_server(rounds: Iterable[Round], server: str) -> list[Round]:
    """Its rounds, in order. Those of before its rows were dropped (S11) say nothing of it any more."""
    mine = [one for one in rounds if one.server == server]
    dropped = max((one.number for one in mine if one.drops), default=0)
    return [one for one in mine if one.number > dropped]


def unread_servers(names: Sequence[str], rounds: Sequence[Round]) -> list[str]:
    """Servers whose round is open, or which have no whole one of all their keys, in the order of `names`. Each has
    rounds of its own (S6): one that is down holds up no other."""
    mine = {name: of_server(rounds, name) for name in names}
    opened = {name for name in names if any(one.state == RoundState.OPEN for one in mine[name])}
    whole = {name for name in names if any(one.state == RoundState.WHOLE and is_all(one.part) for one in mine[name])}
    return [name for name in names if name in opened or name not in whole]


def to_read(rounds: Iterable[Round], chunks: Chunks, compared: bool = False) -> tuple[Round, list[Chunk]] | None:
    """The oldest round with something left to cut or to read, and its chunks that are cut and not read; None if all is
    read. One that was given up is left alone, and one that is `compared` is left to who compares it."""
    for one in rounds:
        left = [c for c in chunks.get(one.number, ()) if c.state == ChunkState.CUT]
        left.sort(key=lambda c: c.tried_ms or 0)  # what no other task may be reading now comes first
        wanted = one.state not in BRINGS_NOTHING and (one.state == RoundState.COMPARED) == compared
        if wanted and (left or (one.state in UNDER_WAY and not one.ended)):
            return one, left
    return None


def cut(
    after: Bound | None, bounds: Sequence[Bound], most: int, part: KeyPart | None = None
) -> tuple[list[KeyRange], bool]:
    """Ranges behind `after`, and whether they are the last ones. `bounds`: upper ends that the database gave, `most` of
    them were asked for: fewer mean that the table ends behind the last one. A `part` ends at its last key."""
    last = None if part is None else part.bounds[1]
    inside = [bound for bound in bounds if last is None or bound < last]
    ends = [after, *inside]
    found = [KeyRange(low, high) for low, high in pairwise(ends)]
    ended = len(inside) < most
    return ([*found, KeyRange(ends[-1], last)] if ended else found), ended


def uncut(
    tables: Sequence[str], chunks: Sequence[Chunk], part: KeyPart | None = None
) -> list[tuple[str, Bound | None]]:
    """Tables that are not cut to their end, or to that of the `part`, in order, each with the bound behind which it
    goes on; None: from its beginning. One that has come meanwhile is cut too."""
    first, end = (None, None) if part is None else part.bounds
    last: dict[str, Bound | None] = {chunk.table: chunk.keys.upper for chunk in chunks}
    return [(name, last.get(name, first)) for name in tables if name not in last or last[name] != end]


def unread_topic(begins: Position | None, by_days: bool = False) -> str | None:
    """S4: why nothing can be read yet: the topic must have shown that its events began before the first query. Events
    of a mirror `by_days` show it from their landing until their day is built."""
    if begins is not None:
        return None
    missing, then = ("waits for its day", "land") if by_days else ("has been merged yet", "be merged")
    return (
        f"no event of the table {missing}, so that nothing shows that the topic has all changes from here on: "
        "start the connector, change a row of the table (to another value: MariaDB logs no update to the same one), "
        f"and let it {then}"
    )


def too_old(
    position: Position, table: Copied, purged_below: Position, begins: Position, server: str = ""
) -> str | None:
    """Why a chunk that was read at this position, (LOW, round), of a `server`, may not be merged: it is to be read
    again. None if it may. `begins`: of that server's events.

    S4: events between it and the beginning of the topic would be missing; of the commit that the topic begins with the
    query has seen all (S2), and its LOW names no row of it (PostgreSQL). S7: tombstones that would outdate its rows
    were purged. S5: its round would not be newer than all that earlier ones have read."""
    if position[0] < begins[0]:
        return f"its LOW is before the topic begins, at {spelled(begins)}"
    if position < purged_below:
        return f"its LOW is below the purge at {spelled(purged_below)}"
    floor = table.floor(position[2], server)
    if position < floor:
        return f"its LOW is below that of an earlier copy at {spelled(floor)}"
    return None


# ---------------------------------------------------------------- merging


@dataclass(frozen=True)
class CopyCommit:
    """What a commit of the keyed table does of a copy. `chunks`: none of a sweep."""

    step: CopyStep
    chunks: tuple[Chunk, ...] = ()


def to_merge(rounds: Sequence[Round], chunks: Chunks, table: Copied, most_rows: int) -> CopyCommit | None:
    """The next commit, by what the table says is in it (S8): read chunks of the oldest round that has any which it
    lacks, and once it has all of a round, the sweep that ends it. None if the table has all that is read. A round that
    is not read to its end stops later ones of its server alone."""
    stopped: set[str] = set()
    for one in (each for each in rounds if brings(each, rounds, table)):
        if one.server in stopped:
            continue
        mine, inside = chunks.get(one.number, ()), table.round(one.number)
        lacking = [c for c in mine if c.state == ChunkState.READ and (inside is None or c.number not in inside)]
        if lacking:
            return _merge(one, _some(lacking, most_rows))
        if not one.ended or any(c.state != ChunkState.READ for c in mine):
            stopped.add(one.server)
        elif inside is not None and not inside.swept:
            return CopyCommit(CopyStep(round=one.number, low=inside.low, sweep=True, part=one.part))
    return None


def _some(chunks: Sequence[Chunk], most_rows: int) -> list[Chunk]:
    """At least one, and no further one once there are so many rows."""
    found: list[Chunk] = []
    for chunk in chunks:
        if found and sum(c.rows for c in found) + chunk.rows > most_rows:
            break
        found.append(chunk)
    return found


def _merge(one: Round, chunks: Sequence[Chunk]) -> CopyCommit:
    highs = [(*c.high, 0) for c in chunks if c.high is not None]
    step = CopyStep(
        round=one.number,
        chunks=tuple(c.number for c in chunks),
        low=min(c.position for c in chunks),
        top=max(c.position for c in chunks),
        high=max(highs),
        part=one.part,
    )
    return CopyCommit(step, tuple(chunks))


# ---------------------------------------------------------------- a ledger that was restored


def unknown(rounds: Iterable[Round], chunks: Chunks, table: Copied, all_of_them: bool = False) -> str | None:
    """What the table holds and the ledger does not know (R11): the same numbers would be given to other key ranges.
    None if it knows all of its newest round, of each server, which alone brings more; `all_of_them`: of every round."""
    known = {one.number: {c.number for c in chunks.get(one.number, ()) if c.state == ChunkState.READ} for one in rounds}
    newest = {one.server: one.number for one in sorted(rounds, key=lambda one: one.number)}
    for inside in table.rounds:
        if not all_of_them and inside.number < newest.get(inside.server, 0):
            continue
        of = f"copy {inside.number}" + (f" of server {inside.server}" if inside.server else "")
        if inside.number not in known:
            return f"the table holds rows of {of}, which the ledger does not know"
        missing = [n for n in numbers(inside.chunks) if n not in known[inside.number]]
        if missing:
            return f"the table holds chunk {missing[0]} of {of}, which the ledger does not have as read"
    return None
