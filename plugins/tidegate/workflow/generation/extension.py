"""Build a generation that takes late rows up: the files of the one in force, and the late files, by a Spark job.

Kafka is not asked, so its retention does not matter. What cannot be proved to be exactly these rows publishes nothing.
"""

from __future__ import annotations

from collections import defaultdict

from tidegate.core.base.errors import ReplayRefused
from tidegate.core.base.instants import iso
from tidegate.core.batch.jobs import ReopenPlan
from tidegate.core.batch.states import AbandonedBatch
from tidegate.core.files import merge
from tidegate.core.files.merge import Merge, Source
from tidegate.core.files.overflow import Known, overflow_values
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.late import reopen
from tidegate.core.late.reopen import ReopenReceipt
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import join
from tidegate.core.target.tables import told_columns
from tidegate.core.window.states import BuildingGeneration, BuiltGeneration, PublishedGeneration
from tidegate.workflow.base import jobs, overflow
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.generation.assembly import collect_written
from tidegate.workflow.generation.restoration import refuse_if_lost
from tidegate.workflow.side import late_files

_STAYS = "the current generation stays, and the late rows stay in the late table"


def build(ctx: Context, generation: BuildingGeneration) -> BuiltGeneration:
    """BUILDING(epoch) -> BUILT. Raises ReplayRefused; then the generation in force stays, and so do the late rows.

    The job writes to a work directory; only what its receipt names is moved into the generation."""
    current = in_force(ctx, generation.window)
    if current is None or current.number >= generation.number:
        raise MovedOn
    # before a job is started; and a lost file must not keep Clear from rebuilding the window
    refuse_if_lost(ctx, current, "clear the window's publish task, which rebuilds it, then reopen it again")
    late = _late_sources(ctx, generation, current)
    job = _job_plan(ctx, generation, current, late)
    plan = ctx.layout.replay_plan(generation.window.start_ms, generation.number, generation.epoch, generation.nonce)
    receipt = jobs.rewritten(ctx, ReopenReceipt, job, plan, _STAYS)
    owed = ctx.ledger.windows.owed(ctx.name, generation.window, generation.batches, generation.late)
    listing = {f.path: f.bytes for f in ctx.storage.list_files(job.attempt_dir) or []}
    wrong = reopen.errors(receipt, current.files, [s.entry for s in late], owed, listing)
    if wrong:
        raise ReplayRefused(f"{iso(generation.window.start_ms)}: {'; '.join(wrong[:3])}", advice=_STAYS)
    for one in receipt.overflow:
        overflow.say_one(ctx, one)
    return collect_written(ctx, generation, job.attempt_dir, receipt.files)


def _late_sources(ctx: Context, generation: BuildingGeneration, current: PublishedGeneration) -> list[Source]:
    found, start = [], generation.window.start_ms
    for batch_id in (i for i in generation.late if i not in current.late):
        for f in late_files.files_of(ctx, start, batch_id):
            uris = late_files.homes(ctx, batch_id, f)
            if not any(ctx.storage.exists(uri) for uri in uris):
                raise ReplayRefused(
                    f"{iso(start)}: late file lost: it is not at {uris[0]}",
                    advice="restore it from a backup of the filesystem, then reopen the window again",
                )
            found.append(Source(batch_id, f, uris))
    return found


# ---------------------------------------------------------------- the job


def _job_plan(
    ctx: Context, generation: BuildingGeneration, current: PublishedGeneration, late: list[Source]
) -> ReopenPlan:
    key = (generation.window.start_ms, generation.number, generation.epoch, generation.nonce)
    values = {f.values for f in current.files} - {overflow_values(ctx.pipeline)}
    name, directory = ctx.layout.replay_name(*key), ctx.layout.replay_attempt(*key)
    known = Known.of({generation.window.start_ms: values})
    more = {"known": known, "late": _by_columns(ctx, late)}
    return jobs.rewrite_plan(ctx, ReopenPlan, generation, name, directory, _copies(ctx, current), **more)


def _copies(ctx: Context, current: PublishedGeneration) -> tuple[Merge, ...]:
    """Each file of the generation in force once; small ones of a partition together, if that is worth it."""
    sink, told = ctx.pipeline.sink, told_columns(ctx.pipeline, DATA)
    sources = [Source(0, f, (join(current.location, f.path),)) for f in current.files]
    groups = merge.groups(sources, {0: None}, sink.target_file_size, ctx.pipeline.archive.merge.min_files)
    grouped = {s.entry.path for group in groups for s in group}
    groups += [(s,) for s in sources if s.entry.path not in grouped]
    return tuple(Merge(f"{DATA}/c{i:05d}", group, told) for i, group in enumerate(groups))


def _by_columns(ctx: Context, late: list[Source]) -> tuple[Merge, ...]:
    """Late files by the spec that their batches were planned with: where files do not say their columns, it does."""
    specs: dict[int, Pipeline] = {}
    groups: dict[int, list[Source]] = defaultdict(list)
    for source in late:
        batch = ctx.ledger.batches.get(ctx.name, source.batch_id)
        assert not isinstance(batch, AbandonedBatch)
        version = batch.plan.spec_version
        if version not in specs:
            specs[version] = ctx.ledger.pipelines.spec(ctx.name, version)
        groups[version].append(source)
    return tuple(
        Merge(f"{LATE}{version}", tuple(mine), told_columns(specs[version], LATE))
        for version, mine in sorted(groups.items())
    )
