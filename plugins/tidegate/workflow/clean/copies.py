"""What copies leave behind: attempts of chunks that were overtaken, and what was compared, or read again since."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tidegate.core.clean.copies import attempt_of_chunk, forgettable, needless
from tidegate.core.clean.rules import Verdict
from tidegate.core.copy.rounds import Chunk, Round, parse_attempt
from tidegate.core.mirror.copied import NOTHING, Copied
from tidegate.core.target.paths import join
from tidegate.workflow.clean.round import Run

KIND, ROUNDS = "copies", "rounds"
_PLAN = ".json"


@dataclass(frozen=True)
class _Rounds:
    """A pipeline's by number, in their order, and what its table says of them; None of a table by days: what its days
    have taken of a copy is not known here, so that nothing of it goes."""

    all: dict[int, Round]
    table: Copied | None

    def why(self, run: Run, one: Round | None) -> str | None:
        """Why the round is needless; None if it is not."""
        if one is None or self.table is None:
            return None
        return needless(one, list(self.all.values()), self.table, run.ttl, run.now_ms)


def clean_copies(run: Run) -> None:
    """The ledger is asked which attempt of each chunk was accepted; all others go once they are old, and so does what
    was read for a comparison only, or was read again since. Then the ledger forgets such rounds."""
    folder = run.ctx.layout.copies()
    found = {name: parse_attempt(name.removesuffix(_PLAN)) for name in run.names(folder)}
    numbers = {a[0] for a in found.values() if a is not None}
    rounds, known = _rounds(run), run.ctx.ledger.copies.by_number(run.ctx.name, numbers)
    left: set[int] = set()
    for name, attempt in sorted(found.items()):
        path = join(folder, name)
        if attempt is None:
            run.foreign(KIND, path)
            continue
        number, epoch, nonce = attempt
        verdict = _verdict(run, epoch, nonce, known.get(number), rounds)
        if not verdict.go:
            run.tell(KIND, path, verdict)
            left.add(number)
        elif not run.delete(KIND, path, partial(_again, run, number, epoch, nonce)):
            left.add(number)
    _forget(run, rounds, {known[number].round for number in left if number in known})


def _again(run: Run, number: int, epoch: int, nonce: str) -> Verdict:
    """By what the ledger says now."""
    chunk = run.ctx.ledger.copies.by_number(run.ctx.name, [number]).get(number)
    return _verdict(run, epoch, nonce, chunk, _rounds(run))


def _rounds(run: Run) -> _Rounds:
    found = {one.number: one for one in run.ctx.ledger.copies.rounds(run.ctx.name)}
    if run.ctx.keyed is None:
        return _Rounds(found, None)
    told = run.ctx.ledger.applies.told(run.ctx.name)
    return _Rounds(found, NOTHING if told is None else told.copied)


def _verdict(run: Run, epoch: int, nonce: str, chunk: Chunk | None, rounds: _Rounds) -> Verdict:
    of = None if chunk is None else rounds.all.get(chunk.round)
    return attempt_of_chunk(epoch, nonce, chunk, of, run.ttl, run.now_ms, rounds.why(run, of))


def _forget(run: Run, rounds: _Rounds, kept: set[int]) -> None:
    """Rounds that have no files any more: a chunk's row says whose they are."""
    found = list(rounds.all.values())
    for one in found:
        why = rounds.why(run, one)
        if why is not None and one.number not in kept and forgettable(one, found):
            run.forget(ROUNDS, one.words, why, partial(run.ctx.ledger.copies.forget, one, why))
