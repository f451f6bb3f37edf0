"""What is known of a copy, and the next commit that brings it into the keyed table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.base.errors import LostComparison, StorageAhead
from tidegate.core.copy.rounds import UNDER_WAY, Chunk, ChunkState, Round, RoundState, damaged
from tidegate.core.copy.steps import Chunks, brings, to_merge, too_old, unknown
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.commits import CopyIn
from tidegate.core.mirror.copied import Copied
from tidegate.core.mirror.jobs import EventFile
from tidegate.core.mirror.parts import server_of
from tidegate.core.target.paths import join
from tidegate.workflow.base.context import Context


@dataclass(frozen=True)
class CopyFacts:
    """Rounds in the order of their numbers, and chunks of those that are in the table or bring something yet."""

    rounds: list[Round]
    chunks: Chunks


def gather(ctx: Context, told: Told) -> CopyFacts:
    """What the ledger has. Raises StorageAhead where the table, as `told`, holds what it does not know.

    The table was read before: what was merged meanwhile is known to the ledger."""
    rounds = list(ctx.ledger.copies.rounds(ctx.name))
    # each comparison leaves a round behind that brings nothing, and this is asked for before each merge
    wanted = [one for one in rounds if _counts(one, rounds, told.copied)]
    chunks = {one.number: ctx.ledger.copies.chunks(ctx.name, one.number) for one in wanted}
    what = unknown(rounds, chunks, told.copied)
    if what is not None:
        one = "--server ... " if told.copied.servers else ""
        raise StorageAhead(
            f"{ctx.name}: {what}: it was restored",
            advice=f"read the whole source table again: tidegate copy {ctx.name} --again {one}--why ...",
        )
    return CopyFacts(rounds, chunks)


def _counts(one: Round, rounds: list[Round], table: Copied) -> bool:
    """Whether the table has anything of the round, or may get it, or it is being read."""
    return table.round(one.number) is not None or one.state in UNDER_WAY or brings(one, rounds, table)


def next_of_copy(ctx: Context, told: Told, most_rows: int) -> CopyIn | None:
    """The next commit of a copy, None if the table has all that was read. Chunks that may not be merged any more are to
    be read again; rounds that the table says are whole are so in the ledger, too. Raises StorageAhead."""
    if told.copied.newest == 0 and ctx.ledger.copies.newest(ctx.name) is None:
        return None
    facts = gather(ctx, told)
    for one in facts.rounds:
        inside = told.copied.round(one.number)
        if one.state == RoundState.OPEN and inside is not None and inside.swept:
            ctx.ledger.copies.whole(ctx.name, one.number)
            ctx.say(f"{ctx.name}: {one.words} is whole")
    commit = to_merge(facts.rounds, facts.chunks, told.copied, most_rows)
    if commit is None:
        return None
    if _send_back(ctx, told, commit.chunks, server_of(commit.step.part)):
        return next_of_copy(ctx, told, most_rows)
    return CopyIn(commit.step, tuple(f for chunk in commit.chunks for f in chunk_files(ctx, chunk)))


def same_for_a_copy(now: Told, before: Told) -> bool:
    """Whether a commit of a copy that was decided by `before` would be decided by `now`, too (S7, S8). Such a commit
    moves no `upto`, so that the number of batches says nothing of it."""
    first, second = ((replace(t.copied, complete=None), t.purged_below, t.begins) for t in (now, before))
    return first == second


def _send_back(ctx: Context, told: Told, chunks: tuple[Chunk, ...], server: str) -> bool:
    """Whether any of them, which are of a `server`, was too old (S7), or has lost files, and is CUT by now.

    A ledger of before a later copy (R11) has what that one stood for, and its files are gone."""
    found = False
    for chunk in chunks:
        of = told.of_server(server)
        old = too_old(chunk.position, told.copied, of.purged_below, of.begins or chunk.position, server)
        why = old or damaged(chunk.files, sizes(ctx, ctx.layout.copied(chunk.attempt)))
        if why is None:
            continue
        found = True
        try:
            ctx.ledger.copies.again(chunk, why)
            ctx.say(f"{ctx.name}: chunk {chunk.number} is read again: {why}")
        except LostComparison:
            pass  # another task has done it
    return found


def sizes(ctx: Context, home: str) -> dict[str, int]:
    """Lengths of the files in an attempt's directory, by path."""
    return {f.path: f.bytes for f in ctx.storage.list_files(home) or ()}


def chunk_files(ctx: Context, chunk: Chunk) -> list[EventFile]:
    """The rows of a READ chunk as files of events (S1)."""
    home = ctx.layout.copied(chunk.attempt)
    return [EventFile(chunk.batch_id, join(home, f.path), f.rows, f.bytes, n=chunk.round) for f in chunk.files]


def read_chunks(ctx: Context, copied: Copied) -> tuple[list[Chunk], list[Chunk]]:
    """READ chunks that the table holds, and those that wait to be merged; of what the ledger knows."""
    inside: list[Chunk] = []
    others: list[Chunk] = []
    rounds = list(ctx.ledger.copies.rounds(ctx.name))
    for one in rounds:
        held = copied.round(one.number)
        for chunk in ctx.ledger.copies.chunks(ctx.name, one.number):
            if chunk.state != ChunkState.READ:
                continue
            if held is not None and chunk.number in held:
                inside.append(chunk)
            elif brings(one, rounds, copied):
                others.append(chunk)
    return inside, others


def merged_chunks(ctx: Context, told: Told) -> list[Chunk]:
    """Those that the table, as `told`, holds. Raises StorageAhead."""
    facts = gather(ctx, told)
    what = unknown(facts.rounds, facts.chunks, told.copied, all_of_them=True)
    if what is not None:
        raise StorageAhead(f"{ctx.name}: {what}: it was restored, or the table was taken back and is not merged yet")
    return [
        chunk
        for inside in told.copied.rounds
        for chunk in facts.chunks.get(inside.number, ())
        if chunk.number in inside and chunk.state == ChunkState.READ
    ]
