"""What copies leave behind: attempts of chunks that were overtaken."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tidegate.core.clean.copies import attempt_of_chunk
from tidegate.core.clean.rules import Verdict
from tidegate.core.copy.rounds import Chunk, Round, parse_attempt
from tidegate.core.target.paths import join
from tidegate.workflow.clean.round import Run

KIND = "copies"
_PLAN = ".json"


def clean_copies(run: Run) -> None:
    """The ledger is asked which attempt of each chunk was accepted; all others go once they are old, and so does what
    was read for a comparison only."""
    folder = run.ctx.layout.copies()
    found = {name: parse_attempt(name.removesuffix(_PLAN)) for name in run.names(folder)}
    known = run.ctx.ledger.copies.by_number(run.ctx.name, (a[0] for a in found.values() if a is not None))
    rounds = {one.number: one for one in run.ctx.ledger.copies.rounds(run.ctx.name)} if known else {}
    for name, attempt in sorted(found.items()):
        path = join(folder, name)
        if attempt is None:
            run.foreign(KIND, path)
            continue
        number, epoch, nonce = attempt
        verdict = _verdict(run, epoch, nonce, known.get(number), rounds)
        if not verdict.go:
            run.tell(KIND, path, verdict)
            continue
        run.delete(KIND, path, partial(_again, run, number, epoch, nonce))


def _again(run: Run, number: int, epoch: int, nonce: str) -> Verdict:
    """By what the ledger says now."""
    chunk = run.ctx.ledger.copies.by_number(run.ctx.name, [number]).get(number)
    rounds = {one.number: one for one in run.ctx.ledger.copies.rounds(run.ctx.name)}
    return _verdict(run, epoch, nonce, chunk, rounds)


def _verdict(run: Run, epoch: int, nonce: str, chunk: Chunk | None, rounds: Mapping[int, Round]) -> Verdict:
    of = None if chunk is None else rounds.get(chunk.round)
    return attempt_of_chunk(epoch, nonce, chunk, of, run.ttl, run.now_ms)
