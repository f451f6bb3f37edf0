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


def to_take(rounds: Iterable[Round], after: int, by_ms: int | None = None) -> Round | None:
    """The copy that a day takes which is built on rows of copy `after` (0: of none): the newest one that is whole.
    `by_ms`: when the day was published first (UTC); None: it is not."""
    found = [one for one in rounds if one.state == RoundState.WHOLE and one.part is None and one.number > after]
    then = [one for one in found if by_ms is None or (one.done_ms or 0) <= by_ms]
    return max(then, key=lambda one: one.number, default=None)


def forgotten(rounds: Iterable[Round], taken: int) -> str | None:
    """Why the copy that a day has `taken` is not the ledger's one of that number (R11); None if it is, or none was."""
    state = next((one.state for one in rounds if one.number == taken), None)
    if not taken or state == RoundState.WHOLE:
        return None
    known = "does not know" if state is None else "does not have as whole"
    return f"a published day has the rows of copy {taken}, which the ledger {known}"


def copied(rounds: Iterable[Round], chunks: Mapping[int, Sequence[Chunk]], taken: RoundIn | None = None) -> Copied:
    """What days say, or will say, of copies that are whole. `taken`: the newest one that a day says it has."""
    done = {one.number: inside(one, chunks[one.number]) for one in rounds if one.state == RoundState.WHOLE}
    if taken is not None:
        done = {taken.number: taken} | done
    return Copied(tuple(done[number] for number in sorted(done)))


def inside(one: Round, chunks: Sequence[Chunk]) -> RoundIn:
    """A whole copy as a table says it."""
    positions = [chunk.position for chunk in chunks]
    numbers = ranges([chunk.number for chunk in chunks])
    return RoundIn(one.number, min(positions), max(positions), numbers, swept=True, part=one.part)
