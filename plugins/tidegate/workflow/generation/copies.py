"""A copy of the source's table goes into a day: which one, and its rows as files of events (S1)."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.errors import NotReady, StorageAhead
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.copy.days import inside, to_take
from tidegate.core.copy.rounds import Chunk, ChunkState
from tidegate.core.daily.day import Day, copied_of, purged_of
from tidegate.core.mirror.copied import RoundIn, numbers
from tidegate.core.mirror.jobs import EventFile
from tidegate.core.window.states import WindowKey
from tidegate.core.window.turn import UNCOPIED
from tidegate.workflow.apply.copies import chunk_files
from tidegate.workflow.base.context import Context


@dataclass(frozen=True)
class Taken:
    """`round`: the copy that a day takes, None for none; `files`: its rows. `read_ms`: when its last chunk was read
    (UTC)."""

    round: RoundIn | None = None
    files: tuple[EventFile, ...] = ()
    read_ms: int = 0


def taken(ctx: Context, before: Day | None, recorded: Day | None) -> Taken:
    """What a day takes that is built on `before`: the newest copy that is whole, and that no day before has; of a day
    that is in force already, which is `recorded`, what that has.

    Raises NotReady while no copy is whole, though there must be one (S9'), StorageAhead (R11)."""
    if recorded is not None:
        return _of(ctx, recorded.taken) if recorded.taken else Taken()
    found = to_take(ctx.ledger.copies.rounds(ctx.name), copied_of(before)) if ctx.pipeline.copy is not None else None
    if found is not None:
        one = _of(ctx, found.number)
        if one.round is not None and one.round.low >= purged_of(before):
            return one
        ctx.say(f"{ctx.name}: copy {found.number} is too old, its LOW is below a purge: read the table again")  # S7
    if ctx.pipeline.windows.copied and not copied_of(before):
        raise NotReady(f"{ctx.name}: {UNCOPIED}", advice=f"{ctx.name}.copy reads it, or tidegate copy")
    return Taken()


def _of(ctx: Context, number: int) -> Taken:
    chunks = read_of(ctx, number)
    files = tuple(f for chunk in chunks for f in chunk_files(ctx, chunk))
    one = next(one for one in ctx.ledger.copies.rounds(ctx.name) if one.number == number)
    return Taken(inside(one, chunks), files, max(chunk.read_ms or 0 for chunk in chunks))


def read_of(ctx: Context, number: int) -> list[Chunk]:
    """Chunks of a copy that a day has taken. Raises StorageAhead for one that the ledger does not have as read."""
    chunks = [one for one in ctx.ledger.copies.chunks(ctx.name, number) if one.state == ChunkState.READ]
    if not chunks:
        raise StorageAhead(
            f"{ctx.name}: the ledger does not have copy {number}, whose rows a day has taken: it was restored",
            advice="the day in force stays as it is; a day that is built anew needs what was read",
        )
    return chunks


def words(ctx: Context, key: WindowKey, copy: Taken) -> str:
    """Which copy a day takes, for its log: since when it is whole, and how exact its day is."""
    assert copy.round is not None
    low, count = copy.round.low, len(numbers(copy.round.chunks))
    rows = sum(f.rows for f in copy.files)
    of = f"copy {copy.round.number} is in it: {many(rows, 'row')} of {many(count, 'chunk')}, read from {low[:2]} on"
    if copy.read_ms <= key.end_ms:
        return f"{of}, before the day's end"
    return f"{of}, until {iso(copy.read_ms)}: a row that changed between the day's end and then may be the newer one"
