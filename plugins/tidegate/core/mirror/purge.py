"""Which tombstones may be purged (M6), and what the purge leaves behind (M5)."""

from __future__ import annotations

from tidegate.core.mirror.jobs import Position


def refusal(below: Position, promised: Position | None) -> str | None:
    """Why tombstones below that position may not be purged now; None if they may.

    `promised`: the smallest position that a batch above the *table's* last one can bring for the first time, by the
    source's own promise; None without any promise."""
    if promised is None:
        return "the source does not promise that no older event comes"
    if below > promised:
        return f"events from position {promised} on may still come, {below} is above it"
    return None


def marker(before: Position, below: Position) -> Position:
    """`purged_below` of the commit that purges: it never goes back."""
    return max(before, below)
