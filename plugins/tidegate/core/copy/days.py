"""Copies of a table by days: one that is read as a whole goes into the next day that is built, all of it at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.core.copy.rounds import Chunk, ChunkState, Round, RoundState
from tidegate.core.mirror.copied import Copied, RoundIn, ranges


def whole(rounds: Iterable[Round]) -> bool:
    """Whether any copy of the whole source table has been read."""
    return any(one.state == RoundState.WHOLE and one.part is None for one in rounds)


def all_read(one: Round, chunks: Sequence[Chunk]) -> bool:
    """Whether nothing is left of a copy that is under way: from then on no chunk of it is read again."""
    return one.state == RoundState.OPEN and one.ended and all(c.state == ChunkState.READ for c in chunks)


def to_take(rounds: Iterable[Round], after: int) -> Round | None:
    """The copy that a day takes which is built on rows of copy `after` (0: of none): the newest one that is whole."""
    found = [one for one in rounds if one.state == RoundState.WHOLE and one.part is None and one.number > after]
    return max(found, key=lambda one: one.number, default=None)


def copied(rounds: Iterable[Round], chunks: Mapping[int, Sequence[Chunk]]) -> Copied:
    """What days say, or will say, of copies that are whole."""
    done = [one for one in rounds if one.state == RoundState.WHOLE]
    return Copied(tuple(inside(one, chunks[one.number]) for one in done))


def inside(one: Round, chunks: Sequence[Chunk]) -> RoundIn:
    """A whole copy as a table says it."""
    positions = [chunk.position for chunk in chunks]
    numbers = ranges([chunk.number for chunk in chunks])
    return RoundIn(one.number, min(positions), max(positions), numbers, swept=True, part=one.part)
