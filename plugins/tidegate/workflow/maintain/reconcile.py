"""Duties that the ledger shows to be due: windows without a publication, side files without their tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from tidegate.core.base.errors import Alarm, LostComparison, SourceError, SourceUnavailable, StepMissing
from tidegate.core.base.instants import DAY_MS
from tidegate.core.base.offsets import Interval, OffsetRange, without
from tidegate.core.base.wording import many
from tidegate.core.batch.planning import still_there
from tidegate.core.batch.states import AbandonedBatch, Plan, PlannedBatch, WritingBatch
from tidegate.core.replay.abandoned import AtWork
from tidegate.core.window import due as rules
from tidegate.core.window import watermark
from tidegate.core.window.due import ArchiveNote, Due, RunsSeen
from tidegate.core.window.states import WindowKey
from tidegate.core.window.stranded import stranded
from tidegate.workflow.base import records
from tidegate.workflow.base.context import Context, guard
from tidegate.workflow.batch import landing, sealing
from tidegate.workflow.clean import duties
from tidegate.workflow.late import reopen
from tidegate.workflow.maintain import abandoned


def maintain(ctx: Context, runs: RunsSeen | None = None, at_work: AtWork | None = None) -> list[str]:
    """The maintenance DAG's duties for one pipeline; what was done, in words. `runs`: None where Airflow was not asked;
    `at_work`: None where it cannot be asked."""
    guard(ctx)
    note_archive(ctx, runs)
    add_up(ctx)
    done = abandoned.give_up(ctx, at_work)  # before late rows are looked at, which may wait for it
    try:
        done += landing.finish_side_duties(ctx, strict=True)
    except Alarm:
        # one batch that waits for a human must neither hide other rows nor fill the disk
        reopen.by_itself(ctx)
        duties.clean(ctx)
        raise
    done += reopen.by_itself(ctx)
    return done + duties.clean(ctx).lines()


def abandon(ctx: Context, batch_id: int, why: str, force: bool = False) -> AbandonedBatch:
    """An operator gives up a batch whose offsets can never be read again: its ranges stay a term of the balance.

    `force`: also if the topic still holds some of them, or an attempt that is complete has them. Raises StepMissing for
    a batch whose rows are there, or can still be read; StorageAhead where storage holds another of this id (R11)."""
    batch = abandonable(ctx, batch_id, force)
    if isinstance(batch, AbandonedBatch):
        records.mark_batch(ctx, batch)  # an earlier try may have died before it
        return batch
    abandoned = ctx.ledger.batches.abandon(batch, why)
    records.mark_batch(ctx, abandoned)
    return abandoned


def abandonable(ctx: Context, batch_id: int, force: bool = False) -> PlannedBatch | WritingBatch | AbandonedBatch:
    """The batch, if `abandon` would take it; raises what that raises. Changes nothing."""
    batch = ctx.ledger.batches.get(ctx.name, batch_id)
    if isinstance(batch, AbandonedBatch):
        return batch
    if not isinstance(batch, PlannedBatch | WritingBatch):
        raise StepMissing(f"batch {batch_id} is {batch.state}: only a batch that was never sealed can be abandoned")
    takes_up = f"clear the write task of {ctx.name}.ingest, or wait for its next run: it takes them up"
    if sealing.landed_receipt(ctx, batch) is not None:  # the ledger has forgotten SEALED or LANDED (R11)
        what = f"batch {batch_id} is {batch.state} in the ledger, but it has landed: its rows are there"
        raise StepMissing(what, advice=takes_up)
    if ctx.pipeline.windows.read_whole:
        what = f"batch {batch_id} is the only reading of its window: without it the window could never be published"
        raise StepMissing(what, advice="clear the write task: it reads the source as it is by then")
    if force:
        return batch
    if isinstance(batch, WritingBatch) and sealing.is_complete(ctx, batch):
        raise StepMissing(f"attempt {batch.epoch} of batch {batch_id} is complete: its rows are there", advice=takes_up)
    _refuse_if_readable(ctx, batch.plan)
    return batch


def _refuse_if_readable(ctx: Context, plan: Plan) -> None:
    left = left_of(ctx, plan)
    if not left:
        return
    kept = sum(r.count for r in left)
    spec = "" if ctx.pipeline.source.on_data_loss == "record" else "set source.on_data_loss: record, then "
    raise StepMissing(
        f"{ctx.kind.title} still holds {kept:,} of the {many(plan.records, 'offset')} of batch {plan.batch_id}: "
        "to abandon it would lose them too",
        advice=f"{spec}`tidegate repair {ctx.name} --reread {plan.batch_id} --why ...`: the next run reads what is "
        f"left and records the rest as lost. To give up all of it: --abandon {plan.batch_id} --force",
    )


def left_of(ctx: Context, plan: Plan) -> tuple[OffsetRange, ...]:
    """What of the plan's ranges can still be read. Raises SourceUnavailable if the source gives no answer."""
    if plan.is_redrive:
        return ()
    try:
        return still_there(plan, ctx.log(plan.topic))
    except SourceUnavailable:
        raise
    except SourceError:
        return ()  # the topic was deleted


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
    if isinstance(batch, WritingBatch) and sealing.is_complete(ctx, batch):
        raise StepMissing(
            f"attempt {batch.epoch} of batch {batch_id} is complete: nothing needs to be read again",
            advice=f"clear the write task of {ctx.name}.ingest, or wait for its next run",
        )
    ctx.ledger.recovery.withdraw(batch, why, same_starts=True)


def releasable(ctx: Context, batch_id: int) -> str:
    """Why the open batch was refused as too dirty. Raises StepMissing for any other batch."""
    batch = ctx.ledger.batches.open(ctx.name)
    if batch is None or batch.plan.batch_id != batch_id:
        raise StepMissing(f"batch {batch_id} is not the open one", advice=f"tidegate status {ctx.name} names it")
    refused = ctx.ledger.batches.refusal(ctx.name, batch_id)
    if refused is None:
        by = ctx.ledger.repairs.released(ctx.name, batch_id)
        said = f"has been released by {by}" if by else "was not refused"
        raise StepMissing(f"batch {batch_id} {said}", advice="clear the write task, or wait for the next ingest run")
    if not refused.is_releasable:
        raise StepMissing(
            f"batch {batch_id} was not refused for its dirty records, but: {refused.first_line}",
            advice="only the limits of `dirty:` can be lifted for a batch",
        )
    return refused.said


def release(ctx: Context, batch_id: int, refused: str, why: str) -> None:
    """A person has this batch land with all its dirty rows; `refused` is what that person saw.

    The next try of its write task finds the refused attempt complete, so nothing is read again. Raises StepMissing,
    LostComparison where the batch has moved on."""
    releasable(ctx, batch_id)
    ctx.ledger.repairs.release(ctx.name, batch_id, refused, why)


def due(ctx: Context) -> Due:
    """Windows from `windows.start` up to the global watermark that have no CURRENT generation."""
    return look(ctx).due


def add_up(ctx: Context) -> None:
    """Bring the running sums up to the newest batch that is final."""
    with suppress(LostComparison):  # somebody else is at it
        while ctx.ledger.totals.advance(ctx.name):
            pass


def note_archive(ctx: Context, runs: RunsSeen | None = None) -> None:
    """Remember which windows are published, so that the next look begins there, and what the runs are like."""
    seen = look(ctx)
    old = seen.note or ArchiveNote()
    published = rules.remembered(seen.parts, seen.due, old.published)
    stranded = _stranded(ctx, published)
    if runs is None and (published, stranded) == (old.published, old.stranded):
        return
    paused, ended = (old.paused, old.ended) if runs is None else (runs.paused, runs.ended)
    noted_ms = old.noted_ms if runs is None else ctx.clock.now_ms()
    with suppress(LostComparison):  # somebody has looked since, and says so
        ctx.ledger.due.save(ctx.name, ArchiveNote(published, paused, ended, noted_ms, stranded), seen.note)


def _stranded(ctx: Context, published: tuple[Interval, ...]) -> tuple[int, ...] | None:
    """Windows with landed data that no run comes for; windows below a day are cut alike by everybody, and their number
    is left to the audit."""
    windows = ctx.pipeline.windows
    if windows.size_ms < DAY_MS:
        return None
    found = (s for s in ctx.ledger.due.unpublished(ctx.name) if stranded(ctx.name, windows, s, published))
    return tuple(found) or None


@dataclass(frozen=True)
class Look:
    """`parts` were not remembered as published, so they were looked at; `due` is what of them is not."""

    note: ArchiveNote | None
    parts: tuple[Interval, ...]
    due: Due


def look(ctx: Context) -> Look:
    """What is due, from where it is remembered that all is published. Reads only."""
    spec = ctx.pipeline.windows
    marks = watermark.watermarks(spec, ctx.ledger.windows.facts(ctx.name), ctx.clock.now_ms())
    low = watermark.global_watermark(marks)
    note = ctx.ledger.due.note(ctx.name)
    parts = () if low is None else rules.unknown(spec, note.published if note else (), low)
    return Look(note, parts, rules.due(spec, parts, ctx.ledger.due.published_within(ctx.name, parts)))


def published_since(ctx: Context, seen: Look) -> Iterator[WindowKey]:
    """Windows of these parts that are published: since `note_archive` last remembered which are."""
    spec = ctx.pipeline.windows
    return iter(Due(spec, without(seen.parts, seen.due.parts)))
