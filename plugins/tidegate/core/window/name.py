"""A window as people write it: an instant in it, its partition, or its id."""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate.core.base.instants import MINUTE_MS
from tidegate.core.base.partition_values import parse_partition_path
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import parse_window_id, time_values, window_from, window_named, window_start
from tidegate.core.window.states import WindowKey


class NoWindow(ValueError):
    """A text that names no window; the message says what does."""


def named(pipeline: Pipeline, text: str) -> WindowKey:
    """The window that the text names: `2013-01-26T16:00Z` (UTC unless it names a zone), `date=2013-01-26/hour=16`, or
    `20130126T160000Z`. Raises NoWindow."""
    if not pipeline.windows.closes:
        raise NoWindow(
            f"{pipeline.name} has no windows: its table holds the newest row of each key, up to the newest merged "
            f"batch (tidegate status {pipeline.name})"
        )
    try:
        start = window_start(_instant_ms(pipeline, text.strip()), pipeline.windows)
        time_values(start, pipeline.time_partitions, pipeline.windows.timezone)  # within the years of a calendar
        return window_from(start, pipeline.windows)
    except NoWindow:
        raise
    except (ValueError, OverflowError):
        raise NoWindow(
            f"{text!r} is neither an instant (2013-01-26T16:00Z), a partition (date=2013-01-26/hour=16) "
            "nor a window's id (20130126T160000Z)"
        ) from None


def _instant_ms(pipeline: Pipeline, text: str) -> int:
    if "=" in text:
        return _partition_ms(pipeline, text)
    if text.endswith("Z") and "-" not in text:
        return parse_window_id(text)
    at = datetime.fromisoformat(text)
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _partition_ms(pipeline: Pipeline, text: str) -> int:
    """`date=2013-01-26/hour=16`: local to the pipeline, as the table has it; further partitions are not looked at."""
    given = tuple(pair for pair in parse_partition_path(text) if pair[0] in pipeline.time_partitions)
    if tuple(column for column, _ in given) != pipeline.time_partitions:
        raise ValueError
    start = window_named(given, pipeline.windows)
    if start is None:
        size, zone = pipeline.windows.size_ms // MINUTE_MS, pipeline.windows.timezone
        raise NoWindow(f"no window has the partition {text}: none of {size:,} min begins there by the clocks of {zone}")
    return start
