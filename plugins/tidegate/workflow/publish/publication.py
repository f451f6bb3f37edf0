"""Publish a built generation: prepare the table, record what is about to move, publish, CURRENT."""

from __future__ import annotations

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.wording import many
from tidegate.core.target.paths import CERTIFICATE
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import BuiltGeneration, PublishedGeneration
from tidegate.workflow.base import records, zone_data
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.publish.fence import WindowFence
from tidegate.workflow.side import late_files


def publish(ctx: Context, generation: BuiltGeneration) -> PublishedGeneration:
    """BUILT -> SWAPPING -> CURRENT. Every step looks before it acts; a new try starts again from the ledger.

    Storage records what is about to move (R11) before anything moves. The ledger is asked last (R12): what took long
    lies behind, and a database that failed over meanwhile may have forgotten the generation."""
    with ctx.target.session():
        return _publish(ctx, generation)


def _publish(ctx: Context, generation: BuiltGeneration) -> PublishedGeneration:
    zone_data.refuse_other_spelling(ctx, generation)
    ctx.target.prepare()  # before anything moves: a mismatch must not strand a swap
    location = ctx.target.place(generation)
    fence = WindowFence(ctx, generation)
    if not fence.still_mine():
        raise MovedOn
    records.mark_generation(ctx, generation, location)
    try:
        if of_kind(generation.kind).takes_up:
            late_files.hide(ctx, fence, location)
        moved = ctx.target.publish(fence, location)
        published = ctx.ledger.windows.publish(fence.built, location, f"{location}/{CERTIFICATE}", moved)
    except LostComparison:
        raise MovedOn from None
    rows = sum(f.rows for f in generation.files)
    ctx.say(f"published generation {generation.number}: {many(rows, 'row')} at {location}")
    return published
