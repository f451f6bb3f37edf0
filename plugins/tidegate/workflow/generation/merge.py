"""Merge a window's small files before it is published (R3): a job writes, its arithmetic decides, sources stay.

A merge is worth less than a published window: when it cannot be done the files are published as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidegate.core.base.errors import StorageError, TidegateError
from tidegate.core.base.partition_values import partition_path
from tidegate.core.base.wording import many, those
from tidegate.core.batch.states import AbandonedBatch
from tidegate.core.files import merge as rules
from tidegate.core.files.landed import LandedFile
from tidegate.core.files.merge import Merge, MergeReceipt, Source
from tidegate.core.files.receipt import DATA, FileEntry, content_digest
from tidegate.core.spec.pipeline import table_columns
from tidegate.core.target.paths import join
from tidegate.core.window.cut import window_from
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import BuildingGeneration, PublishedGeneration, WindowKey
from tidegate.workflow.base import jobs
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.places import landed_path

Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MergedFile:
    """`entry` is what the window's manifest will say; the file lies at `uri`, in the job's work directory."""

    entry: FileEntry
    uri: str


@dataclass(frozen=True)
class Result:
    """`left`: landed files that no merged file holds."""

    files: tuple[MergedFile, ...]
    left: tuple[LandedFile, ...]


def places(ctx: Context, generation: BuildingGeneration, item: LandedFile) -> tuple[str, ...]:
    """Places where a landed file may be, in the order in which files move: landed, then lower epochs' directories."""
    if ctx.layout.in_place:
        return (join(ctx.landed(item.batch_id), item.entry.path),)
    key, number = generation.window, generation.number
    lower = (ctx.layout.assembly(key.start_ms, number, e) for e in range(1, generation.epoch))
    landed = join(ctx.landed(item.batch_id), item.entry.path)
    return (landed, *(join(d, landed_path(ctx, item)) for d in lower))


def merge_small(ctx: Context, generation: BuildingGeneration, landed: Sequence[LandedFile]) -> Result:
    """Merge what is worth it. Raises only what the ledger and the storage raise while the job is prepared."""
    nothing = Result((), tuple(landed))
    merges = _worth(ctx, generation, landed)
    if not merges:
        return nothing
    files = sum(len(m.sources) for m in merges)
    ctx.say(f"merging {many(files, 'small file')} into {len(merges)}")
    job = jobs.merge_plan(ctx, generation, merges)
    plan = ctx.layout.merge_plan(generation.window.start_ms, generation.number, generation.epoch, generation.nonce)
    try:
        receipt = jobs.rewritten(ctx, MergeReceipt, job, plan)
    except TidegateError as e:
        ctx.say(f"WARNING: {those(files, 'small file')} published as they are, merging them failed: {e}")
        return nothing
    listing = {f.path: f.bytes for f in ctx.storage.list_files(job.attempt_dir) or []}
    wrong = rules.errors(merges, receipt, listing)
    if wrong:
        ctx.say(f"WARNING: small files are published as they are, the merged ones differ: {'; '.join(wrong[:3])}")
        return nothing
    told = {m.stem: m for m in receipt.files}
    made = []
    for merge in merges:
        got = told[merge.stem]
        made.append(MergedFile(rules.sum_of(merge.sources, got.path, got.bytes), join(job.attempt_dir, got.path)))
    gone = {(s.batch_id, s.entry.path) for m in merges for s in m.sources}
    return Result(tuple(made), tuple(f for f in landed if (f.batch_id, f.entry.path) not in gone))


def _worth(ctx: Context, generation: BuildingGeneration, landed: Sequence[LandedFile]) -> tuple[Merge, ...]:
    sink, limit = ctx.pipeline.sink, ctx.pipeline.archive.merge.min_files
    if not rules.worth_a_look((f.entry for f in landed), sink.target_file_size, limit):
        return ()
    sources = [Source(f.batch_id, f.entry, places(ctx, generation, f)) for f in landed]
    columns = _columns(ctx, landed)
    found = []
    for number, group in enumerate(rules.groups(sources, columns, sink.target_file_size, limit)):
        told = columns[group[0].batch_id] if sink.format == "text" else None
        found.append(Merge(_stem(generation, number, group), group, told))
    return tuple(found)


def _stem(generation: BuildingGeneration, number: int, group: tuple[Source, ...]) -> str:
    """The epoch is in the name: what an overtaken epoch merged is never taken for this one's."""
    folder, name = partition_path(group[0].entry.values), f"m{generation.epoch}-{number:04d}"
    return f"{folder}/{name}" if folder else name


def _columns(ctx: Context, landed: Sequence[LandedFile]) -> dict[int, Columns]:
    """The columns that each batch's files were written with: those of the spec that it was planned with."""
    by_spec: dict[int, Columns] = {}
    found: dict[int, Columns] = {}
    for batch_id in sorted({f.batch_id for f in landed}):
        batch = ctx.ledger.batches.get(ctx.name, batch_id)
        assert not isinstance(batch, AbandonedBatch)
        version = batch.plan.spec_version
        if version not in by_spec:
            by_spec[version] = table_columns(ctx.ledger.pipelines.spec(ctx.name, version))
        found[batch_id] = by_spec[version]
    return found


def drop_sources(ctx: Context, generation: PublishedGeneration) -> None:
    """Landed files whose rows a merged file of this CURRENT generation holds are not needed any more.

    What a death leaves of them the cleaner finds by the same rule."""
    if generation.number != 1:
        return
    try:
        _delete_merged(ctx, generation)
    except StorageError as e:
        ctx.say(f"files whose rows are in merged ones stay until the next cleaning: {e}")


def _delete_merged(ctx: Context, generation: PublishedGeneration) -> None:
    merged = merged_of_window(ctx, generation.window)
    for item in ctx.ledger.windows.landed_files(ctx.name, generation.window, generation.batches) if merged else ():
        if landed_path(ctx, item) in merged:
            ctx.storage.delete(join(ctx.landed(item.batch_id), item.entry.path))


def merged_of_window(ctx: Context, key: WindowKey) -> frozenset[str]:
    """The published paths that landed files of the window would have, of those whose rows other files hold.

    Proved by the digest: the first generation's content is that of all landed files; a rebuilt one was compared with
    the batches' totals before it was BUILT. None before that."""
    first = ctx.ledger.windows.generation(ctx.name, key, 1)
    if isinstance(first, BuildingGeneration):
        return frozenset()
    landed = ctx.ledger.windows.landed_files(ctx.name, key, first.batches)
    if of_kind(first.kind).landed and content_digest(f.entry for f in landed) != first.digest:
        return frozenset()
    return rules.merged_sources((landed_path(ctx, f) for f in landed), (f.path for f in first.files))


def merged_of_batch(ctx: Context, batch_id: int, files: Iterable[FileEntry]) -> set[str]:
    """Paths of those of the landed batch's data files whose rows merged files of published windows hold."""
    merged: dict[int, frozenset[str]] = {}
    found: set[str] = set()
    for f in files:
        if f.kind != DATA or f.window_ms is None:
            continue
        if f.window_ms not in merged:
            key = window_from(f.window_ms, ctx.pipeline.windows)
            published = ctx.ledger.windows.get(ctx.name, key).current is not None
            merged[f.window_ms] = merged_of_window(ctx, key) if published else frozenset()
        if landed_path(ctx, LandedFile(batch_id, f)) in merged[f.window_ms]:
            found.add(f.path)
    return found


def as_published(ctx: Context, item: LandedFile) -> FileEntry:
    return replace(item.entry, path=landed_path(ctx, item))
