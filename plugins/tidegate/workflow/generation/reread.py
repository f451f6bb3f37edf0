"""Build a generation of a published window by a second reading of its table: another snapshot, by itself.

The job is the one that read the window first, in a directory of the generation's own try: a try that died is read again
whole. Of the first reading nothing is taken over but which window it is.
"""

from __future__ import annotations

from tidegate.core.base.errors import BatchRefused, JobFailed, ReplayRefused, SourceError
from tidegate.core.base.instants import iso
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import IngestPlan, part_of
from tidegate.core.batch.rules_version import rules_for
from tidegate.core.batch.states import LandedBatch
from tidegate.core.files.landed import OwedSpan
from tidegate.core.files.receipt import Receipt
from tidegate.core.replay import reread as rules
from tidegate.core.replay.origin import KEPT, Refusal
from tidegate.core.window.states import BuildingGeneration, BuiltGeneration, PublishedGeneration, WindowKey
from tidegate.workflow.base import overflow, readings, records, tables
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.base.jobs import read_receipt, run_job
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.generation.assembly import collect_written
from tidegate.workflow.window.readings import batch_of


def first_reading(ctx: Context, key: WindowKey, current: PublishedGeneration) -> tuple[LandedBatch, Receipt]:
    """The window's batch and its manifest. Raises ReplayRefused where a second reading may not take its place."""
    _refuse(rules.unreadable(ctx.pipeline, ctx.source.traits))
    batch = batch_of(ctx, key)
    if batch is None:
        raise ReplayRefused(f"{iso(key.start_ms)}: the ledger knows no reading of this window", advice=KEPT)
    record = records.batch_record(ctx, batch.plan.batch_id)
    manifest = None if record is None else record.manifest
    _refuse(rules.mixed(key, batch.plan.batch_id, manifest, current.batches))
    assert manifest is not None
    return batch, manifest


def _refuse(why: Refusal | None) -> None:
    if why is not None:
        raise ReplayRefused(why.reason, advice=why.advice)


def build(ctx: Context, generation: BuildingGeneration) -> BuiltGeneration:
    """BUILDING(epoch) -> BUILT. Raises ReplayRefused, and then the generation in force stays; SourceUnavailable,
    JobFailed, which the next try may heal: it reads all of the table again."""
    key = generation.window
    current = in_force(ctx, key)
    if current is None:
        raise MovedOn
    batch, first = first_reading(ctx, key, current)
    receipt = _read(ctx, generation, batch)
    what = rules.wrong(receipt, key, batch.plan.ranges)
    if what is not None:
        raise ReplayRefused(f"{iso(key.start_ms)}: {what}", advice=KEPT)
    assert receipt.reading is not None
    said = rules.words(receipt.reading, receipt.rows, sum(r.data for r in first.ranges))
    ctx.say(f"{iso(key.start_ms)}: {said}")
    overflow.say(ctx, receipt)
    directory = ctx.layout.replay_attempt(key.start_ms, generation.number, generation.epoch, generation.nonce)
    return collect_written(ctx, generation, directory, receipt.files, {rules.NOTED: said})


def _read(ctx: Context, generation: BuildingGeneration, batch: LandedBatch) -> Receipt:
    try:
        job = _plan(ctx, generation, batch)
        at = generation.window.start_ms, generation.number, generation.epoch, generation.nonce
        run_job(ctx, job, ctx.layout.replay_plan(*at))
        receipt = read_receipt(ctx, job.attempt_dir)
        altered = None if receipt is None else readings.altered(ctx, receipt)
    except (BatchRefused, SourceError) as e:
        if e.retry:
            raise
        raise ReplayRefused(f"{iso(generation.window.start_ms)}: {e.args[0]}", advice=e.advice or KEPT) from e
    if receipt is None or (receipt.attempt, receipt.nonce) != (job.attempt, job.nonce):
        raise JobFailed(f"{job.attempt_dir} has no receipt of this attempt")
    if altered is not None:
        raise JobFailed(altered)
    return receipt


def _plan(ctx: Context, generation: BuildingGeneration, batch: LandedBatch) -> IngestPlan:
    """All that the attempt's job is told: today's columns, and the first reading's range, so that its rows are the
    window's."""
    plan, key = batch.plan, generation.window
    at = key.start_ms, generation.number, generation.epoch, generation.nonce
    version, reading = rules_for(ctx.pipeline), readings.cut(ctx, ctx.pipeline.windows, plan.ranges[0])
    return IngestPlan(
        attempt=ctx.layout.replay_name(*at),
        attempt_dir=ctx.layout.replay_attempt(*at),
        pipeline=to_plain(tables.pinned(ctx)),
        bootstrap=ctx.source.for_workers().settings,
        topic=plan.topic,
        topic_id=plan.topic_id,
        parts=(part_of(plan, rules_version=version, reading=reading),),
        nonce=generation.nonce,
        batch_id=plan.batch_id,
        epoch=generation.epoch,
        spec_version=ctx.spec_version,
        rules_version=version,
    )


def owed(ctx: Context, key: WindowKey) -> tuple[OwedSpan, ...] | None:
    """What the window owes whose rows in force are of a second reading; None if they are of the first one."""
    if not ctx.pipeline.windows.read_whole:
        return None
    current, batch = in_force(ctx, key), batch_of(ctx, key)
    if current is None or batch is None:
        return None
    if rules.reading_of(ctx.ledger.rollbacks.generations(ctx.name, key), current.number) is None:
        return None
    return rules.owed(batch.plan.batch_id, current.files)
