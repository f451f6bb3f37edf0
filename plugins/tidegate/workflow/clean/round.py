"""One round of cleaning: what it asks the ledger, how it deletes, what it tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidegate.core.base.errors import LostComparison, StorageError
from tidegate.core.batch.states import ABANDONED, LANDED
from tidegate.core.clean import rules as rules
from tidegate.core.clean.rules import BatchAttempt, BatchFacts, GenerationFacts, Verdict
from tidegate.core.target.paths import Assembly
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import BUILDING, DISCARDED
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.pace import Pace

_FAILURES = 3
"""Deletions that storage refuses before a round gives up."""


@dataclass(frozen=True)
class Item:
    """`kind`: attempts | plans | landed | side | publish | generations | quarantine | metadata | merges | copies |
    rounds; of rounds of copies `path` is a name."""

    kind: str
    path: str
    why: str


@dataclass(frozen=True)
class Cleaned:
    """`kept`: what contradicts the ledger, or could not be deleted; `left`: the limit was reached, there is more."""

    deleted: tuple[Item, ...]
    kept: tuple[Item, ...]
    left: bool = False

    def lines(self) -> list[str]:
        """Words for a log."""
        counts = Counter(item.kind for item in self.deleted)
        said = [f"cleaned: {', '.join(f'{n:,} {kind}' for kind, n in sorted(counts.items()))}"] if counts else []
        said += [f"not cleaned: {item.path}: {item.why}" for item in self.kept]
        return said + (["there is more to clean: the next run goes on"] if self.left else [])


class Enough(Exception):
    """The limit is reached, or storage keeps refusing."""


class Run:
    """One round: the facts, the budget, and what was done."""

    def __init__(self, ctx: Context, limit: int, dry_run: bool) -> None:
        self.ctx, self.dry_run = ctx, dry_run
        self.now_ms, self.ttl = ctx.ledger.now_ms(), ctx.pipeline.clean
        self.deleted: list[Item] = []
        self.kept: list[Item] = []
        self.left = False
        self._limit, self._failures, self._pace = limit, 0, Pace(ctx.say)

    # ------------------------------------------------------------ facts

    def batch(self, batch_id: int) -> BatchFacts | None:
        return self.batches([batch_id]).get(batch_id)

    def batches(self, ids: Iterable[int]) -> dict[int, BatchFacts]:
        return self.ctx.ledger.cleaning.batches(self.ctx.name, ids)

    def generation(self, key: tuple[int, int]) -> GenerationFacts | None:
        return self.generations([key]).get(key)

    def generations(self, keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], GenerationFacts]:
        return self.ctx.ledger.cleaning.generations(self.ctx.name, keys)

    def names(self, directory: str) -> list[str]:
        return self.ctx.storage.list_names(directory) or []

    def since_ms(self, found: BatchAttempt | Assembly, facts: BatchFacts | GenerationFacts | None) -> int | None:
        """When an attempt was no longer needed."""
        if isinstance(facts, GenerationFacts) and isinstance(found, Assembly):
            subject = f"window {window_id(facts.window_ms)}"
            if facts.state == BUILDING:
                return rules.overtaken_ms(self.history(subject, "assembling"), found.epoch, facts.number)
            if facts.state == DISCARDED:
                return rules.newest_ms(self.history(subject, "discarded"), facts.number)
            return facts.built_ms
        if not isinstance(facts, BatchFacts):
            return None
        if facts.state == LANDED:
            return facts.landed_ms
        subject = f"batch {facts.batch_id}"
        if facts.state == ABANDONED:
            return max((m.at_ms for m in self.history(subject, "abandoned")), default=None)
        return rules.overtaken_ms(self.history(subject, "writing"), found.epoch)

    def newest_event_ms(self, subject: str) -> int | None:
        return max((m.at_ms for m in self.history(subject)), default=None)

    def history(self, subject: str, *whats: str) -> list[rules.Moment]:
        return self.ctx.ledger.cleaning.history(self.ctx.name, subject, whats)

    # ------------------------------------------------------------ acts

    def delete(self, kind: str, path: str, decide: Callable[[], Verdict]) -> bool:
        """Delete if `decide` says so of facts that it reads now. Whether it is gone; raises Enough at the limit."""
        try:
            verdict = decide()
            gone = verdict.go and self._is_gone(path)
        except StorageError as e:
            self.kept.append(Item(kind, path, f"could not be looked at: {e}"))
            return False
        if not verdict.go:
            self.tell(kind, path, verdict)
            return False
        if gone:
            return True
        self._refuse_more()
        if not self.dry_run and not self._delete(kind, path):
            return False
        self.deleted.append(Item(kind, path, verdict.why))
        self._pace.say(lambda: f"deleted {len(self.deleted):,}, now {path}")
        return True

    def forget(self, kind: str, name: str, why: str, act: Callable[[], object]) -> None:
        """Let the ledger forget something, unless another cleaner has done so. Raises Enough at the limit."""
        self._refuse_more()
        if not self.dry_run:
            try:
                act()
            except LostComparison:
                return
        self.deleted.append(Item(kind, name, why))

    def _refuse_more(self) -> None:
        if len(self.deleted) >= self._limit:
            self.left = True
            raise Enough

    def _is_gone(self, path: str) -> bool:
        """Some object stores name a directory long after its last file was deleted: that is no work of this round."""
        return not self.ctx.storage.renames and not self.ctx.storage.exists(path)

    def _delete(self, kind: str, path: str) -> bool:
        try:
            self.ctx.storage.delete(path)
        except StorageError as e:
            self.kept.append(Item(kind, path, f"could not be deleted: {e}"))
            self._failures += 1
            if self._failures >= _FAILURES:
                raise Enough from None
            return False
        return True

    def tell(self, kind: str, path: str, verdict: Verdict) -> None:
        """Note what is kept, if it is odd: nothing else is worth a line."""
        if verdict.odd:
            self.kept.append(Item(kind, path, verdict.why))

    def foreign(self, kind: str, path: str) -> None:
        self.kept.append(Item(kind, path, "not a name that Tidegate gives: find out whose it is"))

    def result(self) -> Cleaned:
        return Cleaned(tuple(self.deleted), tuple(self.kept), self.left)

    def note(self) -> None:
        """One event for the round, if it deleted anything."""
        if self.deleted and not self.dry_run:
            counts = Counter(item.kind for item in self.deleted)
            self.ctx.ledger.cleaning.cleaned(self.ctx.name, dict(counts), {k.path: k.why for k in self.kept[:20]})
