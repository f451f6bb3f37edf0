"""Begin a rebuild of a published window: what others left unfinished is finished or given up first."""

from __future__ import annotations

from tidegate.core.base.errors import NotReady
from tidegate.core.base.instants import iso
from tidegate.core.look.overdue import backfill
from tidegate.core.window.kinds import of_kind, same_rows
from tidegate.core.window.states import (
    BUILT,
    BuildingGeneration,
    BuiltGeneration,
    GenerationKind,
    PublishedGeneration,
    WindowKey,
)
from tidegate.workflow.base import give_up, preflight
from tidegate.workflow.base.context import ATTEMPTS, Context
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.publish import archive


def begun(ctx: Context, key: WindowKey, kind: GenerationKind) -> BuildingGeneration:
    """The window's next generation, taken by a new epoch. Raises NotReady, MovedOn, LostComparison.

    An unfinished one is gone on with where its rows come from the same place: never files for what another has begun
    to read anew, nor the other way round."""
    for _ in range(ATTEMPTS):
        window = ctx.ledger.windows.get(ctx.name, key)
        if window.current is None:
            raise never_published(ctx, key)
        generation = ctx.ledger.windows.generation(ctx.name, key, window.newest)
        other = of_kind(generation.kind)
        if isinstance(generation, BuildingGeneration) and not other.decoded and not other.restores:
            archive.finish(ctx, generation)  # a reopening's late rows are to be in what is rebuilt
            continue
        if isinstance(generation, BuildingGeneration) and not same_rows(generation.kind, kind):
            _give_up(ctx, generation)
            continue
        if isinstance(generation, BuiltGeneration):
            # it was built by the spec of its time: one that readers may have met is finished, any other given up
            if generation.state == BUILT:
                _give_up(ctx, generation)
            else:
                archive.finish(ctx, generation)
            continue
        if isinstance(generation, PublishedGeneration):
            ctx.target.prepare()  # before an hour of Spark, not after it
            number = ctx.ledger.windows.begin_generation(ctx.name, key, generation.number, kind)
            ctx.say(f"rebuilding {iso(key.start_ms)} as generation {number}")
            generation = ctx.ledger.windows.generation(ctx.name, key, number)
        if not isinstance(generation, BuildingGeneration):
            continue
        above = preflight.highest_epoch(ctx, key, generation.number)
        taken = ctx.ledger.windows.take(ctx.name, key, generation.number, ctx.nonce(), above)
        recorded = preflight.recorded_as_built(ctx, taken)
        if recorded is None:
            return taken
        archive.finish(ctx, give_up.remembered(ctx, recorded))
    raise MovedOn


def _give_up(ctx: Context, generation: BuildingGeneration | BuiltGeneration) -> None:
    kept = give_up.give_up(ctx, generation, "a newer replay was asked for")
    if kept is not None:
        archive.finish(ctx, kept)


def never_published(ctx: Context, key: WindowKey) -> NotReady:
    """The error for a window that nothing can be rebuilt of."""
    return NotReady(
        f"{ctx.name} {iso(key.start_ms)} was never published: there is nothing to replay",
        advice=f"publish it first: {backfill(ctx.name, key, key)}",
    )
