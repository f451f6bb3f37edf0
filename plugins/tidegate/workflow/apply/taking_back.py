"""Takes a keyed table back to a snapshot that a person names; merges go on from what that says of itself."""

from __future__ import annotations

from tidegate.core.mirror.applies import Told
from tidegate.workflow.apply.apply import Seen, compared, keyed, look
from tidegate.workflow.base.context import Context, guard


def at(ctx: Context, to: str) -> Seen:
    """The table as the tag `to`, or the snapshot of that id, has it, and the batches that it would lack then. Changes
    nothing. Raises CatalogueMismatch for one that is not whole, StorageAhead, Alarm, CatalogueError."""
    return compared(ctx, keyed(ctx).at(to))


def take_back(ctx: Context, to: str, why: str) -> Told:
    """Make it so, and write `why` to the event log. A second time changes nothing. What `at` refuses is refused.

    Raises LostComparison where another task has changed the table meanwhile, CatalogueError, CatalogueUnsure."""
    guard(ctx)
    table = keyed(ctx)
    now = table.take_back(to, lambda prefix: compared(ctx, prefix))
    ctx.say(f"{table.name} is at snapshot {now.snapshot}, with batches 1 to {now.upto}")
    return look(ctx, why=why).told
