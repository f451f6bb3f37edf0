"""Build a generation of the rows of an earlier one, whose files are never moved (R4: readers may still be at them).

Where tables name each file, the new generation has the same files as the earlier one, where they lie: nothing is
copied, and cleaning leaves them alone while either needs them. Else a Spark job copies them, and holds them against the
manifest row by row."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.base.errors import FilesLost, ReplayRefused
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.files import merge as merging
from tidegate.core.files.merge import Merge, MergeReceipt, Source
from tidegate.core.files.receipt import DATA, FileEntry, content_digest
from tidegate.core.replay import rollback
from tidegate.core.target.paths import join
from tidegate.core.target.tables import told_columns
from tidegate.core.window.states import RETIRED, BuildingGeneration, BuiltGeneration, PublishedGeneration, WindowKey
from tidegate.kinds import target_kind
from tidegate.workflow.base import bounds, jobs
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.listing import present
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.generation.assembly import collect, collect_written

_STAYS = "the generation in force stays; go back to another one, or replay the window"
_RESTORE = "restore them from a backup of the filesystem, or replay the window from Kafka"


def build(ctx: Context, generation: BuildingGeneration) -> BuiltGeneration:
    """BUILDING(epoch) -> BUILT. Raises ReplayRefused; then the generation in force stays."""
    told = ctx.ledger.rollbacks.of(ctx.name, generation.window, generation.number)
    if told is None:
        raise MovedOn
    old = earlier(ctx, generation.window, told.number)
    refuse_if_lost(ctx, old)
    return (
        _shared(ctx, generation, old)
        if target_kind(ctx.pipeline.sink.kind).names_files
        else _copied(ctx, generation, old)
    )


def _shared(ctx: Context, generation: BuildingGeneration, old: PublishedGeneration) -> BuiltGeneration:
    entries = [replace(f, path=join(old.location, f.path)) for f in old.files]
    directory = ctx.layout.assembly(generation.window.start_ms, generation.number, generation.epoch)
    uris = {e.path: f.path for e, f in zip(entries, old.files, strict=True)}
    bounds.hand_down(ctx.storage, old.location, directory, uris)
    try:
        return collect(ctx, generation, entries, {path: (path,) for path in uris})
    except FilesLost as e:
        raise ReplayRefused(f"{iso(generation.window.start_ms)}: {e.args[0]}", advice=_STAYS) from e


def _copied(ctx: Context, generation: BuildingGeneration, old: PublishedGeneration) -> BuiltGeneration:
    merges = _copies(ctx, old)
    copies: list[FileEntry] = []
    job = jobs.merge_plan(ctx, generation, merges)
    if merges:
        plan = ctx.layout.merge_plan(generation.window.start_ms, generation.number, generation.epoch, generation.nonce)
        receipt = jobs.rewritten(ctx, MergeReceipt, job, plan, _STAYS)
        listing = {f.path: f.bytes for f in ctx.storage.list_files(job.attempt_dir) or []}
        wrong = merging.errors(merges, receipt, listing)
        if wrong:
            raise ReplayRefused(f"{iso(generation.window.start_ms)}: {'; '.join(wrong[:3])}", advice=_STAYS)
        made = {f.stem: f for f in receipt.files}
        copies = [merging.sum_of(m.sources, made[m.stem].path, made[m.stem].bytes) for m in merges]
    if content_digest(copies) != old.digest:
        raise ReplayRefused(
            f"{iso(generation.window.start_ms)}: the copies are not the content of generation {old.number} (digest)",
            advice=_STAYS,
        )
    return collect_written(ctx, generation, job.attempt_dir, copies)


def earlier(ctx: Context, key: WindowKey, number: int) -> PublishedGeneration:
    """Raises MovedOn if it is not a retired one."""
    old = ctx.ledger.windows.generation(ctx.name, key, number)
    if not isinstance(old, PublishedGeneration) or old.state != RETIRED:
        raise MovedOn
    return old


def refuse_if_lost(ctx: Context, old: PublishedGeneration, advice: str = _RESTORE) -> None:
    """Raises ReplayRefused unless storage has every file, with its length."""
    gone = rollback.lost(old.files, present(ctx.storage, old.location, [f.path for f in old.files]))
    if gone:
        raise ReplayRefused(
            f"{iso(old.window.start_ms)}: {join(old.location, gone[0])} and "
            f"{many(len(gone) - 1, 'more file')} of generation "
            f"{old.number} are not there as its manifest says",
            advice=advice,
        )


def again(ctx: Context, generation: PublishedGeneration) -> int | None:
    """A rollback in force that has lost a file begins once more, if the earlier generation still has its own, by
    storage and by the ledger: what was cleaned and reappeared is nothing to rest on.

    None if that is not so: then the window is rebuilt as any other."""
    told = ctx.ledger.rollbacks.of(ctx.name, generation.window, generation.number)
    if told is None:
        return None
    try:
        rollback.choose(ctx.ledger.rollbacks.generations(ctx.name, generation.window), told.number, ctx.pipeline)
        refuse_if_lost(ctx, earlier(ctx, generation.window, told.number))
    except (MovedOn, ReplayRefused) as e:
        ctx.say(f"rows of generation {told.number} cannot be brought back ({e}): today's columns decode them anew")
        return None
    why = f"files of generation {generation.number} were lost; {told.why}"
    return ctx.ledger.rollbacks.begin(ctx.name, generation.window, generation.number, told.number, why)


# ---------------------------------------------------------------- the job


def _copies(ctx: Context, old: PublishedGeneration) -> tuple[Merge, ...]:
    """Each file by itself."""
    told = told_columns(ctx.pipeline, DATA)
    return tuple(
        Merge(f"{DATA}/c{i:05d}", (Source(0, f, (join(old.location, f.path),)),), told) for i, f in enumerate(old.files)
    )
