"""What the ledger knows is due, whoever forgot it: windows without a publication, side files without their tables."""

from __future__ import annotations

from tidegate.core import watermark
from tidegate.core.batch import AbandonedBatch, PlannedBatch, WritingBatch
from tidegate.core.errors import Alarm, StepMissing
from tidegate.core.layout import window_end, window_start
from tidegate.core.window import WindowKey
from tidegate.workflow import cleaning, landing, records
from tidegate.workflow.context import Context, guard


def maintain(ctx: Context) -> list[str]:
    """The maintenance DAG's duties for one pipeline; what was done, in words."""
    guard(ctx)
    try:
        done = landing.finish_side_duties(ctx, strict=True)
    except Alarm:
        cleaning.clean(ctx)  # one batch that waits for a human must not fill the disk
        raise
    return done + cleaning.clean(ctx).lines()


def abandon(ctx: Context, batch_id: int, why: str) -> AbandonedBatch:
    """An operator gives up a batch whose offsets can never be read again: its ranges stay a term of the balance.

    Raises StepMissing for a batch that is sealed or landed: its rows are there, nothing needs to be given up."""
    batch = ctx.ledger.batches.get(ctx.name, batch_id)
    if isinstance(batch, AbandonedBatch):
        records.mark_batch(ctx, batch)  # an earlier try may have died before it
        return batch
    if not isinstance(batch, PlannedBatch | WritingBatch):
        raise StepMissing(f"batch {batch_id} is {batch.state}: only a batch that was never sealed can be abandoned")
    ctx.ledger.batches.abandon(batch, why)
    abandoned = AbandonedBatch(batch.plan, why)
    records.mark_batch(ctx, abandoned)
    return abandoned


def reread(ctx: Context, batch_id: int, why: str) -> None:
    """An operator has an open batch read anew, as when the files of a sealed attempt are lost: its row goes, and the
    next run plans from the same offsets.

    Raises StepMissing for a batch that is not open, or has landed: its rows may be in use."""
    batch = ctx.ledger.batches.open(ctx.name)
    if batch is None or batch.plan.batch_id != batch_id:
        raise StepMissing(f"batch {batch_id} is not the open one", advice=f"tidegate status {ctx.name} names it")
    for path in (ctx.layout.landed(batch_id), ctx.layout.high_water_mark(batch_id)):
        if ctx.storage.exists(path):
            raise StepMissing(f"batch {batch_id} has landed: {path} exists", advice="clear the land task instead")
    ctx.ledger.recovery.withdraw(batch, why)


def due_windows(ctx: Context, limit: int = 200) -> list[WindowKey]:
    """Windows from `windows.start` up to the global watermark that have no CURRENT generation, oldest first."""
    spec = ctx.pipeline.windows
    low = watermark.global_watermark(watermark.watermarks(spec, ctx.ledger.windows.facts(ctx.name)))
    if low is None:
        return []
    published = ctx.ledger.windows.published_starts(ctx.name)
    due: list[WindowKey] = []
    start = window_start(spec.start_ms, spec)
    while len(due) < limit:
        end = window_end(start, spec)
        if end > low:
            break
        if start not in published:
            due.append(WindowKey(start, end))
        start = end
    return due
