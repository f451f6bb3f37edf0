"""Records of batches and generations in storage: written beside the files, read when the ledger knows less (R11)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from tidegate.core.base.errors import OtherPipeline, PathExists, PathMissing, StorageAhead
from tidegate.core.base.fields import read_as
from tidegate.core.base.plain import UnknownFields, dumps
from tidegate.core.base.wording import many
from tidegate.core.batch.states import AbandonedBatch, SealedBatch
from tidegate.core.files.receipt import FileEntry
from tidegate.core.restore.record import BatchRecord, GenerationRecord, pack, unpack
from tidegate.core.target.paths import join, parse_assembly
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import BuiltGeneration
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.renames import try_rename

T = TypeVar("T")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def mark_batch(ctx: Context, batch: SealedBatch | AbandonedBatch) -> None:
    """Never cleaned: it tells a ledger that lost commits that this id is taken, and what the batch was.

    Raises StorageAhead where storage has rows under the id of a batch that the ledger has given up."""
    path = ctx.layout.high_water_mark(batch.plan.batch_id)
    _write_once(ctx, path, pack(ctx.ledger.recovery.record(batch)))
    if isinstance(batch, AbandonedBatch):
        _refuse_if_landed(ctx, batch.plan.batch_id)


def _refuse_if_landed(ctx: Context, batch_id: int) -> None:
    """A ledger that lost commits may give up what has landed: nothing more is planned before a person has decided."""
    record = batch_record(ctx, batch_id)
    if record is not None and record.manifest is not None:
        raise StorageAhead(
            f"{ctx.name}: batch {batch_id} is ABANDONED in the ledger, but {ctx.layout.high_water_mark(batch_id)} says "
            f"that it has landed, {many(record.manifest.rows, 'row')}",
            advice=f"`tidegate repair {ctx.name} --adopt --why ...` takes the batch as it has landed: it was given up "
            "by a ledger that had lost a commit",
        )


def mark_if_abandoned(ctx: Context, batch_id: int) -> None:
    """Marks have no holes: who abandoned the last batch may have died before its mark. Raises StorageAhead."""
    if batch_id < 1:
        return
    batch = ctx.ledger.batches.get(ctx.name, batch_id)
    if isinstance(batch, AbandonedBatch):
        mark_batch(ctx, batch)


def mark_generation(ctx: Context, generation: BuiltGeneration, location: str) -> None:
    """Write the record before the directory is renamed to where readers look."""
    key, now_ms = generation.window, ctx.ledger.now_ms()
    record = read_as(
        GenerationRecord,
        generation,
        location=location,
        certificate=ctx.ledger.windows.certificate(ctx.name, key),
        recorded_ms=now_ms,
        origin=ctx.ledger.rollbacks.of(ctx.name, key, generation.number) if of_kind(generation.kind).restores else None,
        decoders=ctx.ledger.recovery.decoders(ctx.name, key, generation.number),
    )
    path = ctx.layout.publication_mark(now_ms, key.start_ms, generation.number, generation.epoch)
    _write_once(ctx, path, pack(record))
    if ctx.layout.in_place and generation_record(ctx, path).files != generation.files:
        raise StorageAhead(f"{path} records other files than generation {generation.number} has, by another ledger")


def mark_left(ctx: Context, path: str, files: Iterable[FileEntry]) -> None:
    """Write down that late or dirty files have left their table for good, where nothing moves; never cleaned."""
    _write_once(ctx, path, dumps(sorted(f.path for f in files)).encode())


def is_copy(ctx: Context, path: str, target: str) -> bool:
    """Whether an earlier try has copied the record already, and died before it deleted it, where nothing moves."""
    return ctx.layout.in_place and ctx.storage.read(target) == ctx.storage.read(path)


def set_aside(ctx: Context, path: str, target: str) -> None:
    """Bring a record to where no look at records meets it. Done in part, it is done by the next call."""
    if not ctx.layout.in_place:
        return try_rename(ctx.storage, path, target)
    _write_once(ctx, target, ctx.storage.read(path))
    ctx.storage.delete(path)


def _write_once(ctx: Context, path: str, content: bytes) -> None:
    try:
        ctx.storage.write_new(path, content)
    except PathExists:
        pass


def batch_record(ctx: Context, batch_id: int) -> BatchRecord | None:
    """None if there is no mark, or one that says no more than that the id is taken.

    Raises StorageAhead for a mark that cannot be read, or is another pipeline's."""
    path = ctx.layout.high_water_mark(batch_id)
    try:
        content = ctx.storage.read(path)
    except PathMissing:
        return None
    if not content:
        return None
    record = _unpacked(BatchRecord, path, content)
    _refuse_other(ctx, record.plan.pipeline, path)
    return record


def generation_record(ctx: Context, path: str) -> GenerationRecord:
    """Raises StorageAhead for a record that cannot be read, or is another pipeline's."""
    record = _unpacked(GenerationRecord, path, ctx.storage.read(path))
    _refuse_other(ctx, record.pipeline, path)
    return record


def _refuse_other(ctx: Context, name: str, path: str) -> None:
    """The ledger knows batches by their pipeline's name: under another one its offsets would be read again."""
    if name == ctx.name:
        return
    sink = ctx.pipeline.sink
    raise OtherPipeline(
        f"{ctx.name}: {sink.location} belongs to pipeline {name}: {path} is its record",
        advice=f"a pipeline keeps its name: if {ctx.name} is {name} under a new one, rename its file to {name}.yaml "
        f"and write `name: {name}` in it again: it goes on where it was. If it is another pipeline, give it a "
        f"sink.table and a sink.location of its own; one that is to go on from {name} begins with source.start. "
        "Nothing has been changed",
    )


def _unpacked(kind: type[T], path: str, content: bytes) -> T:
    try:
        return unpack(kind, content)
    except UnknownFields as e:
        advice = "finish the upgrade on this host, then run this again; the record is whole, leave it where it is"
        raise StorageAhead(f"{path} cannot be read: {e}", advice=advice) from e
    except ValueError as e:
        raise StorageAhead(f"{path} cannot be read: {e}", advice="restore it from a backup of the filesystem") from e


def publication_marks(ctx: Context, since_ms: int | None) -> dict[tuple[int, int], str]:
    """(window start UTC ms, generation) -> path of its newest record, for publications since a day before `since_ms`.

    Names of other files are left out."""
    layout = ctx.layout
    days = [d for d in ctx.storage.list_names(layout.publication_marks()) or [] if _DAY.fullmatch(d)]
    if since_ms is not None:
        first = layout.publication_day(since_ms - 86_400_000).rsplit("/", 1)[1]
        days = [d for d in days if d >= first]
    found: dict[tuple[int, int], tuple[int, str]] = {}
    for day in days:
        folder = join(layout.publication_marks(), day)
        for name in ctx.storage.list_names(folder) or []:
            mark = parse_assembly(name)
            if mark is not None and mark.epoch >= found.get((mark.window_ms, mark.number), (0, ""))[0]:
                found[mark.window_ms, mark.number] = (mark.epoch, join(folder, name))
    return {key: path for key, (_, path) in sorted(found.items())}
