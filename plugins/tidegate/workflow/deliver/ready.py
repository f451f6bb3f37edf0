"""What comes before the first window of a run: the checks of the ledger, and the table there."""

from __future__ import annotations

from contextlib import suppress

from tidegate.core.base.errors import LostComparison
from tidegate.core.deliver import units
from tidegate.core.deliver.sender import Sender
from tidegate.core.deliver.states import STANDING
from tidegate.core.spec.pipeline import Delivery
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import Context, guard
from tidegate.workflow.deliver.deliver import EVER

_WHY = "the table was missing there"


def prepare(ctx: Context, delivery: Delivery, sender: Sender) -> int:
    """How many windows stood in a table that is missing now: they are due again. Raises TidegateError.

    They are due before the table is there: an end in between finds it missing once more."""
    guard(ctx)
    preflight.check(ctx)
    lost = _nothing_stands(ctx, delivery) if sender.missing() else 0
    for line in sender.prepare():
        ctx.say(f"{ctx.name}: {line}")
    return lost


def _nothing_stands(ctx: Context, delivery: Delivery) -> int:
    ledger, lost = ctx.ledger.deliveries, 0
    for row in ledger.within(ctx.name, delivery.name, *EVER):
        if row.state == STANDING:
            with suppress(LostComparison):  # another task is at it
                ledger.again(row, _WHY)
                lost += 1
    if lost:
        told = units.counted(delivery.side, lost)
        ctx.say(f"{delivery.name}: {delivery.table} is missing there: {told} that stood in it are sent again")
    return lost
