"""Files of the events of a table by days: those of published days, and what waits for its day. The ledger says which,
storage is not asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.core.base.errors import LedgerError
from tidegate.core.files.receipt import DATA
from tidegate.core.look.port import LedgerReads
from tidegate.core.look.views import GenerationRow, Spine, WindowPage
from tidegate.core.target.paths import join
from tidegate.core.window.states import BUILT, CURRENT, SWAPPING
from tidegate.workflow.base import places
from tidegate.workflow.base.context import Context


@dataclass(frozen=True)
class DayEvents:
    """A day that starts at `window_ms` (UTC). `files`: of each the URIs where it can be, the likeliest first."""

    window_ms: int
    published: bool
    files: tuple[tuple[str, ...], ...]


def events_by_day(ctx: Context, reads: LedgerReads) -> list[DayEvents]:
    """Of all that has landed, in the order of days; each event is in one file. Raises LedgerError."""
    spine = reads.spine(ctx.name)
    if spine is None:
        raise LedgerError(f"pipeline {ctx.name} is not in the ledger", advice="its first ingest run registers it")
    return [_of_day(ctx, spine, page) for page in reads.window_pages(ctx.name)]


def _of_day(ctx: Context, spine: Spine, page: WindowPage) -> DayEvents:
    current = next((g for g in page.generations if g.state == CURRENT), None)
    first = next((g for g in page.generations if g.number == 1), None)
    placed = current
    if current is None and first is not None and first.state in (BUILT, SWAPPING):
        placed = first
    homes = _landed(ctx, spine, page, first) if placed is None else _of_generation(ctx, page, placed)
    files = tuple(tuple(join(directory, path) for directory, path in home) for home in homes)
    return DayEvents(page.window_ms, current is not None, files)


def _of_generation(ctx: Context, page: WindowPage, placed: GenerationRow) -> Iterator[tuple[places.Place, ...]]:
    makes_way = any(g.state == SWAPPING and g.location == placed.location for g in page.generations)
    directories = places.generation(ctx.pipeline, placed, placed.state == CURRENT, makes_way)
    return (places.below(ctx.layout, directories, f.path) for f in placed.files if f.rows)


def _landed(
    ctx: Context, spine: Spine, page: WindowPage, first: GenerationRow | None
) -> Iterator[tuple[places.Place, ...]]:
    return (
        places.moving(ctx.layout, batch_id, f, first)
        for batch_id, f in page.batch_files
        if f.kind == DATA and f.rows and spine.landed(batch_id)
    )
