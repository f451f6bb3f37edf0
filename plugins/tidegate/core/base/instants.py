"""Instants and durations (UTC ms) in words."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(ms: int | None) -> str:
    """`2013-01-05T04:00Z`, with seconds (and ms) only where there are any; `never` for None.

    What no calendar has, as a watermark of the year 1 can be, is told in days from 1970."""
    if ms is None:
        return "never"
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"1970 {'+' if ms > 0 else '-'} {abs(ms) // 86_400_000:,} days"
    if ms % 60_000 == 0:
        return at.strftime("%Y-%m-%dT%H:%MZ")
    return at.strftime("%Y-%m-%dT%H:%M:%S") + (f".{ms % 1000:03d}Z" if ms % 1000 else "Z")


def span(ms: float) -> str:
    """A duration for people: `38 min`, `2.5 h`, `3.1 days`, `72.5 years`."""
    seconds = abs(ms) / 1000
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    if seconds < 63_072_000:
        return f"{seconds / 86_400:.1f} days"
    return f"{seconds / 31_557_600:.1f} years"


MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
