"""What comes before the first window of a run: the checks of the ledger, and the table there."""

from __future__ import annotations

from contextlib import suppress

from tidegate.core.base.errors import LedgerError, LostComparison, TidegateError
from tidegate.core.deliver import units
from tidegate.core.deliver.due import behind, lost
from tidegate.core.deliver.port import Missing
from tidegate.core.deliver.sender import Sender
from tidegate.core.deliver.states import SENDING, STANDING
from tidegate.core.spec.pipeline import Delivery
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import ATTEMPTS, Context, guard
from tidegate.workflow.base.outcome import first_line
from tidegate.workflow.deliver import content
from tidegate.workflow.deliver.deliver import AT_ONCE, EVER
from tidegate.workflow.deliver.places import arrive, check_host

_WHY = "the table was missing there"
_WHY_PART = "a part of the table was missing there"
_WHY_BEHIND = "its database lacked what was delivered: restored from a backup?"


def prepare(ctx: Context, delivery: Delivery, sender: Sender, move: str = "") -> int:
    """How many windows stood in a table that is missing now, or had rows in a part of it that is, or in a database that
    has lost commits, or at another place: they are due again. `move`: why the delivery goes where it went before.
    Raises TidegateError.

    They are due before the table is there: an end in between finds it missing once more. A place that does not answer
    becomes no place of the delivery: it may be a slip in the YAML."""
    ctx.newest_spec()  # a later one ends the task, however many steps it has
    guard(ctx)
    preflight.check(ctx)
    check_host(ctx, delivery, move)  # what such a host says is no word of the system
    try:
        return _prepared(ctx, delivery, sender, move)
    except (LostComparison, LedgerError):
        raise
    except TidegateError as e:
        _remember(ctx, delivery, first_line(e))
        raise


def _remember(ctx: Context, delivery: Delivery, why: str) -> None:
    """Tell of the system that is down where people look: at the window that waits longest. Of one that a try is at the
    try stays; else one is begun, so that the ledger has a row to tell it of."""
    ledger = ctx.ledger.deliveries
    with suppress(TidegateError):  # what ends the task is the error itself
        found = ledger.due(ctx.name, delivery.name, delivery.since_ms, AT_ONCE)
        if not found:
            return
        one = min(found, key=lambda due: (due.published_ms, due.window_ms))
        row = one.row
        if row is None or row.state != SENDING or row.generation != one.generation:
            row = ledger.take(ctx.name, delivery.name, one, content.of(ctx, one).digest, ctx.nonce())
        if row.why != why:
            ledger.failed(row, why)


def _prepared(ctx: Context, delivery: Delivery, sender: Sender, move: str) -> int:
    missing = sender.missing()
    again = arrive(ctx, delivery, move)
    again += 0 if missing is None else _sent_again(ctx, delivery, missing)
    for line in sender.prepare():
        ctx.say(f"{ctx.name}: {line}")
    return again + _sent_behind(ctx, delivery, sender)


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


def _sent_behind(ctx: Context, delivery: Delivery, sender: Sender) -> int:
    """Tries under way look for themselves at what stands there, and what they say wrongly the next run finds."""
    ledger, there = ctx.ledger.deliveries, sender.tries()
    if there is None:
        return 0
    stood = ledger.standing(ctx.name, delivery.name)
    windows = behind(stood, there)
    if windows:  # others may have sent theirs between the two looks: what stood by then is there by now, or lost
        windows = behind({at: stood[at] for at in windows}, sender.tries() or {})
    count = 0
    for at in windows:
        row = ledger.get(ctx.name, delivery.name, at)
        if row is None or row.state != STANDING or (row.generation, row.epoch) != stood[at]:
            continue
        with suppress(LostComparison):  # another task is at it
            ledger.again(row, _WHY_BEHIND)
            count += 1
    if count:
        told = units.counted(delivery.side, count)
        lacks = f"its database lacks what was delivered of {told}: restored from a backup?"
        ctx.say(f"{delivery.name}: {delivery.table}: {lacks} They are sent again")
    return count
