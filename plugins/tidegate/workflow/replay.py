"""Replay a published window: generation g+1 beside g, the old one readable until the swap."""

from __future__ import annotations

from tidegate.core.errors import LostComparison, NotReady
from tidegate.core.instants import iso
from tidegate.core.tables import data_table
from tidegate.core.window import (
    BUILT,
    REOPEN,
    BuildingGeneration,
    BuiltGeneration,
    PublishedGeneration,
    WindowKey,
)
from tidegate.workflow import ahead, archive
from tidegate.workflow.context import ATTEMPTS, Context, Published, guard
from tidegate.workflow.moves import MovedOn
from tidegate.workflow.tables import bring_up


def replay(ctx: Context, window: WindowKey) -> Published:
    """Rebuild the window from Kafka with today's columns and publish it, unless its content is the same.

    What an earlier replay left BUILT is given up, SWAPPING is finished first. Raises NotReady if the window was never
    published, ReplayRefused if a rebuild would change what belongs to it."""
    guard(ctx)
    ahead.refuse_unknown_publications(ctx)
    for _ in range(ATTEMPTS):
        try:
            return _replay_once(ctx, window)
        except (MovedOn, LostComparison):
            continue
    raise LostComparison(f"{ctx.name} {iso(window.start_ms)}: another task keeps working on this window")


def _replay_once(ctx: Context, key: WindowKey) -> Published:
    window = ctx.ledger.windows.get(ctx.name, key)
    if window.current is None:
        raise NotReady(
            f"{ctx.name} {iso(key.start_ms)} was never published: there is nothing to replay",
            advice=f"publish it first: airflow dags backfill {ctx.name}.archive",
        )
    generation = ctx.ledger.windows.generation(ctx.name, key, window.newest)
    if isinstance(generation, BuildingGeneration) and generation.kind == REOPEN:
        archive.finish(ctx, generation)  # its late rows are to be in what is replayed
        raise MovedOn
    if isinstance(generation, BuiltGeneration):
        # it was built by the spec of its time: one that readers may have met is finished, any other given up
        if generation.state == BUILT:
            ctx.ledger.windows.discard(generation, "a newer replay was asked for")
        else:
            archive.finish(ctx, generation)
        raise MovedOn
    if isinstance(generation, PublishedGeneration):
        bring_up(ctx, data_table(ctx.pipeline))  # before an hour of Spark, not after it
        number = ctx.ledger.windows.begin_generation(ctx.name, key, generation.number, "replay")
        ctx.say(f"rebuilding {iso(key.start_ms)} as generation {number}")
        generation = ctx.ledger.windows.generation(ctx.name, key, number)
    return archive.finish(ctx, generation)
