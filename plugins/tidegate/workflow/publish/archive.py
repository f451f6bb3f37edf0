"""The window protocol: ready, close, assemble, publish; and what Clear does to a window that is published."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.base.errors import LostComparison, NotReady, StillClosing
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.window import readiness, watermark
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import (
    BUILT,
    CLOSED,
    CLOSING,
    DISCARDED,
    OPEN,
    BuildingGeneration,
    Generation,
    PublishedGeneration,
    Window,
    WindowKey,
)
from tidegate.workflow.base import give_up, preflight, zone_data
from tidegate.workflow.base.context import ATTEMPTS, Context, Published, guard
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.base.turn import Turn
from tidegate.workflow.completeness import ask
from tidegate.workflow.generation import daily, makers, merge
from tidegate.workflow.publish import publication, verification
from tidegate.workflow.window import readings, turn


def ready(ctx: Context, window: WindowKey) -> Certificate:
    """Whether the window may be closed; the answer is stored. A window that is closed already stays ready, unless the
    one that it is built on is not published."""
    guard(ctx)
    decided = ask.begun(ctx.ledger, ctx.name, window, ctx.clock)
    if decided is not None:
        return turn.in_turn(ctx.ledger, ctx.pipeline.windows, decided)
    facts = ctx.ledger.windows.facts(ctx.name)
    first = ask.first_of(ctx.ledger, ctx.name, facts)
    found = readings.with_note(_certify(ctx, window, facts, first), readings.note_of(ctx, window))
    certificate = turn.in_turn(ctx.ledger, ctx.pipeline.windows, found)
    certificate = ask.weighed(ask.counts_of(ctx), certificate)
    ctx.ledger.windows.save_certificate(certificate)
    return certificate


def _certify(ctx: Context, window: WindowKey, facts: watermark.TopicFacts, first: str = "") -> Certificate:
    return readiness.certify(ctx.name, ctx.pipeline.windows, facts, window, ctx.clock.now_ms(), first=first)


def publish(ctx: Context, window: WindowKey) -> Published:
    """Bring the window to a CURRENT generation that is whole in the table, from wherever it stands.

    Raises NotReady (retry) while it may not be closed, LostComparison (retry) when another task works on it,
    StorageAhead.
    """
    guard(ctx)
    preflight.check_publications(ctx)
    turn = Turn(ctx, window)
    for _ in range(ATTEMPTS):
        try:
            return _publish_once(ctx, window)
        except MovedOn:
            turn.give_way()  # somebody else took a step: read the ledger again, what is done is done
    raise LostComparison(f"{ctx.name} {iso(window.start_ms)}: another task keeps working on this window")


def _publish_once(ctx: Context, key: WindowKey) -> Published:
    window = close(ctx, key)
    generation = ctx.ledger.windows.generation(ctx.name, key, window.newest)
    if isinstance(generation, PublishedGeneration):
        return _verify(ctx, generation)
    return finish(ctx, generation)


def _verify(ctx: Context, generation: PublishedGeneration) -> Published:
    """Clear on a published window: a lost catalogue entry is added again, a lost file means a rebuild from Kafka."""
    found = verification.verify(ctx, generation)
    for line in found.mended:
        ctx.say(f"repaired: {line}")
    if not found.lost_files:
        ctx.say(f"generation {generation.number} is as it was published ({many(len(generation.files), 'file')})")
        daily.say_if_outdated(ctx, generation)
        return standing(ctx, generation, "verified")
    ctx.say(f"lost: {', '.join(found.lost_files[:5])}{' ...' if len(found.lost_files) > 5 else ''}: rebuilding")
    number = makers.maker(generation.kind).again(ctx, generation)
    return finish(ctx, ctx.ledger.windows.generation(ctx.name, generation.window, number))


def finish(ctx: Context, generation: Generation) -> Published:
    """Carry an unfinished generation to its end: BUILDING by a new epoch, BUILT and SWAPPING as they stand.

    Raises MovedOn if another task has finished or discarded it since it was begun."""
    if isinstance(generation, PublishedGeneration) or generation.state == DISCARDED:
        raise MovedOn
    if isinstance(generation, BuildingGeneration):
        daily.refuse_before_its_turn(ctx, generation.window)
        above = preflight.highest_epoch(ctx, generation.window, generation.number)
        taken = ctx.ledger.windows.take(ctx.name, generation.window, generation.number, ctx.nonce(), above)
        # once it is taken: whose record may come now swaps nothing in
        recorded = preflight.recorded_as_built(ctx, taken)
        if recorded is not None:
            return finish(ctx, give_up.remembered(ctx, recorded))
        generation = makers.maker(taken.kind).build(ctx, taken)
    if generation.state == BUILT:
        current = makers.maker(generation.kind).unchanged(ctx, generation)
        if current is not None:
            return replace(_verify(ctx, current), note="unchanged")
    published = publication.publish(ctx, generation)
    merge.drop_sources(ctx, published)
    daily.tell_of_later(ctx, published)
    return _published(ctx, published, new=True)


def announced(ctx: Context, published: Published) -> None:
    """Note that a new generation was told of; until then every try says it is new."""
    ctx.ledger.windows.announced(ctx.name, published.window, published.generation)


def standing(ctx: Context, generation: PublishedGeneration, note: str) -> Published:
    """The generation in force; it is new if an earlier try ended between publishing it and telling others."""
    if not generation.announced:
        return _published(ctx, generation, new=True)
    return _published(ctx, generation, new=False, note=note)


def _published(ctx: Context, generation: PublishedGeneration, new: bool, note: str = "") -> Published:
    if new:
        ctx.target.refresh()
    rows = sum(f.rows for f in generation.files)
    return Published(
        window=generation.window,
        generation=generation.number,
        new=new,
        rows=rows,
        digest=generation.digest,
        location=generation.location,
        note=note,
    )


def _begin_close(ctx: Context, key: WindowKey) -> Certificate:
    """Another system, if there is one, is asked before the transaction, which then decides by what it has said; and so
    is the window before, whose publication stays."""
    counts, windows = ask.counts_of(ctx), ctx.pipeline.windows
    if counts is not None or windows.follows:
        passed = _certify(ctx, key, ctx.ledger.windows.facts(ctx.name))
        known = turn.in_turn(ctx.ledger, windows, passed)
        if passed.ready and not known.ready:
            return known
        ask.weighed(counts, known)
    note = readings.note_of(ctx, key)
    return ctx.ledger.windows.begin_close(
        ctx.name, key, lambda f: readings.with_note(_certify(ctx, key, f), note), ask.weigher(counts)
    )


def close(ctx: Context, key: WindowKey) -> Window:
    """OPEN -> CLOSING -> CLOSED. Raises NotReady with the certificate, or with the batches that must land first."""
    for _ in range(ATTEMPTS):
        window = ctx.ledger.windows.get(ctx.name, key)
        if window.state == CLOSED:
            return window
        zone_data.refuse_to_close(ctx, key)
        preflight.check_given_up(ctx)
        try:
            if window.state == OPEN:
                preflight.check(ctx)
                certificate = _begin_close(ctx, key)
                if not certificate.ready:
                    raise NotReady(certificate.text(), advice="the sensor waits for this; clear the ready task")
                ctx.say(certificate.text())
            else:
                assert window.state == CLOSING
                waiting = ctx.ledger.windows.finish_close(ctx.name, key)
                if waiting:
                    batches = ", ".join(str(i) for i in waiting)
                    raise StillClosing(
                        f"{ctx.name} {iso(key.start_ms)} is closing: batch {batches} was planned before and must land",
                        advice=f"nothing if {ctx.name}.ingest is running; otherwise look at its last run",
                    )
        except LostComparison:
            continue  # a plan or another close came between: read again
    raise LostComparison(f"{ctx.name} {iso(key.start_ms)}: the ledger moved {ATTEMPTS} times while closing")
