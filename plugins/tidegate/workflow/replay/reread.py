"""Read a published window's table again: the next generation is another snapshot, the one before stays until cleaning
and can be brought back."""

from __future__ import annotations

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.instants import iso
from tidegate.core.window.states import CURRENT, REREAD, PublishedGeneration, WindowKey
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import ATTEMPTS, Context, Published, guard
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.base.turn import Turn
from tidegate.workflow.generation import makers, reread
from tidegate.workflow.publish import archive
from tidegate.workflow.replay.begin import begun, never_published


def read_again(ctx: Context, window: WindowKey) -> Published:
    """Publish a second reading of the window's table, unless its content is the same.

    What an earlier try began is read again whole. Raises NotReady if the window was never published, ReplayRefused
    where a second reading may not take the first one's place; SourceUnavailable and what a publication raises."""
    guard(ctx)
    preflight.check_publications(ctx)
    refuse(ctx, window)
    turn, number = Turn(ctx, window), 0
    for _ in range(ATTEMPTS):
        try:
            generation = begun(ctx, window, REREAD)
            number = generation.number
            return archive.finish(ctx, makers.maker(REREAD).build(ctx, generation))
        except (MovedOn, LostComparison):
            turn.give_way()
        done = ctx.ledger.windows.generation(ctx.name, window, number) if number else None
        if isinstance(done, PublishedGeneration) and done.state == CURRENT:
            return archive.standing(ctx, done, "read again")
    raise LostComparison(f"{ctx.name} {iso(window.start_ms)}: another task keeps working on this window")


def refuse(ctx: Context, window: WindowKey) -> PublishedGeneration:
    """The generation in force. Raises NotReady, ReplayRefused where there is to be no second reading; looks only."""
    current = in_force(ctx, window)
    if current is None:
        raise never_published(ctx, window)
    reread.first_reading(ctx, window, current)
    return current
