"""Switches that a ledger has lost come back from their records in storage (R11)."""

from __future__ import annotations

from tidegate.core.base.errors import AskedWrong, PathMissing, StorageAhead
from tidegate.core.base.plain import loads
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.states import PlannedBatch, WritingBatch
from tidegate.core.failover.decision import landed_ends
from tidegate.core.failover.states import FailoverRecord
from tidegate.workflow.base.context import Context


def lost(ctx: Context) -> list[FailoverRecord]:
    """Switches that storage knows and the ledger does not, oldest first. Raises StorageAhead."""
    newest = ctx.ledger.failovers.newest(ctx.name)
    number = 0 if newest is None else newest.number
    found: list[FailoverRecord] = []
    while True:
        path = ctx.layout.failover(number + len(found) + 1)
        try:
            record = loads(FailoverRecord, ctx.storage.read(path).decode())
        except PathMissing:
            return found
        except ValueError as e:
            raise StorageAhead(f"{path} cannot be read: {e}", advice="restore that file from a backup") from None
        if record.pipeline != ctx.name:
            raise StorageAhead(f"{path} is of pipeline {record.pipeline}, not of {ctx.name}")
        found.append(record)


def adopt(ctx: Context, why: str) -> list[FailoverRecord]:
    """Write back what the ledger has lost; the batches that landed since are adopted by `tidegate repair --adopt`."""
    found = lost(ctx)
    if not found:
        raise AskedWrong(f"{ctx.name}: the ledger has lost no switch of the site", advice="there is nothing to adopt")
    for record in found:
        view = ctx.ledger.batches.planning_view(ctx.name)
        batch = view.open_batch
        _refuse_if_read_on(view, record)
        mine = isinstance(batch, PlannedBatch | WritingBatch) and not batch.plan.is_redrive
        of_before = mine and batch is not None and batch.plan.topic_id == record.failover.certificate.before_topic_id
        ctx.ledger.failovers.restore(record, batch if of_before else None, why)
        ctx.say(f"failover {record.failover.number} to site {record.failover.site} is in the ledger again")
    return found


def _refuse_if_read_on(view: PlanningView, record: FailoverRecord) -> None:
    """Raises StorageAhead if the site before was read on: what landed there since is among the copies too."""
    certificate = record.failover.certificate
    if view.accepted_topic_id != certificate.before_topic_id:
        return
    ends = landed_ends(view.planned_ends, view.open_batch, view.stretches)
    for crossing in certificate.crossings:
        end = ends.get(crossing.partition, 0)
        if end > crossing.landed:
            raise StorageAhead(
                f"partition {crossing.partition}: batches of site {record.failover.before} end at {end}, at failover "
                f"{record.failover.number} at {crossing.landed}: offsets [{crossing.landed}, {end}) would come twice",
                advice="records and ledger are of different histories: restore the ledger from a newer backup",
            )
