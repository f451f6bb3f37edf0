"""What is sent of a unit: the files of a window's generation in force, or of a batch in a side table (D9); and what
has to leave another table there first (D11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.instants import iso
from tidegate.core.deliver.sender import Generation
from tidegate.core.deliver.states import Due
from tidegate.core.deliver.units import HeldBy, key_of, sides_beside
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import DATA, DIRTY, LATE, FileEntry, manifest_digest
from tidegate.core.target.paths import join
from tidegate.core.target.tables import told_columns
from tidegate.core.window.cut import window_from
from tidegate.core.window.states import CURRENT, PublishedGeneration, WindowKey
from tidegate.workflow.base import places
from tidegate.workflow.base.context import Context


@dataclass(frozen=True, kw_only=True)
class Content:
    """Of a unit's version: its digest, its rows, its files."""

    digest: str
    rows: int
    generation: Generation


def of(ctx: Context, one: Due) -> Content:
    """Raises LostComparison where another version is in force by now."""
    return _of_batch(ctx, one) if one.side else _of_window(ctx, one)


def key(ctx: Context, side: str, unit: int) -> WindowKey:
    """By which commands name it."""
    return key_of(unit) if side else window_from(unit, ctx.pipeline.windows)


def held_by(ctx: Context, delivery: str, one: Due) -> HeldBy:
    """D11: what stands there of rows that this unit has now; empty: nothing.

    A row is missing there for a while rather than there twice."""
    sides = sides_beside(delivery, (d.name for d in ctx.pipeline.deliver))
    return ctx.ledger.deliveries.not_left(ctx.name, delivery, one, sides) if sides else ()


def _of_window(ctx: Context, one: Due) -> Content:
    window = window_from(one.window_ms, ctx.pipeline.windows)
    found = ctx.ledger.windows.generation(ctx.name, window, one.generation)
    if not isinstance(found, PublishedGeneration) or found.state != CURRENT:
        raise LostComparison(f"generation {one.generation} of {iso(one.window_ms)} is not in force any more")
    files = tuple(Source(0, f, (join(found.location, f.path),)) for f in found.files)
    return _content(ctx, DATA, found.digest, files)


def _of_batch(ctx: Context, one: Due) -> Content:
    version, found = ctx.ledger.deliveries.side_files(ctx.name, one.side, one.window_ms)
    if version != one.generation:
        raise LostComparison(f"version {one.generation} of {one.unit} is not in force any more")
    landed = ctx.landed(one.window_ms)
    files = tuple(_source(ctx, one.side, one.window_ms, landed, f) for f in found)
    return _content(ctx, one.side, manifest_digest(found), files)


def _source(ctx: Context, side: str, batch_id: int, landed: str, f: FileEntry) -> Source:
    """Wherever it is on its way. Its path below the batch's directory there is that in the side table."""
    at = {LATE: places.late, DIRTY: places.dirty}[side](ctx.layout, batch_id, f, landed)
    on_its_way = () if ctx.layout.in_place else (
        (ctx.layout.landed(batch_id), f.path),
        (ctx.layout.side_staging(batch_id, side), f.path.removeprefix(f"{side}/")),
    )  # fmt: skip
    uris = dict.fromkeys(join(*place) for place in (*on_its_way, *at))
    return Source(batch_id, replace(f, path=f.path.removeprefix(f"{side}/")), tuple(uris))


def _content(ctx: Context, kind: str, digest: str, files: Iterable[Source]) -> Content:
    found = tuple(files)
    generation = Generation(files=found, columns=told_columns(ctx.pipeline, kind))
    return Content(digest=digest, rows=sum(f.entry.rows for f in found), generation=generation)
