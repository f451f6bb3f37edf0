"""What the ledger knows is due, whoever forgot it: windows without a publication, side files without their tables."""

from __future__ import annotations

from tidegate.core import watermark
from tidegate.core.layout import window_end, window_start
from tidegate.core.window import WindowKey
from tidegate.workflow import landing
from tidegate.workflow.context import Context


def maintain(ctx: Context) -> list[str]:
    """The maintenance DAG's duties for one pipeline; what was done, in words."""
    return landing.finish_side_duties(ctx)


def due_windows(ctx: Context, limit: int = 200) -> list[WindowKey]:
    """Windows from `windows.start` up to the global watermark that have no CURRENT generation, oldest first."""
    spec = ctx.pipeline.windows
    low = watermark.global_watermark(watermark.watermarks(spec, ctx.ledger.windows.facts(ctx.name)))
    if low is None:
        return []
    published = ctx.ledger.windows.published_starts(ctx.name)
    due: list[WindowKey] = []
    start = window_start(spec.start_ms, spec)
    while len(due) < limit:
        end = window_end(start, spec)
        if end > low:
            break
        if start not in published:
            due.append(WindowKey(start, end))
        start = end
    return due
