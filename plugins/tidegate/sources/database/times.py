"""Bounds of a window by a column with times, as texts that the database compares with its values."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from tidegate.core.base.errors import SourceError
from tidegate.core.copy.port import SourceTable, Times
from tidegate.core.window.states import WindowKey
from tidegate.databases.types import family


def times_of(
    kind: str, table: SourceTable, column: str, window: WindowKey, overlap_ms: int, timezone: str = "UTC"
) -> Times:
    """Rows of the window, and of `overlap_ms` before. `timezone`: of values without a zone of their own; sessions are
    in UTC. Two windows side by side share a bound: no row is between them. Raises SourceError."""
    found = next((c for c in table.columns if c.name == column), None)
    where = f"table {table.schema}.{table.name}"
    if found is None:
        raise SourceError(f"{where} has no column {column}", advice="fix source.column", retry=False)
    kept = family(kind, found.type)
    if kept is None or kept.name not in ("instant", "datetime", "date"):
        raise SourceError(
            f"{where}, column {column}: {found.type} is no time or date",
            advice="name a column with times (source.column), or read all rows: leave it out",
            retry=False,
        )
    zone = UTC if kept.name == "instant" else ZoneInfo(timezone)
    form = "%Y-%m-%d" if kept.name == "date" else "%Y-%m-%d %H:%M:%S.%f"
    lower, upper = (
        datetime.fromtimestamp(ms / 1000, zone).strftime(form) for ms in (window.start_ms - overlap_ms, window.end_ms)
    )
    return Times(column, lower, upper)
