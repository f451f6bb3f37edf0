"""Gathers what decides whether a keyed table needs a commit that merges no batch."""

from __future__ import annotations

from tidegate.core.base.errors import SpecError
from tidegate.core.copy.rounds import RESUMED_MS, UNDER_WAY, RoundState
from tidegate.core.mirror import purge, recut
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.commits import Purge
from tidegate.core.target.port import PrefixTarget
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.servers import names


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


def _copied(ctx: Context) -> set[str]:
    """Servers of which a copy is under way, of the only one the empty name: their tombstones stay for it (S7). For a
    comparison, too, but not for one that died."""
    rounds, lately = ctx.ledger.copies.rounds(ctx.name), ctx.clock.now_ms() - RESUMED_MS
    waited = (one for one in rounds if one.state == RoundState.OPEN or one.begun_ms > lately)
    return {one.server for one in waited if one.state in UNDER_WAY}


def purge_due(ctx: Context, table: PrefixTarget, told: Told) -> Purge | None:
    """Of tombstones below the positions of a batch that has settled (M6); None if none is due, or none is allowed: then
    it says why."""
    if table.tombstones_ms is None or not told.upto:
        return None
    held, each = _copied(ctx), names(ctx) or ("",)
    if held.issuperset(each):
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
    assert horizon.settled is not None
    return Purge(horizon.settled, tuple(sorted(held)))
