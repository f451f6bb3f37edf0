"""Rebuild a window from Kafka: the ranges of its batch list, each row judged by its batch's pinned rules (R1)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from tidegate.core.batch import JobPart, JobPlan, LandedBatch
from tidegate.core.errors import BatchRefused, ReplayRefused
from tidegate.core.instants import iso
from tidegate.core.lateness import OPEN_TO_ALL
from tidegate.core.layout import join
from tidegate.core.ledger import OwedSpan
from tidegate.core.offsets import Interval, OffsetRange
from tidegate.core.plain import to_plain
from tidegate.core.ports import TopicState
from tidegate.core.receipt import Receipt
from tidegate.core.redriving import source_batches
from tidegate.core.rereading import compare, listed
from tidegate.core.window import BuildingGeneration, BuiltGeneration, PublishedGeneration
from tidegate.workflow import redriven
from tidegate.workflow.assembly import collect, published_path
from tidegate.workflow.context import Context
from tidegate.workflow.jobs import read_receipt, run_job

_KEPT = "the current generation stays; restore lost files from a backup of the filesystem"


def rebuild(ctx: Context, generation: BuildingGeneration) -> BuiltGeneration:
    """BUILDING(epoch) -> BUILT by a Spark job that reads again. Raises ReplayRefused; the current generation stays.

    The job writes to a work directory; only what its receipt names is moved into the generation."""
    owed = ctx.ledger.windows.owed(ctx.name, generation.window, generation.batches, generation.late)
    if not owed:
        return collect(ctx, generation, [], {})
    job = _job_plan(ctx, generation, owed)
    start, number, epoch, nonce = generation.window.start_ms, generation.number, generation.epoch, generation.nonce
    try:
        run_job(ctx, job, ctx.layout.replay_plan(start, number, epoch, nonce))
    except BatchRefused as e:
        raise ReplayRefused(f"{iso(start)}: {e.args[0]}", advice=e.advice) from e
    receipt = read_receipt(ctx, job.attempt_dir)
    assert receipt is not None  # run_job raises without one
    if any(not part.sources for part in job.parts):
        _refuse_if_recreated(ctx.source.describe(job.topic), job.topic_id)  # R6: while it was read
    _compare(ctx, generation, owed, job, receipt)
    entries, sources = [], {}
    for f in receipt.files:
        entry = replace(f, path=published_path(f, f"g{number}.{epoch}"))
        entries.append(entry)
        sources[entry.path] = (join(job.attempt_dir, f.path),)
    return collect(ctx, generation, entries, sources)


def _job_plan(ctx: Context, generation: BuildingGeneration, owed: list[OwedSpan]) -> JobPlan:
    start, number, epoch, nonce = generation.window.start_ms, generation.number, generation.epoch, generation.nonce
    spans: dict[int, list[OwedSpan]] = defaultdict(list)
    for s in owed:
        spans[s.batch_id].append(s)
    batches = {i: ctx.ledger.batches.get(ctx.name, i) for i in spans}
    topics = {(b.plan.topic, b.plan.topic_id) for b in batches.values() if not b.plan.is_redrive}
    topics = topics or {(b.plan.topic, b.plan.topic_id) for b in batches.values()}
    if len(topics) > 1:
        raise ReplayRefused(f"{iso(start)}: its batches come from several topics: {sorted(topics)}")
    (topic, topic_id) = topics.pop()
    parts = []
    for batch_id, mine in sorted(spans.items()):
        batch = batches[batch_id]
        assert isinstance(batch, LandedBatch)
        pinned = None
        if batch.plan.spec_version != ctx.spec_version:
            pinned = to_plain(ctx.ledger.pipelines.spec(ctx.name, batch.plan.spec_version))
        plan = batch.plan
        ranges = tuple(OffsetRange(plan.topic, s.partition, s.min_offset, s.max_offset + 1) for s in mine)
        files = redriven.sources(ctx, source_batches(plan)) if plan.is_redrive else ()
        # rows that came late and were taken up are the window's: a floor below everything makes them data
        floor = OPEN_TO_ALL if batch_id in generation.late else plan.floor
        parts.append(JobPart(batch_id, plan.clock_ms, floor, ranges, plan.rules_version, pinned, files))
    _refuse_if_gone(ctx, topic, topic_id, [part for part in parts if not part.sources])
    return JobPlan(
        mode="replay",
        attempt=ctx.layout.replay_name(start, number, epoch, nonce),
        attempt_dir=ctx.layout.replay_attempt(start, number, epoch, nonce),
        pipeline=to_plain(ctx.pipeline),
        bootstrap=ctx.source.client_settings(),
        topic=topic,
        topic_id=topic_id,
        parts=tuple(parts),
        nonce=nonce,
        epoch=epoch,
        spec_version=ctx.spec_version,
        window_ms=start,
    )


def _refuse_if_gone(ctx: Context, topic: str, topic_id: str, parts: list[JobPart]) -> None:
    """`parts`: those that are read from Kafka."""
    if not parts:
        return
    now = ctx.source.describe(topic)
    _refuse_if_recreated(now, topic_id)
    for part in parts:
        for r in part.ranges:
            offsets = now.partitions[r.partition]
            if r.start < offsets.log_start:
                raise ReplayRefused(
                    f"batch {part.batch_id}: partition {r.partition} offsets [{r.start}, {offsets.log_start}) "
                    "have passed Kafka's retention",
                    advice=_KEPT,
                )
            if r.end > offsets.high_watermark:
                raise ReplayRefused(
                    f"batch {part.batch_id}: partition {r.partition} offsets [{offsets.high_watermark}, {r.end}) "
                    "are past the end of the log: the topic lost its newest records",
                    advice=_KEPT,
                )


def _refuse_if_recreated(now: TopicState, topic_id: str) -> None:
    if now.topic_id != topic_id:
        raise ReplayRefused(
            f"topic {now.topic} was recreated: it has id {now.topic_id} now, its records of then ({topic_id}) are gone",
            advice=_KEPT,
        )


def _compare(
    ctx: Context, generation: BuildingGeneration, owed: list[OwedSpan], job: JobPlan, receipt: Receipt
) -> None:
    """What each batch owes, read again: gap by gap, and row by row counted, as the ledger knows it.

    A rebuild never changes what belongs to a window."""
    batch_of = [part.batch_id for part in job.parts for _ in part.ranges]
    read = {(batch_id, r.range.partition): r for batch_id, r in zip(batch_of, receipt.ranges, strict=True)}
    written = sum(f.rows for f in receipt.files)
    if written != sum(r.data for r in receipt.ranges):
        raise ReplayRefused(f"the rebuild wrote {written} rows but counted {sum(r.data for r in receipt.ranges)}")
    gaps = {i: ctx.ledger.batches.gaps(ctx.name, i) for i in {s.batch_id for s in owed}}
    for s in owed:
        where = f"{iso(generation.window.start_ms)}: batch {s.batch_id}, partition {s.partition}"
        found = read[s.batch_id, s.partition]
        span = Interval(found.range.start, found.range.end)
        again = compare(span, gaps[s.batch_id].get(s.partition, ()), found.gaps)
        objection = again.objection(ctx.pipeline.source.gaps)
        if objection is not None:
            raise ReplayRefused(f"{where}: {objection}", advice=_KEPT)
        if found.data != s.rows:
            gone = f" (nothing any more at {listed(again.vanished)})" if again.vanished else ""
            raise ReplayRefused(
                f"{where} owes {s.rows} rows, the topic gives {found.data}{gone}: "
                "compaction, retention, or a spec that moves rows",
                advice=_KEPT,
            )


def unchanged(ctx: Context, generation: BuiltGeneration) -> PublishedGeneration | None:
    """A replay whose content is what is published already publishes nothing, and says so."""
    window = ctx.ledger.windows.get(ctx.name, generation.window)
    if window.current is None:
        return None
    current = ctx.ledger.windows.generation(ctx.name, generation.window, window.current)
    if not isinstance(current, PublishedGeneration) or current.digest != generation.digest:
        return None
    ctx.ledger.windows.discard(generation, f"content equals generation {current.number}")
    ctx.say(f"unchanged: the rebuilt content equals generation {current.number} (digest {current.digest[:12]})")
    return current
