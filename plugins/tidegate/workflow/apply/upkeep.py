"""Gathers what decides whether a keyed table needs a commit that merges no batch."""

from __future__ import annotations

from tidegate.core.base.errors import SpecError
from tidegate.core.copy.rounds import RESUMED_MS, RoundState
from tidegate.core.mirror import purge, recut
from tidegate.core.mirror.applies import Told
from tidegate.core.target.port import PrefixTarget
from tidegate.workflow.base.context import Context


def buckets_now(ctx: Context, table: PrefixTarget, told: Told) -> int:
    """How many buckets the table has. One that does not say it has those of the spec under which its last batch was
    planned: before tables said it, their number stayed. Raises LedgerError."""
    if told.buckets or not told.upto:
        return told.buckets or table.buckets
    version = ctx.ledger.batches.get(ctx.name, told.upto).plan.spec_version
    options = dict(ctx.ledger.pipelines.spec(ctx.name, version).sink.options)
    return int(options["buckets"])


def cut_before(ctx: Context, table: PrefixTarget, told: Told) -> int | None:
    """How many buckets the table has, if the spec wants another number; None if not. Raises SpecError for a number to
    which whole buckets cannot be split or joined."""
    now = buckets_now(ctx, table, told)
    if now == table.buckets:
        return None
    why = recut.refusal(now, table.buckets)
    if why is not None:
        raise SpecError(f"{ctx.name}: sink.buckets: {why}", advice="nothing was merged; batches go on landing")
    return now


def _is_copied(ctx: Context) -> bool:
    """Whether a copy is under way: tombstones stay for it (S7). For a comparison, too, but not for one that died."""
    newest = ctx.ledger.copies.newest(ctx.name)
    if newest is None or newest.state != RoundState.COMPARED:
        return newest is not None and newest.state == RoundState.OPEN
    return ctx.clock.now_ms() - newest.begun_ms < RESUMED_MS


def settled_batch(ctx: Context, table: PrefixTarget, told: Told) -> int | None:
    """The batch below whose positions tombstones may be purged now (M6); None if no purge is due, or none is allowed:
    then it says why."""
    if table.tombstones_ms is None or not told.upto or _is_copied(ctx):
        return None
    now = purge.Standing(
        now_ms=ctx.clock.now_ms(),
        keep_ms=table.tombstones_ms,
        rows=told.rows,
        tombstones=told.tombstones,
        last=ctx.ledger.applies.upkeep(ctx.name),
    )
    if purge.idle(now):
        return None
    horizon = ctx.ledger.applies.horizon(ctx.name, told.upto, purge.settled_ms(now))
    why = purge.refusal(now, horizon)
    if why is not None:
        ctx.say(f"{table.name}: its tombstones stay for now: {why}")
        return None
    return horizon.settled
