"""Records of switches of the site, in storage: what a ledger that lost commits is compared with (R11, F4)."""

from __future__ import annotations

from contextlib import suppress

from tidegate.core.base.errors import PathExists, StorageAhead
from tidegate.core.base.plain import dumps, loads
from tidegate.core.batch.states import Plan
from tidegate.core.failover.own_records import behind_of
from tidegate.core.failover.states import Failover, FailoverRecord
from tidegate.core.source.behind import Behind
from tidegate.workflow.base.context import Context


def behind(ctx: Context, plan: Plan) -> Behind | None:
    """Copies that are no records of the batch (F3). Dirty rows that are redriven are taken as they are: a person asked
    for it."""
    if plan.is_redrive or not ctx.pipeline.source.sites:
        return None
    return behind_of(ctx.ledger.failovers.history(ctx.name), plan.topic_id)


def check(ctx: Context) -> None:
    """Nothing is planned at a site before storage has the record of the switch to it, nor while storage knows of a
    later one. Raises StorageAhead."""
    if not ctx.pipeline.source.sites:
        return
    newest = ctx.ledger.failovers.newest(ctx.name)
    number = 0 if newest is None else newest.number
    following = ctx.layout.failover(number + 1)
    if ctx.storage.exists(following):
        now = ctx.ledger.failovers.newest(ctx.name)
        if now is not None and now.number > number:  # R10: somebody has switched since
            return check(ctx)
        raise StorageAhead(
            f"{ctx.name}: the ledger knows {number} switches of the site, but {following} exists",
            advice=f"the ledger lost it (a failover of its database?): tidegate failover adopt {ctx.name} --why ...",
        )
    if newest is not None:
        keep(ctx, newest)


def keep(ctx: Context, failover: Failover) -> None:
    """Write its record, unless it is there. Raises StorageAhead where that is of another switch of this number: the
    ledger has lost one, and somebody has switched since by a plan of before."""
    path = ctx.layout.failover(failover.number)
    record = ctx.ledger.failovers.record(ctx.name, failover.number)
    if not ctx.storage.exists(path):
        with suppress(PathExists):  # another task's, of the same row
            ctx.storage.write_new(path, dumps(record).encode())
    if loads(FailoverRecord, ctx.storage.read(path).decode()) != record:
        raise StorageAhead(
            f"{ctx.name}: failover {failover.number} to site {failover.site} in the ledger is another one in storage: "
            f"{path}",
            advice="the ledger lost that one (a failover of its database?), and somebody has switched since; where "
            "nothing was read at the site that the file names (no batch landed), move the file away; else restore the "
            "ledger from a newer backup",
        )
