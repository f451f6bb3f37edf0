"""What of copies may be deleted and forgotten: attempts that were overtaken, comparisons, and what was read again."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.base.instants import span
from tidegate.core.clean.rules import Verdict
from tidegate.core.copy.checksums import lap
from tidegate.core.copy.rounds import UNDER_WAY, Chunk, ChunkState, Round, RoundState
from tidegate.core.copy.steps import read_again_by
from tidegate.core.mirror.copied import Copied
from tidegate.core.spec.pipeline import Cleaning


def needless(one: Round, rounds: Sequence[Round], table: Copied, ttl: Cleaning, now_ms: int) -> str | None:
    """Why nobody needs what the round has read; None if somebody may. `table`: what a keyed table says of copies.

    A comparison that has ended is merged nowhere. Of another one a later round must be whole that has read all of its
    keys (`read_again_by`), for so long that no audit reads the files any more, and the table must name it no more: an
    audit makes the table's rows anew of the rounds that it names. What a tag names is merged again from a later one."""
    if one.state == RoundState.ENDED:
        return f"comparison {one.number} has ended" if _is_old(one, ttl, now_ms) else None
    later = read_again_by(one, rounds)
    if one.state in UNDER_WAY or later is None or table.round(one.number) is not None:
        return None
    return f"copy {later.number} has read its keys again" if _is_old(later, ttl, now_ms) else None


def forgettable(one: Round, rounds: Sequence[Round]) -> bool:
    """Whether the ledger can do without a round that is needless: its newest one says how far copies are, and by the
    comparisons of a lap the next one knows where to go on (`lap`)."""
    laps = lap(other for other in rounds if other.server == one.server)
    return one.number != rounds[-1].number and one.number not in {number for number, _ in laps}


def _is_old(one: Round, ttl: Cleaning, now_ms: int) -> bool:
    return ttl.attempts_ms is not None and one.done_ms is not None and now_ms - one.done_ms >= ttl.attempts_ms


def attempt_of_chunk(
    epoch: int, nonce: str, chunk: Chunk | None, of: Round | None, ttl: Cleaning, now_ms: int, why: str | None = None
) -> Verdict:
    """Whether the attempt is over for long enough. The newest one of a chunk that is CUT may be at work. `of`: the
    chunk's round; `why`: it is needless."""
    if chunk is None:
        return Verdict(False, "the ledger has no such chunk: it may have lost a commit", odd=True)
    if why is not None:
        return Verdict(True, why)
    if of is not None and of.state == RoundState.ENDED and ttl.attempts_ms is not None:
        return Verdict(False, f"comparison {of.number} has ended lately")
    if (chunk.epoch, chunk.nonce) == (epoch, nonce):
        why = "its rows are read" if chunk.state == ChunkState.READ else "it is the newest attempt"
        return Verdict(False, why)
    if epoch >= chunk.epoch:
        return Verdict(False, "the ledger has begun no such attempt: it may have lost a commit", odd=True)
    if ttl.attempts_ms is None:
        return Verdict(False, "clean.attempts: never")
    if chunk.tried_ms is None or now_ms - chunk.tried_ms < ttl.attempts_ms:
        return Verdict(False, f"it was overtaken less than {span(ttl.attempts_ms)} ago")
    return Verdict(True, f"attempt {chunk.epoch} of the chunk has overtaken it")
