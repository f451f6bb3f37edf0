"""Assemble a window: the control plane moves the files that the manifests name into one directory (R3).

On a store without renames they stay where they are, and the generation's manifest names them by URI."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tidegate.core.base.errors import Alarm, FilesLost, LostComparison, PathExists
from tidegate.core.base.plain import dumps
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import FileEntry, content_digest
from tidegate.core.target.paths import CERTIFICATE, is_uri, join
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import BuildingGeneration, BuiltGeneration
from tidegate.kinds import target_kind
from tidegate.workflow.base import bounds
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.listing import present
from tidegate.workflow.base.places import published_path
from tidegate.workflow.base.renames import MovedOn, manifest_of, move_files
from tidegate.workflow.generation import daily
from tidegate.workflow.generation.merge import as_published, merge_small

MAX_FILES = 5000
"""Of a window's files that its certificate names: a reader's first look must not take minutes."""


def assemble(ctx: Context, generation: BuildingGeneration) -> BuiltGeneration:
    """BUILDING(epoch) -> BUILT from the landed files of the generation's batches, small ones merged before.

    A file lies in `landed/`, or in the directory of a lower epoch whose task died: it moves upward only. What was
    merged stays where it is. Raises MovedOn, FilesLost."""
    landed = ctx.ledger.windows.landed_files(ctx.name, generation.window, generation.batches)
    merged = merge_small(ctx, generation, landed)
    sources: dict[str, tuple[str, ...]] = {}
    entries: list[FileEntry] = []
    for file in merged.files:
        entry = _where(ctx, file.entry, file.uri)
        entries.append(entry)
        sources[entry.path] = (file.uri,)
    for item in merged.left:
        entry = as_published(ctx, item)
        entries.append(entry)
        sources[entry.path] = (join(ctx.landed(item.batch_id), item.entry.path),)
    return collect(ctx, generation, entries, sources)


def collect(
    ctx: Context,
    generation: BuildingGeneration,
    entries: list[FileEntry],
    sources: dict[str, tuple[str, ...]],
    told: Mapping[str, str] = MappingProxyType({}),
) -> BuiltGeneration:
    """Move `entries` (paths in the new directory) from their `sources` or lower epochs; record BUILT. `told`: for the
    certificate and the event log.

    An alarm blocks the window, but for FilesLost of landed ones, since Kafka may still have their records, and of an
    earlier generation's, since the one in force stays."""
    key, number, epoch = generation.window, generation.number, generation.epoch
    directory = ctx.layout.assembly(key.start_ms, number, epoch)
    wanted = {e.path: (e.bytes, _places(ctx, generation, e.path, sources[e.path])) for e in entries}
    ctx.storage.make_dirs(directory)

    def still_mine() -> bool:
        return ctx.ledger.windows.holds(generation)

    try:
        if target_kind(ctx.pipeline.sink.kind).stored is not None:
            bounds.gather(ctx.storage, ctx.layout.workdir, directory, {path: at for path, (_, at) in wanted.items()})
        if any(is_uri(e.path) for e in entries):
            _refuse_if_lost(ctx, directory, entries, still_mine)
        else:
            move_files(ctx.storage, wanted, directory, still_mine)
        noted = {**daily.build(ctx, generation, directory, entries, still_mine), **told}
        _certify(ctx, generation, directory, entries, told)
        decoded_by = ctx.spec_version if of_kind(generation.kind).decoded else None
        built = ctx.ledger.windows.built(generation, directory, entries, decoded_by, noted)
    except LostComparison:
        raise MovedOn from None
    except Alarm as e:
        kind = of_kind(generation.kind)
        if not (isinstance(e, FilesLost) and (kind.landed or kind.restores)):
            ctx.ledger.windows.block(ctx.name, key, str(e))
        raise
    rows = sum(e.rows for e in entries)
    ctx.say(
        f"assembled {many(rows, 'row')} in {many(len(entries), 'file')} of {many(len(generation.batches), 'batch')}"
    )
    return built


def collect_written(
    ctx: Context,
    generation: BuildingGeneration,
    directory: str,
    files: Iterable[FileEntry],
    told: Mapping[str, str] = MappingProxyType({}),
) -> BuiltGeneration:
    """The same, of what a job's receipt names: `files`, below the job's `directory`."""
    entries: list[FileEntry] = []
    sources: dict[str, tuple[str, ...]] = {}
    for f in files:
        uri = join(directory, f.path)
        moved = replace(f, path=published_path(f, f"g{generation.number}.{generation.epoch}"))
        entries.append(_where(ctx, moved, uri))
        sources[entries[-1].path] = (uri,)
    return collect(ctx, generation, entries, sources, told)


def _where(ctx: Context, moved: FileEntry, uri: str) -> FileEntry:
    """The entry of a file that moves into the generation's directory; where nothing moves, with its URI."""
    return replace(moved, path=uri) if ctx.layout.in_place else moved


def _refuse_if_lost(ctx: Context, directory: str, entries: Sequence[FileEntry], still_mine: Callable[[], bool]) -> None:
    """Files that are named where they lie: each is where it was written, with its length. Raises MovedOn, FilesLost."""
    there = present(ctx.storage, directory, [e.path for e in entries])
    missing = [e.path for e in entries if there.get(e.path) != e.bytes]
    if missing and not still_mine():  # R10: before any alarm
        raise MovedOn
    if missing:
        more = many(len(missing) - 1, "more file")
        raise FilesLost(f"data file lost: {missing[0]} and {more} are not there as the manifest says")


def _places(ctx: Context, generation: BuildingGeneration, path: str, sources: tuple[str, ...]) -> tuple[str, ...]:
    """Places where a file may be: its sources, then the directories of lower epochs, which may have moved it up (R3).

    In the order in which files move: who looks the other way round can miss one that a zombie just moved up."""
    if ctx.layout.in_place:
        return sources
    lower = (ctx.layout.assembly(generation.window.start_ms, generation.number, e) for e in range(1, generation.epoch))
    return sources + tuple(join(d, path) for d in lower)


def _certify(
    ctx: Context, generation: BuildingGeneration, directory: str, entries: list[FileEntry], told: Mapping[str, str]
) -> None:
    """`_certificate.json`: which generation, of which batches, how many rows, on what grounds.

    Before BUILT: from then on no task writes to the directory, so that nothing can bring it back once it was
    renamed."""
    path = join(directory, CERTIFICATE)
    try:
        ctx.storage.write_new(path, dumps({**_certificate(ctx, generation, entries), **told}).encode())
    except PathExists:
        # in a ledger that lost commits an epoch can come twice: the next try takes one above this directory (R3)
        raise MovedOn from None


def _certificate(ctx: Context, generation: BuildingGeneration, entries: Sequence[FileEntry]) -> dict[str, object]:
    files = manifest_of(entries)
    grounds = ctx.ledger.windows.grounds(ctx.name, generation.window, generation.batches, generation.late)
    content: dict[str, object] = {
        "pipeline": ctx.name,
        "window": generation.window,
        "generation": generation.number,
        "epoch": generation.epoch,
        "kind": generation.kind,
        "batches": generation.batches,
        "rows": sum(e.rows for e in entries),
        "file_count": len(files),
        "files": dict(itertools.islice(sorted(files.items()), MAX_FILES)),
        "digest": content_digest(entries),
        "certificate": ctx.ledger.windows.certificate(ctx.name, generation.window),
        "grounds": grounds,
    }
    if of_kind(generation.kind).restores:
        content["rows_of"] = ctx.ledger.rollbacks.of(ctx.name, generation.window, generation.number)
    return content


__all__ = ["assemble", "collect", "published_path"]
