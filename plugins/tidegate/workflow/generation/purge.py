"""What a day purges of its tombstones: gathered here, decided in core.daily.purge and core.mirror.purge."""

from __future__ import annotations

from tidegate.core.base.instants import iso
from tidegate.core.copy.rounds import RoundState
from tidegate.core.daily.day import Day, purged_of
from tidegate.core.daily.purge import settled
from tidegate.core.mirror import purge
from tidegate.core.mirror.jobs import START, Daily, Position
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Context


def below(
    ctx: Context, table: Daily, key: WindowKey, before: Day | None, recorded: Day | None, takes_a_copy: bool
) -> Position:
    """Below which position the day purges tombstones once its events are in; START: nowhere. `recorded`: what a day
    that is in force has done, which its rebuild does, too."""
    known = purged_of(before)
    if recorded is not None:
        return recorded.purged_below if recorded.purged_below > known else START
    if table.tombstones_ms is None or before is None or takes_a_copy or _is_copied(ctx):
        return START
    now = purge.Standing(now_ms=key.end_ms, keep_ms=table.tombstones_ms, rows=before.rows, tombstones=before.tombstones)
    if purge.idle(now):
        return START
    closing = ctx.ledger.windows.get(ctx.name, key).closing_batch
    horizon = ctx.ledger.applies.horizon(ctx.name, (closing or 1) - 1, purge.settled_ms(now))
    why = purge.refusal(now, horizon)
    if why is not None:
        ctx.say(f"{iso(key.start_ms)}: its tombstones stay for now: {why}")
        return START
    found = settled(before.seen, purge.settled_ms(now))
    return START if found is None or found <= known else found


def _is_copied(ctx: Context) -> bool:
    """Whether a copy is under way, or waits for its day: tombstones stay for it (S7)."""
    newest = ctx.ledger.copies.newest(ctx.name)
    return newest is not None and newest.state == RoundState.OPEN
