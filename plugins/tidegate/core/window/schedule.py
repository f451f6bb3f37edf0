"""The windows of a pipeline's schedule, and rows that claim a window which is not one of them.

Windows of a local day begin where zone data say so. Rows in a window that the schedule does not have would wait for
good: no run comes for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.core.base.instants import DAY_MS, iso
from tidegate.core.base.offsets import Interval
from tidegate.core.base.partition_values import PartitionValues, partition_path
from tidegate.core.files.receipt import DATA, LATE, FileEntry, Receipt
from tidegate.core.spec.pipeline import Pipeline, Windows
from tidegate.core.window.cut import time_values, window_end, window_start
from tidegate.core.window.lateness import Floor


def is_window(start_ms: int, windows: Windows) -> bool:
    return window_start(start_ms, windows) == start_ms


def window_of(at_ms: int, windows: Windows) -> Interval:
    """The window that holds an instant."""
    start = window_start(at_ms, windows)
    return Interval(start, window_end(start, windows))


def strangers(starts: Iterable[int], windows: Windows) -> list[int]:
    """Instants at which no window of the schedule starts, sorted."""
    return sorted(start for start in set(starts) if not is_window(start, windows))


def nearby(start_ms: int, end_ms: int) -> tuple[int, int]:
    """Bounds between which a window must start to share a moment with `[start_ms, end_ms)`: a day is at most two days
    long."""
    return start_ms - 2 * DAY_MS, end_ms - 1


def errors(pipeline: Pipeline, floor: Floor, receipt: Receipt) -> Iterator[str]:
    """Why the receipt is not of this schedule: windows that it does not have, event times outside of their window,
    late directories that are spelled otherwise. Whoever wrote it looked at other zone data."""
    windows = pipeline.windows
    rerouted = floor.reroute_ms if any(r.rerouted for r in receipt.ranges) else None
    ends: dict[int, int | None] = {}
    for f in receipt.files:
        if f.window_ms is None:
            continue
        if f.window_ms not in ends:
            ends[f.window_ms] = window_end(f.window_ms, windows) if is_window(f.window_ms, windows) else None
        end = ends[f.window_ms]
        if end is None:
            here = window_start(f.window_ms, windows)
            yield (
                f"{f.path}: {f.kind} rows of a window {iso(f.window_ms)}, which is not one of the schedule: the window "
                f"there is [{iso(here)}, {iso(window_end(here, windows))})"
            )
        elif not _within(f, f.window_ms, end) and not (f.kind == DATA and f.window_ms == rerouted):
            yield (
                f"{f.path}: rows from {iso(f.min_event_ms)} to {iso(f.max_event_ms)} in the window "
                f"[{iso(f.window_ms)}, {iso(end)})"
            )
        elif f.kind == LATE and late_folder(f) != (due := partition_path(time_partitions(pipeline, f.window_ms))):
            yield f"{f.path}: window {iso(f.window_ms)} is spelled {due} here"


def _within(f: FileEntry, start_ms: int, end_ms: int) -> bool:
    return f.min_event_ms is None or f.max_event_ms is None or start_ms <= f.min_event_ms <= f.max_event_ms < end_ms


def time_partitions(pipeline: Pipeline, window_ms: int) -> PartitionValues:
    """Partition values as this host's zone data spell them."""
    return time_values(window_ms, pipeline.time_partitions, pipeline.windows.timezone)


def late_folder(f: FileEntry) -> str:
    """The directory of a late file below its batch's, spelled as by the host that wrote it."""
    return f.path.removeprefix(f"{LATE}/").rpartition("/")[0]
