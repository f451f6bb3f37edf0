"""What of a copy's files may be deleted: those of attempts that were overtaken. What was accepted stays for good."""

from __future__ import annotations

from tidegate.core.base.instants import span
from tidegate.core.clean.rules import Verdict
from tidegate.core.copy.rounds import Chunk, ChunkState, Round, RoundState
from tidegate.core.spec.pipeline import Cleaning


def attempt_of_chunk(
    epoch: int, nonce: str, chunk: Chunk | None, of: Round | None, ttl: Cleaning, now_ms: int
) -> Verdict:
    """Whether the attempt is over for long enough. The newest one of a chunk that is CUT may be at work. `of`: the
    chunk's round; one that was compared is needed by nobody once it has ended."""
    if chunk is None:
        return Verdict(False, "the ledger has no such chunk: it may have lost a commit", odd=True)
    if of is not None and of.state == RoundState.ENDED and ttl.attempts_ms is not None:
        old = of.done_ms is not None and now_ms - of.done_ms >= ttl.attempts_ms
        return Verdict(old, f"comparison {of.number} has ended" + ("" if old else " lately"))
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
