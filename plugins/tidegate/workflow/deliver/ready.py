"""What comes before the first window of a run: the checks of the ledger, and the table there."""

from __future__ import annotations

from tidegate.core.base.errors import LostComparison
from tidegate.core.deliver import units
from tidegate.core.deliver.due import lost
from tidegate.core.deliver.port import Missing
from tidegate.core.deliver.sender import Sender
from tidegate.core.spec.pipeline import Delivery
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import ATTEMPTS, Context, guard
from tidegate.workflow.deliver.deliver import EVER

_WHY = "the table was missing there"
_WHY_PART = "a part of the table was missing there"


def prepare(ctx: Context, delivery: Delivery, sender: Sender) -> int:
    """How many windows stood in a table that is missing now, or had rows in a part of it that is: they are due again.
    Raises TidegateError.

    They are due before the table is there: an end in between finds it missing once more."""
    ctx.newest_spec()  # a later one ends the task, however many steps it has
    guard(ctx)
    preflight.check(ctx)
    missing = sender.missing()
    again = 0 if missing is None else _sent_again(ctx, delivery, missing)
    for line in sender.prepare():
        ctx.say(f"{ctx.name}: {line}")
    return again


def _sent_again(ctx: Context, delivery: Delivery, missing: Missing) -> int:
    ledger, count = ctx.ledger.deliveries, 0
    why = _WHY if missing.left is None else _WHY_PART
    for _ in range(ATTEMPTS):
        moved = False
        for row in lost(ledger.within(ctx.name, delivery.name, *EVER), missing):
            try:
                ledger.again(row, why)
                count += 1
            except LostComparison:  # its try has come to an end meanwhile, or another was begun: in the old table
                moved = True
        if not moved:
            break
    else:
        raise LostComparison(f"{ctx.name}: {delivery.table} is missing there, and others are sending; run it again")
    if count:
        told = units.counted(delivery.side, count)
        ctx.say(f"{delivery.name}: {delivery.table}: {why}: {told} with rows there are sent again")
    return count
