"""The generation of a window that readers see."""

from __future__ import annotations

from tidegate.core.window.states import PublishedGeneration, WindowKey
from tidegate.workflow.base.context import Context


def in_force(ctx: Context, key: WindowKey) -> PublishedGeneration | None:
    """The generation that was CURRENT when the ledger was asked; None before the first."""
    number = ctx.ledger.windows.get(ctx.name, key).current
    found = None if number is None else ctx.ledger.windows.generation(ctx.name, key, number)
    return found if isinstance(found, PublishedGeneration) else None
