"""Instants and durations (UTC ms) in words."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
_UNITS = (
    (120, 1, ".0f", "s"),
    (7200, 60, ".0f", "min"),
    (172_800, 3600, ".1f", "h"),
    (63_072_000, 86_400, ".1f", "days"),
    (inf, 31_557_600, ".1f", "years"),
)
"""Seconds below which a duration is told in a unit, the unit in seconds, its format and name."""


def iso(ms: int | None) -> str:
    """`2013-01-05T04:00Z`, with seconds (and ms) only where there are any; `never` for None.

    What no calendar has, as a watermark of the year 1 can be, is told in days from 1970."""
    if ms is None:
        return "never"
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"1970 {'+' if ms > 0 else '-'} {abs(ms) // DAY_MS:,} days"
    day = f"{at.year:04d}-{at:%m-%d}"  # strftime's %Y has no leading zeros
    if ms % MINUTE_MS == 0:
        return f"{day}T{at:%H:%M}Z"
    return f"{day}T{at:%H:%M:%S}" + (f".{ms % 1000:03d}Z" if ms % 1000 else "Z")


def span(ms: float) -> str:
    """A duration for people: `38 min`, `2.5 h`, `3.1 days`, `72.5 years`."""
    seconds = abs(ms) / 1000
    unit, form, name = next((unit, form, name) for below, unit, form, name in _UNITS if seconds < below)
    return f"{seconds / unit:{form}} {name}"
