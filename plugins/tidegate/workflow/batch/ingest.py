"""The batch protocol: plan, write, seal, land. Every step looks at the ledger first and can be run again."""

from __future__ import annotations

import time
from dataclasses import replace

from tidegate.core.base.errors import BatchRefused, GivesWay, JobFailed, LogCut, LostComparison, PathExists, SourceError
from tidegate.core.base.fields import columns
from tidegate.core.base.instants import iso
from tidegate.core.base.plain import dumps, to_plain
from tidegate.core.base.wording import many
from tidegate.core.batch import planning
from tidegate.core.batch.jobs import IngestPlan, RedrivePlan, part_of
from tidegate.core.batch.planning import NothingToPlan
from tidegate.core.batch.readings import whole_window
from tidegate.core.batch.states import (
    AbandonedBatch,
    LandedBatch,
    OpenBatch,
    Plan,
    PlannedBatch,
    SealedBatch,
    WritingBatch,
)
from tidegate.core.dirty.redrive import source_batches
from tidegate.core.files.receipt import Receipt
from tidegate.core.target.paths import RECEIPT, join
from tidegate.workflow.base import preflight, readings, records, switches, tables, zone_data
from tidegate.workflow.base.context import ATTEMPTS, Context, contradiction, guard
from tidegate.workflow.base.jobs import run_job
from tidegate.workflow.batch import evolution, landing, sealing
from tidegate.workflow.side import dirty_files
from tidegate.workflow.source import log_cut


def plan(ctx: Context, run: str) -> int | None:
    """The run's batch: the one it is bound to, else the open one, else a new one; None when there is nothing to read.

    A run that is cleared verifies or finishes its own batch and never plans another. Raises GivesWay while a redrive
    has asked for the next turn."""
    guard(ctx)
    bound = ctx.ledger.batches.bound(ctx.name, run)
    if bound is not None:
        ctx.say(f"this run belongs to batch {bound}")
        return bound
    landing.finish_side_duties(ctx, register=False)
    for _ in range(ATTEMPTS):
        view = ctx.ledger.batches.planning_view(ctx.name)
        if view.open_batch is not None:
            batch_id = view.open_batch.plan.batch_id
            ctx.say(f"batch {batch_id} is {view.open_batch.state}: this run goes on with it")
            return ctx.ledger.batches.bind(ctx.name, run, batch_id)
        _give_way(ctx)
        switches.check(ctx)
        preflight.check(ctx, view.next_batch_id)
        preflight.check_source(ctx, view)
        records.mark_if_abandoned(ctx, view.next_batch_id - 1)
        try:
            decided = _decide(ctx, view)
        except LogCut:
            if not log_cut.remember(ctx, view):
                continue  # somebody planned or decided meanwhile
            raise
        if isinstance(decided, NothingToPlan):
            ctx.say(decided.reason)
            return None
        zone_data.refuse_to_plan(ctx, decided.floor)
        tables.before_planning(ctx)
        try:
            ctx.ledger.batches.insert_plan(decided, view.version, run)
        except LostComparison:
            continue  # somebody planned, closed a window or accepted a topic meanwhile: gather again
        for loss in decided.losses:
            ctx.say(f"LOST: partition {loss.partition} offsets [{loss.start}, {loss.end}) ({loss.reason})")
        ctx.say(f"planned batch {decided.batch_id}: {_what(ctx, decided)}")
        return decided.batch_id
    raise LostComparison(f"{ctx.name}: the ledger moved {ATTEMPTS} times while planning")


def _what(ctx: Context, plan: Plan) -> str:
    if ctx.source.traits.windowed:
        return f"{plan.topic} is read for the window {iso(whole_window(plan.ranges[0]).start_ms)}"
    return f"{many(plan.records, 'offset')} in {many(len(plan.ranges), 'partition')}"


def _give_way(ctx: Context) -> None:
    """One that asks while this run plans waits for one batch more: nothing but time is lost."""
    ask = ctx.ledger.redrives.asked(ctx.name)
    if ask is not None:
        raise GivesWay(f"{ctx.name}: {ask.words()}: this run plans nothing", advice="the next run reads on")


def _decide(ctx: Context, view: planning.PlanningView) -> Plan | NothingToPlan:
    spec = ctx.pipeline
    clock_ms = ctx.clock.now_ms()  # before Kafka is asked: what comes while it answers is later than this
    topic = ctx.log()
    view = replace(view, cuts=log_cut.of(ctx, view, topic))
    first: dict[int, int] = {}
    if not view.begun:  # whatever comes later is read from its beginning
        at_time = {}
        if isinstance(spec.source.start, int):
            at_time = ctx.source.offsets_at(spec.source.topic, spec.source.start)
        first = planning.first_offsets(spec.source.start, topic, at_time)
    return planning.plan_batch(spec, ctx.spec_version, view, topic, first, clock_ms)


def preview(ctx: Context) -> Plan | NothingToPlan | OpenBatch:
    """What `plan` would do now; nothing is written."""
    view = ctx.ledger.batches.planning_view(ctx.name)
    version = ctx.ledger.batches.newest_spec(ctx.name) if view.next_batch_id > 1 else None
    if version is not None and (error := contradiction(ctx.ledger.pipelines.spec(ctx.name, version), ctx.pipeline)):
        raise error
    ask = ctx.ledger.redrives.asked(ctx.name)
    if view.open_batch is None and ask is not None:
        return NothingToPlan(ask.words())
    return view.open_batch or _decide(ctx, view)


def write(ctx: Context, run: str) -> None:
    """Bring the run's batch to SEALED: run the Spark job unless an attempt's complete receipt is already there."""
    guard(ctx)
    batch_id = ctx.ledger.batches.bound(ctx.name, run)
    if batch_id is None:
        ctx.say("this run planned no batch")
        return
    batch = ctx.ledger.batches.get(ctx.name, batch_id)
    if not isinstance(batch, PlannedBatch | WritingBatch):
        ctx.say(f"batch {batch_id} is {batch.state} already")
        return
    for _ in range(ATTEMPTS):
        try:
            return _write(ctx, batch)
        except BatchRefused as refused:
            if batch.plan.is_redrive:
                return  # it has been given up: it never stands in the way of new records
            ctx = evolution.take_up(ctx, batch_id, refused)
        batch = ctx.ledger.batches.get(ctx.name, batch_id)
        if not isinstance(batch, PlannedBatch | WritingBatch):
            raise LostComparison(f"batch {batch_id} is {batch.state}: another task works on it")
    raise JobFailed(
        f"batch {batch_id} has met fields without a column {ATTEMPTS} times, and taken them up",
        advice="the next try reads the same offsets with the columns as they are then",
    )


def _write(ctx: Context, batch: PlannedBatch | WritingBatch) -> None:
    batch_id = batch.plan.batch_id
    if sealing.adopt_landed(ctx, batch) is not None:
        return
    if isinstance(batch, WritingBatch):
        if sealing.seal_if_complete(ctx, batch) is not None:
            return
        batch = _replan_if_refused(ctx, batch)
    zone_data.refuse_open_batch(ctx, batch.plan)
    writing = _take(ctx, batch)
    ctx.say(f"batch {batch_id}: attempt {writing.epoch} writes to {_attempt_dir(ctx, writing)}")
    if not writing.plan.ranges:
        _write_empty_receipt(ctx, writing)
    else:
        started = time.monotonic()
        job = job_plan(ctx, writing)
        path = ctx.layout.plan(batch_id, writing.epoch, writing.nonce)
        sealing.refusing(ctx, writing, lambda: run_job(ctx, job, path))
        ctx.say(f"batch {batch_id}: the job ended after {time.monotonic() - started:.1f} s")
    sealing.seal(ctx, writing)


def _take(ctx: Context, batch: PlannedBatch | WritingBatch) -> WritingBatch:
    """R9: the attempt's directory is named by what this comparison returns, never by a later read of the row."""
    return ctx.ledger.batches.take(batch, ctx.nonce())


def _attempt_dir(ctx: Context, batch: WritingBatch) -> str:
    return ctx.layout.attempt(batch.plan.batch_id, batch.epoch, batch.nonce)


def _replan_if_refused(ctx: Context, batch: WritingBatch) -> WritingBatch:
    """A refused batch takes today's spec, as its next revision with the same ranges; any other keeps its own."""
    plan_ = batch.plan
    refused = ctx.ledger.batches.refusal(ctx.name, plan_.batch_id)
    if refused is None or plan_.spec_version == ctx.spec_version:
        return batch
    tables.before_planning(ctx)
    revised = planning.revise(plan_, ctx.pipeline, ctx.spec_version)
    replanned = ctx.ledger.batches.replan(batch, revised)
    ctx.say(f"batch {plan_.batch_id} was refused ({refused.first_line}): it takes spec version {ctx.spec_version}")
    return replanned


def job_plan(ctx: Context, batch: WritingBatch) -> IngestPlan:
    """All that the attempt's job is told."""
    plan_ = batch.plan
    spec = tables.pinned(ctx)
    if plan_.spec_version != ctx.spec_version:
        spec = ctx.ledger.pipelines.spec(ctx.name, plan_.spec_version)
    reading = readings.cut(ctx, spec.windows, plan_.ranges[0]) if _reads_table(ctx, plan_) else None
    job = (RedrivePlan if plan_.is_redrive else IngestPlan)(
        attempt=ctx.layout.attempt_name(plan_.batch_id, batch.epoch, batch.nonce),
        attempt_dir=_attempt_dir(ctx, batch),
        pipeline=to_plain(spec),
        bootstrap=ctx.source.for_workers().settings,
        topic=plan_.topic,
        topic_id=plan_.topic_id,
        parts=(part_of(plan_, reading=reading, behind=switches.behind(ctx, plan_)),),
        nonce=batch.nonce,
        batch_id=plan_.batch_id,
        epoch=batch.epoch,
        spec_version=plan_.spec_version,
        rules_version=plan_.rules_version,
    )
    if not plan_.is_redrive:
        return job
    files = dirty_files.sources(ctx, source_batches(plan_))
    return replace(job, parts=tuple(replace(part, sources=files) for part in job.parts))


def _reads_table(ctx: Context, plan_: Plan) -> bool:
    """Of a table without a log each attempt cuts chunks of its own, and reads all of them."""
    return ctx.source.traits.windowed and not plan_.is_redrive


def _write_empty_receipt(ctx: Context, batch: WritingBatch) -> None:
    """A batch without ranges only moves a watermark: Spark is not started, the receipt is ours."""
    plan_ = batch.plan
    receipt = Receipt(
        attempt=ctx.layout.attempt_name(plan_.batch_id, batch.epoch, batch.nonce),
        **columns(plan_, "batch_id", "topic", "topic_id", "spec_version", "rules_version"),
        **columns(batch, "epoch", "nonce"),
        ranges=(),
        files=(),
    )
    try:
        ctx.storage.write_new(join(_attempt_dir(ctx, batch), RECEIPT), dumps(receipt).encode())
    except PathExists:
        pass  # an earlier try of this very attempt


def land(ctx: Context, run: str) -> bool:
    """Bring the run's batch to LANDED and its late and dirty files into their tables. True: a backlog is left."""
    guard(ctx)
    batch_id = ctx.ledger.batches.bound(ctx.name, run)
    if batch_id is None:
        ctx.say("this run planned no batch")
        return False
    batch = ctx.ledger.batches.get(ctx.name, batch_id)
    if isinstance(batch, PlannedBatch | WritingBatch):
        # the write task has ended well, so the ledger lost what it had said (a failover): no other task repeats it
        ctx.say(f"batch {batch_id} is {batch.state} although its write task is done: writing it now")
        write(ctx, run)
        batch = ctx.ledger.batches.get(ctx.name, batch_id)
    if isinstance(batch, PlannedBatch | WritingBatch):
        raise LostComparison(f"batch {batch_id} is {batch.state}: another task works on it")
    if isinstance(batch, AbandonedBatch):
        ctx.say(f"batch {batch_id} was abandoned: {batch.reason}")
        return False
    if isinstance(batch, SealedBatch):
        batch = landing.land_sealed(ctx, batch)
    landing.finish_side_duties(ctx)
    if batch.plan.is_redrive:
        return True  # it has read nothing of the topic
    _tell_source(ctx, batch)
    return any(p.end < p.last_stable_offset for p in batch.plan.partitions)


def _tell_source(ctx: Context, batch: LandedBatch) -> None:
    """Commit our ends, so that the source's own tools show the lag and a lost commit is noticed; the ledger alone
    decides. Of an earlier batch, whose land task was cleared, nothing: it would take back what later ones have told."""
    if not ctx.source.traits.remembers:
        return
    view = ctx.ledger.batches.planning_view(ctx.name)
    if (view.accepted_topic_id, view.newest) != (batch.plan.topic_id, batch.plan.batch_id):
        return
    ends = {p.partition: p.end for p in batch.plan.partitions}
    try:
        mark = preflight.group_mark(ctx, batch.plan.topic_id, log_cut.rewound(ctx, batch.plan))
        ctx.source.remember(preflight.group_of(ctx), batch.plan.topic, ends, mark)
    except SourceError as e:
        ctx.say(f"the consumer group's offsets were not committed (harmless): {e}")
