"""From a receipt to a manifest: nothing is believed that was not counted, listed and compared (R6, R11)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from tidegate.core.base.errors import (
    Alarm,
    AttemptSpoilt,
    BatchRefused,
    LostComparison,
    PathMissing,
    StorageAhead,
    TopicRecreated,
)
from tidegate.core.base.wording import many
from tidegate.core.batch import planning
from tidegate.core.batch.jobs import IngestPlan, loads_plan
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.batch.states import OpenBatch, Plan, PlannedBatch, SealedBatch, WritingBatch
from tidegate.core.dirty import redrive
from tidegate.core.dirty.limits import refusal
from tidegate.core.files import slow_path
from tidegate.core.files.receipt import DIRTY, LATE, Receipt, arithmetic_errors
from tidegate.core.restore import ahead
from tidegate.core.source.port import LogState
from tidegate.core.target.paths import join
from tidegate.core.window import lateness, schedule
from tidegate.core.window.zonedata import SAME_TZDATA, version_of
from tidegate.workflow.base import overflow, readings, records, switches
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.jobs import read_receipt
from tidegate.workflow.batch.second_reading import refuse_other_records
from tidegate.workflow.source import log_cut

_COUNTED = ("read", "data", "late", "dirty", "dropped", "rerouted")


def seal(ctx: Context, batch: WritingBatch) -> SealedBatch | None:
    """WRITING(epoch) -> SEALED. None: somebody newer owns the batch, or sealed it; nothing was touched."""
    directory = ctx.layout.attempt(batch.plan.batch_id, batch.epoch, batch.nonce)
    receipt = read_receipt(ctx, directory)
    if receipt is None:
        raise LostComparison(f"attempt {batch.epoch} of batch {batch.plan.batch_id} has no receipt")
    defect = _defect(ctx, batch, receipt, directory)
    if defect is not None:
        raise AttemptSpoilt(defect)
    refusing(ctx, batch, lambda: _check(ctx, batch, receipt))
    try:
        sealed = ctx.ledger.batches.seal(batch, receipt)
    except LostComparison:
        now = ctx.ledger.batches.get(ctx.name, batch.plan.batch_id)
        ours = getattr(now, "epoch", None) == batch.epoch and getattr(now, "nonce", None) == batch.nonce
        if isinstance(now, PlannedBatch | WritingBatch):
            # a newer attempt's, or a ledger that forgot this one: its next try sees which
            raise LostComparison(f"batch {batch.plan.batch_id} does not belong to attempt {batch.epoch} now") from None
        ctx.say(f"batch {batch.plan.batch_id} is {now.state} already" + (" by this attempt" if ours else ""))
        return None
    ctx.say(f"sealed batch {batch.plan.batch_id}: {_summary(receipt)}")
    if receipt.slow:
        ctx.say(f"batch {batch.plan.batch_id}: {_slow(receipt)}")
    overflow.say(ctx, receipt)
    return sealed


def seal_if_complete(ctx: Context, batch: WritingBatch) -> SealedBatch | None:
    """An earlier try's task died after its job had finished: its receipt is as good as ours.

    None if there is no such attempt, or a spoilt one, which is given up: the next writes the same offsets again."""
    directory = ctx.layout.attempt(batch.plan.batch_id, batch.epoch, batch.nonce)
    try:
        receipt = read_receipt(ctx, directory)
        defect = None if receipt is None else _defect(ctx, batch, receipt, directory)
    except AttemptSpoilt as e:
        defect, receipt = str(e.args[0]), None
    if defect is not None:
        ctx.say(f"attempt {batch.epoch} of batch {batch.plan.batch_id} is given up: {defect}")
        return None
    if receipt is None or ctx.ledger.batches.refusal(ctx.name, batch.plan.batch_id):
        return None
    ctx.say(f"attempt {batch.epoch} of batch {batch.plan.batch_id} is complete: nothing to write again")
    return seal(ctx, batch)


def is_complete(ctx: Context, batch: WritingBatch) -> bool:
    """Whether the attempt in force has written all of its rows and was not refused: it can be sealed."""
    directory = ctx.layout.attempt(batch.plan.batch_id, batch.epoch, batch.nonce)
    try:
        receipt = read_receipt(ctx, directory)
    except AttemptSpoilt:
        return False
    if receipt is None or _defect(ctx, batch, receipt, directory) is not None:
        return False
    return ctx.ledger.batches.refusal(ctx.name, batch.plan.batch_id) is None


def _defect(ctx: Context, batch: WritingBatch, receipt: Receipt, directory: str) -> str | None:
    """Why the attempt is not what its receipt says: then another one writes again, nothing is lost."""
    plan = batch.plan
    told = (receipt.batch_id, receipt.epoch, receipt.nonce, receipt.topic_id, receipt.spec_version)
    if told != (plan.batch_id, batch.epoch, batch.nonce, plan.topic_id, plan.spec_version):
        return f"the receipt in {directory} is of another attempt: {told}"
    return _not_as_listed(ctx, receipt, directory) or readings.altered(ctx, receipt)


def _not_as_listed(ctx: Context, receipt: Receipt, directory: str) -> str | None:
    """R6: the first file of the receipt that the directory's listing does not show with its length."""
    there = {f.path: f.bytes for f in ctx.storage.list_files(directory) or []}
    for f in receipt.files:
        if there.get(f.path) != f.bytes:
            found = f"has {many(there[f.path], 'byte')}" if f.path in there else "is not there"
            return f"{join(directory, f.path)} {found}, its receipt says {many(f.bytes, 'byte')}"
    return None


def _check(ctx: Context, batch: WritingBatch, receipt: Receipt) -> None:
    """Raises BatchRefused (content), TopicRecreated."""
    plan = batch.plan
    _check_windows(ctx, plan, receipt)
    if plan.is_redrive:
        _check_redrive(ctx, plan, receipt)
        return
    errors = arithmetic_errors(receipt, plan.ranges, ctx.pipeline.source.gaps)
    if errors:
        raise BatchRefused(
            f"the receipt of batch {plan.batch_id} does not add up: {'; '.join(errors[:3])}", kind=RefusalKind.RECEIPT
        )
    _check_topic(ctx, plan)
    refuse_other_records(ctx, batch, receipt)
    reason = refusal(ctx.pipeline.dirty, receipt)
    _say_samples(ctx, receipt)
    if reason is not None:
        _refuse_unless_released(ctx, plan.batch_id, reason)


def _refuse_if_cut(ctx: Context, plan: Plan, topic: LogState) -> None:
    """Refuse what comes from a log that was cut meanwhile: some of it was read before, some after, and it is unknown
    which."""
    for partition, offset in sorted(log_cut.under(ctx, plan, topic).items()):
        raise BatchRefused(
            f"partition {partition}: the log was cut at offset {offset} (an unclean leader election?) after batch "
            f"{plan.batch_id} was planned up to {next(p.end for p in plan.partitions if p.partition == partition)}",
            advice=f"tidegate repair {ctx.name} --reread {plan.batch_id} --why ...: the next run plans anew from what "
            "the log holds now",
            kind=RefusalKind.LOG_CUT,
        )


def _refuse_unless_released(ctx: Context, batch_id: int, reason: str) -> None:
    released = ctx.ledger.repairs.released(ctx.name, batch_id)
    if released is None:
        once = f"or land this batch as it is: tidegate repair {ctx.name} --release {batch_id} --why ..."
        advice = f"{BatchRefused.advice}; {once}"
        raise BatchRefused(f"batch {batch_id}: {reason}", advice=advice, kind=RefusalKind.DIRTY_LIMIT)
    ctx.say(f"batch {batch_id}: {reason}; it lands all the same, released by {released}")


def _check_topic(ctx: Context, plan: Plan) -> None:
    """R6: the ranges were read from the topic that was planned, not from one that was recreated meanwhile; F5: at the
    site that is active."""
    switches.check(ctx)
    newest = ctx.ledger.failovers.newest(ctx.name) if ctx.pipeline.source.sites else None
    planning.refuse_other_site(ctx.pipeline, None if newest is None else newest.site)
    topic = ctx.log(plan.topic)
    if topic.is_another(plan.topic_id):
        raise TopicRecreated(
            f"topic {plan.topic} has id {topic.topic_id} now, batch {plan.batch_id} planned {plan.topic_id}"
        )
    _refuse_if_cut(ctx, plan, topic)


def _check_windows(ctx: Context, plan: Plan, receipt: Receipt) -> None:
    """R1: whatever wrote it, no row may be in a window where the plan's floor and late policy cannot have sent it."""
    spec = ctx.pipeline
    if plan.spec_version != ctx.spec_version:
        spec = ctx.ledger.pipelines.spec(ctx.name, plan.spec_version)
    strange = list(islice(schedule.errors(spec, plan.floor, receipt), 3))
    if strange:
        zone = spec.windows.timezone
        raise BatchRefused(
            f"the receipt of batch {plan.batch_id} is of other windows than the schedule's: {'; '.join(strange)}; "
            f"the zone data of the executors are not those of this host ({zone}, {version_of(zone)})",
            advice=f"{SAME_TZDATA}, then clear the write task: the same offsets are read again",
            kind=RefusalKind.WINDOWS,
        )
    wrong = lateness.errors(plan.floor, spec.windows, spec.late_policy, receipt)
    if wrong:
        raise BatchRefused(
            f"the receipt of batch {plan.batch_id} is not of its plan: {'; '.join(wrong[:3])}",
            advice="run workers and control plane from the same release",
            kind=RefusalKind.WINDOWS,
        )


def _check_redrive(ctx: Context, plan: Plan, receipt: Receipt) -> None:
    """Check a redrive without Kafka and the dirty limits: all of its rows were dirty, and come from files. Raises
    BatchRefused."""
    wrong = arithmetic_errors(receipt, plan.ranges, "allow") + redrive.errors(plan, receipt)
    if wrong:
        raise BatchRefused(f"the receipt of redrive {plan.batch_id} does not add up: {'; '.join(wrong[:3])}")
    _say_samples(ctx, receipt)
    reason = redrive.in_vain(receipt)
    if reason is not None:
        raise BatchRefused(f"redrive {plan.batch_id}: {reason}")


def _say_samples(ctx: Context, receipt: Receipt) -> None:
    for s in receipt.samples:
        ctx.say(f"dirty: partition {s.partition} offset {s.offset}: {s.field or 'record'}: {s.reason}: {s.raw}")


def refusing(ctx: Context, batch: WritingBatch, step: Callable[[], None]) -> None:
    """Run `step`; what it refuses is remembered on the row, for people and for the replan with a fixed spec."""
    try:
        step()
    except BatchRefused as e:
        if batch.plan.is_redrive:
            _give_up(ctx, batch, e.args[0])
        else:
            ctx.ledger.batches.refuse(batch, Refusal.of(e))
        raise
    except Alarm as e:
        if ctx.ledger.batches.get(ctx.name, batch.plan.batch_id) != batch:
            raise LostComparison(f"batch {batch.plan.batch_id} has moved on") from e
        ctx.ledger.batches.block(batch, str(e))
        raise


def _give_up(ctx: Context, batch: WritingBatch, reason: str) -> None:
    """A redrive that is refused: its rows stay what they were, and new records must not wait for a human."""
    records.mark_batch(ctx, ctx.ledger.batches.abandon(batch, reason))
    ctx.say(f"redrive {batch.plan.batch_id} is given up, every row stays where it is: {reason}")


def adopt_landed(ctx: Context, batch: OpenBatch) -> SealedBatch | None:
    """R11: `landed/<batch>` or its record before SEALED means that the ledger lost a commit.

    Adopted if it is of this very plan; otherwise raises StorageAhead.
    """
    receipt = landed_receipt(ctx, batch)
    if receipt is None:
        return None
    ctx.say(f"batch {batch.plan.batch_id} has landed before the ledger says so: its receipt is adopted")
    return ctx.ledger.batches.adopt(batch, receipt)


def landed_receipt(ctx: Context, batch: OpenBatch) -> Receipt | None:
    """What has landed under the batch's id, None if nothing. Raises StorageAhead if it is not of the batch's plan."""
    plan = batch.plan
    directory = ctx.layout.landed(plan.batch_id)
    record = records.batch_record(ctx, plan.batch_id)
    try:
        receipt = record.manifest if record is not None else read_receipt(ctx, directory)
    except AttemptSpoilt as e:
        raise StorageAhead(f"batch {plan.batch_id} is {batch.state} in the ledger, but has landed: {e.args[0]}") from e
    marked = record is not None or ctx.storage.exists(ctx.layout.high_water_mark(plan.batch_id))
    if receipt is None and not marked and not ctx.storage.exists(directory):
        return None
    if ctx.ledger.batches.get(ctx.name, plan.batch_id) != batch:  # R10: before any alarm
        raise LostComparison(f"batch {plan.batch_id} has moved on: another task works on it")
    if receipt is None:
        what = "its high-water mark exists" if marked else f"{directory} exists without a receipt"
        raise StorageAhead(f"batch {plan.batch_id} is {batch.state} in the ledger, but {what}")
    ahead.check_ranges(plan, receipt, directory)
    if record is not None:
        ahead.check_recorded_plan(plan, record.plan)
    else:
        _check_landed_files(ctx, directory, receipt)
        _check_its_plan(ctx, plan, receipt)
    return receipt


def _check_its_plan(ctx: Context, plan: Plan, receipt: Receipt) -> None:
    """Asks the attempt's own plan file. Raises StorageAhead."""
    path = ctx.layout.plan(plan.batch_id, receipt.epoch, receipt.nonce)
    try:
        job = loads_plan(ctx.storage.read(path))
    except PathMissing:
        return  # a batch without ranges has none
    except ValueError as e:
        raise StorageAhead(
            f"batch {plan.batch_id} has landed before the ledger says so, and {path} cannot be read: {e}",
            advice="restore that file from a backup of the filesystem: it tells by which plan the batch was written",
        ) from None
    parts = job.parts if isinstance(job, IngestPlan) else ()
    ahead.check_written_plan(plan, [(p.clock_ms, p.floor, p.rules_version) for p in parts])


def _check_landed_files(ctx: Context, directory: str, receipt: Receipt) -> None:
    """All of them must be where landing leaves them: late and dirty files may be in their tables already."""
    there = {f.path: f.bytes for f in ctx.storage.list_files(directory) or []}
    for kind in (LATE, DIRTY):
        moved = ctx.storage.list_files(ctx.layout.side(receipt.batch_id, kind)) or []
        there |= {f"{kind}/{f.path}": f.bytes for f in moved}
    missing = [f.path for f in receipt.files if there.get(f.path) != f.bytes]
    if missing:
        raise StorageAhead(
            f"{directory}: {missing[0]} and {many(len(missing) - 1, 'more file')} of its receipt have moved on"
        )


def _slow(receipt: Receipt) -> str:
    return slow_path.told(receipt.slow, receipt.read_rows, receipt.slow_seconds)


def _summary(receipt: Receipt) -> str:
    total = {k: sum(getattr(r, k) for r in receipt.ranges) for k in _COUNTED}
    windows = {f.window_ms for f in receipt.files if f.window_ms is not None}
    counts = ", ".join(f"{k} {n:,}" for k, n in total.items() if n or k not in ("dropped", "rerouted"))
    return f"{counts}; {many(len(receipt.files), 'file')} for {many(len(windows), 'window')}"
