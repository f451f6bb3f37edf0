"""Generations that other DAGs have not been told of: a task died, or they were published where no Airflow is."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.tell import announcement
from tidegate.core.tell.announcement import Notice
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Context

MOST = 100
"""Generations that one run announces; the next one goes on."""


def notice(ctx: Context, window: WindowKey, number: int) -> Notice | None:
    """What there is to tell; None if another generation is in force by now, whose own announcement counts."""
    return ctx.ledger.announcements.notice(ctx.name, window.start_ms, number)


def due(ctx: Context) -> Iterator[Notice]:
    """Generations to announce here, oldest first. Their `on_publish` statements run before they are given out."""
    now = ctx.ledger.now_ms()
    for start, number in ctx.ledger.announcements.unannounced(ctx.name, now - announcement.MOST_DAYS_MS, MOST):
        found = ctx.ledger.announcements.notice(ctx.name, start, number)
        if found is not None and announcement.due(found, now):
            ctx.target.refresh()
            yield found


def told(ctx: Context, notice: Notice) -> None:
    """Its event has been written. Raises LostComparison if the ledger has forgotten its publication."""
    ctx.ledger.windows.announced(ctx.name, notice.window, notice.number)
