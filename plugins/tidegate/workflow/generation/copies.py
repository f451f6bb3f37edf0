"""A copy of the source's table goes into a day: which one, and its rows as files of events (S1)."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.errors import NotReady, StorageAhead
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.copy.days import forgotten, inside, to_take
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


def taken(ctx: Context, before: Day | None, recorded: Day | None, published_ms: int | None = None) -> Taken:
    """What a day takes that is built on `before`: the newest copy that is whole, and that no day before has; of a day
    that is in force already, which is `recorded`, what that has. `published_ms`: when it was published first (UTC); if
    its record is lost, no copy that was whole later is in it.

    Raises NotReady while no copy is whole, though there must be one (S9'), StorageAhead (R11)."""
    if recorded is not None:
        return _of(ctx, recorded.taken) if recorded.taken else Taken()
    found, too_old = None, False
    if ctx.pipeline.copy is not None or published_ms is not None:
        found = to_take(ctx.ledger.copies.rounds(ctx.name), copied_of(before), published_ms)
    if found is not None:
        one = _of(ctx, found.number)
        if one.round is not None and one.round.low >= purged_of(before):
            return one
        too_old = True  # S7
        ctx.say(f"{ctx.name}: copy {found.number} is too old, its LOW is below a purge: {again(ctx)}")
    if ctx.pipeline.windows.copied and not copied_of(before) and published_ms is None:
        how = again(ctx) if too_old else f"{ctx.name}.copy reads it, or tidegate copy {ctx.name}"
        raise NotReady(f"{ctx.name}: {UNCOPIED}", advice=how)
    return Taken()


def again(ctx: Context) -> str:
    """What brings a copy that days take."""
    return f"read the whole table again: tidegate copy {ctx.name} --again --why ..."


def _of(ctx: Context, number: int) -> Taken:
    chunks = read_of(ctx, number)
    files = tuple(f for chunk in chunks for f in chunk_files(ctx, chunk))
    one = next(one for one in ctx.ledger.copies.rounds(ctx.name) if one.number == number)
    return Taken(inside(one, chunks), files, max(chunk.read_ms or 0 for chunk in chunks))


def read_of(ctx: Context, number: int) -> list[Chunk]:
    """Chunks of a copy that a day has taken. Raises StorageAhead for one that the ledger does not have as whole: by a
    part of it the sweep would take rows."""
    why = forgotten(ctx.ledger.copies.rounds(ctx.name), number)
    if why is not None:
        raise StorageAhead(
            f"{ctx.name}: {why}: it was restored",
            advice="restore a newer backup of the ledger: a day that is built again needs what was read; the days in "
            f"force stay as they are, and later ones can go on: {again(ctx)}",
        )
    return [one for one in ctx.ledger.copies.chunks(ctx.name, number) if one.state == ChunkState.READ]


def words(ctx: Context, key: WindowKey, copy: Taken) -> str:
    """Which copy a day takes, for its log: since when it is whole, and how exact its day is."""
    assert copy.round is not None
    low, count = copy.round.low, len(numbers(copy.round.chunks))
    rows = sum(f.rows for f in copy.files)
    of = f"copy {copy.round.number} is in it: {many(rows, 'row')} of {many(count, 'chunk')}, read from {low[:2]} on"
    if copy.read_ms <= key.end_ms:
        return f"{of}, before the day's end"
    return f"{of}, until {iso(copy.read_ms)}: a row that changed or went after the day's end may be as of then"
