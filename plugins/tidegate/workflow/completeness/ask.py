"""What another system says of a window: asked outside of every ledger transaction, stored, and decided by.

Our own rows are counted before the question, and the answer is stored with that count, by a comparison with the answer
that stood before: of two who ask at once one is stored, and both go on with that one. The transaction that begins to
close the window decides by the stored answer alone. It needs no newer one: what an answer calls complete had landed by
then, whatever lands later (`core.completeness.rules`), and any other is asked for again by the first task that looks
after `poll`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.base.clock import Clock
from tidegate.core.base.errors import LostComparison, StepMissing, TruthUnknown
from tidegate.core.base.instants import iso
from tidegate.core.batch.states import first_batch
from tidegate.core.completeness import rules
from tidegate.core.completeness.port import Truth, TruthLedger
from tidegate.core.completeness.rules import COMPLETE
from tidegate.core.ledger import Ledger
from tidegate.core.spec.pipeline import Completeness, Pipeline
from tidegate.core.window.answer import Answer, Comparison
from tidegate.core.window.readiness import Certificate, certify
from tidegate.core.window.states import OPEN, WindowKey
from tidegate.core.window.watermark import TopicFacts
from tidegate.workflow.base.context import Context
from tidegate.workflow.window import turn

LONGEST_PROBLEM = 500


@dataclass(frozen=True)
class Counts:
    """Who is asked for one pipeline, and where answers are kept."""

    pipeline: Pipeline
    settings: Completeness
    ledger: TruthLedger
    truth: Truth | None
    clock: Clock

    @property
    def name(self) -> str:
        return self.pipeline.name


def counts_of(ctx: Context) -> Counts | None:
    """None for a pipeline whose spec names no other system."""
    if ctx.pipeline.completeness is None:
        return None
    return Counts(ctx.pipeline, ctx.pipeline.completeness, ctx.ledger.truths, ctx.truth, ctx.clock)


def weighed(counts: Counts | None, certificate: Certificate) -> Certificate:
    """The certificate of a window with the other system's count, which is asked for if that is due.

    One whose watermark blocks it stays as it is: the other system is asked for whole windows only."""
    if counts is None or not _matters(counts.pipeline, certificate):
        return certificate
    return _weigh(counts, certificate, gather(counts, certificate.window))


def weigher(counts: Counts | None) -> Callable[[Certificate, Answer | None], Certificate] | None:
    """The rule for the transaction that begins to close the window: it decides by the stored answer alone."""
    if counts is None:
        return None
    return lambda certificate, answer: _weigh(counts, certificate, answer)


def look(pipeline: Pipeline, ledger: Ledger, truth: Truth | None, clock: Clock, window: WindowKey) -> Certificate:
    """Whether the window may be closed, for those that wait for that; the answer is stored. Raises LedgerError."""
    decided = begun(ledger, pipeline.name, window, clock)
    if decided is not None:
        return turn.in_turn(ledger, pipeline.windows, decided)
    settings = pipeline.completeness
    counts = None if settings is None else Counts(pipeline, settings, ledger.truths, truth, clock)
    facts = ledger.windows.facts(pipeline.name)
    first, now_ms = first_of(ledger, pipeline.name, facts), clock.now_ms()
    certificate = certify(pipeline.name, pipeline.windows, facts, window, now_ms, first=first)
    certificate = weighed(counts, turn.in_turn(ledger, pipeline.windows, certificate))
    ledger.windows.save_certificate(certificate)
    return certificate


def first_of(ledger: Ledger, name: str, facts: TopicFacts) -> str:
    """Words about where the first batch is; "" where none is open, or one has landed."""
    batch = ledger.batches.open(name) if facts.batch_id is None else None
    if batch is None:
        return ""
    number = batch.plan.batch_id
    stuck = ledger.batches.refusal(name, number) or f"batch {number}" in {
        b.subject for b in ledger.pipelines.blocks(name)
    }
    return first_batch(number, batch.state, bool(stuck))


def begun(ledger: Ledger, name: str, window: WindowKey, clock: Clock) -> Certificate | None:
    """The certificate of a window that is not OPEN any more: it was ready when it was closed, and stays so; None for an
    OPEN one.

    One that was adopted from storage has no such answer: no new one is asked for, which might say otherwise."""
    state = ledger.windows.get(name, window).state
    if state == OPEN:
        return None
    stored = ledger.windows.certificate(name, window)
    if stored is not None and stored.ready:
        return stored
    reason = f"it is {state} already; the ledger does not know by what answer"
    return Certificate(
        pipeline=name,
        window=window,
        ready=True,
        reason=reason,
        decided_ms=clock.now_ms(),
        batch_id=None,
        watermark_ms=None,
        partitions=(),
        blockers=(),
    )


def as_known(counts: Counts | None, certificate: Certificate) -> Certificate:
    """The certificate as `weighed` makes it, for people who only look: the other system is not asked."""
    if counts is None or not _matters(counts.pipeline, certificate):
        return certificate
    kinds = rules.counted_kinds(counts.settings)
    return _weigh(counts, certificate, counts.ledger.known(counts.name, certificate.window, kinds)[1])


def gather(counts: Counts, window: WindowKey, again: bool = False) -> Answer:
    """The answer that stands for the window: a new one if it is due (or asked for `again`), and stored.

    Raises LedgerError. What keeps the other system from answering is part of the answer."""
    settings, kinds = counts.settings, rules.counted_kinds(counts.settings)
    rows, old = counts.ledger.known(counts.name, window, kinds)
    now_ms = counts.clock.now_ms()
    settled = old is not None and old.accepted is not None
    if old is not None and (settled or not (again or rules.due(settings, old, rows, now_ms))):
        return old
    expected, problem = _ask(counts, window)
    answer = Answer(
        source=settings.source_name,
        rows=rows,
        expected=expected,
        problem=problem,
        asked_ms=now_ms,
        since_ms=now_ms if old is None else old.since_ms,
    )
    try:
        counts.ledger.save(counts.name, window, answer, old)
    except LostComparison:  # somebody else asked at the same time, or accepted what was there
        return counts.ledger.known(counts.name, window, kinds)[1] or answer
    return answer


def ask(ctx: Context, window: WindowKey) -> tuple[Answer, Comparison]:
    """An operator has the other system asked now. What was accepted stays.

    Raises StepMissing where it is asked nothing: too early, when it may not know all yet and its answer would be taken
    for its last, or too late."""
    counts = _counts(ctx, window)
    certificate = certify(
        ctx.name, ctx.pipeline.windows, ctx.ledger.windows.facts(ctx.name), window, ctx.clock.now_ms()
    )
    if not _matters(ctx.pipeline, certificate):
        raise StepMissing(
            f"{ctx.name} {iso(window.start_ms)}: its count is not asked for: {certificate.reason}",
            advice=""
            if certificate.ready
            else "look again once its watermark has passed; `tidegate explain` says when",
        )
    answer = gather(counts, window, again=True)
    return answer, rules.compare(counts.settings, answer, ctx.clock.now_ms())


def accept(ctx: Context, window: WindowKey, answer: Answer, why: str) -> None:
    """An operator has the window published with what is there, by the answer that was shown.

    Raises StepMissing where nothing waits for it, LostComparison (look again) if another answer stands there now."""
    settings = _counts(ctx, window).settings
    if rules.compare(settings, answer, ctx.clock.now_ms()).verdict == COMPLETE:
        raise StepMissing(f"{ctx.name} {iso(window.start_ms)} is complete: there is nothing to accept")
    ctx.ledger.truths.accept(ctx.name, window, answer, why)


def _counts(ctx: Context, window: WindowKey) -> Counts:
    """Counts for an OPEN window. Raises StepMissing."""
    counts = counts_of(ctx)
    if counts is None:
        raise StepMissing(f"{ctx.name} asks no other system for counts (completeness)")
    if ctx.ledger.windows.get(ctx.name, window).state != OPEN:
        raise StepMissing(
            f"{ctx.name} {iso(window.start_ms)} is closed already: nothing waits for its count",
            advice=f"`tidegate explain {ctx.name} {iso(window.start_ms)}` shows what it was closed on",
        )
    return counts


def _matters(pipeline: Pipeline, certificate: Certificate) -> bool:
    return certificate.ready and certificate.window.end_ms > pipeline.windows.start_ms


def _weigh(counts: Counts, certificate: Certificate, answer: Answer | None) -> Certificate:
    if not _matters(counts.pipeline, certificate):
        return certificate
    comparison = rules.compare(counts.settings, answer, counts.clock.now_ms())
    return rules.weighed(certificate, comparison)


def _ask(counts: Counts, window: WindowKey) -> tuple[int | None, str | None]:
    if counts.truth is None:
        return None, "nothing here is connected to it"
    try:
        return counts.truth.expected(window), None
    except TruthUnknown as e:
        return None, str(e).splitlines()[0][:LONGEST_PROBLEM]
