"""Landed windows that no run will ever publish: the schedule does not have them, or no task looks for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import Interval
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.schedule import is_window
from tidegate.core.window.zonedata import version_of


@dataclass(frozen=True)
class Stranded:
    """Why no run will publish a window that has landed rows, and what to do."""

    start_ms: int
    why: str
    advice: str


def stranded(name: str, windows: Windows, start_ms: int, published: Iterable[Interval]) -> Stranded | None:
    """The window with its reason, if it has landed data and no generation in force. None: a run comes for it, or will.

    `published`: parts of time of which it is remembered that every window in them is published."""
    if not is_window(start_ms, windows):
        here = window_start(start_ms, windows)
        zone = windows.timezone
        return Stranded(
            start_ms,
            f"the schedule has no such window: by the zone data of this host ({zone}, {version_of(zone)}) it is "
            f"[{iso(here)}, {iso(window_end(here, windows))})",
            "put back the tzdata by which it was cut, on the hosts of Airflow and on the executors (PYTHONTZPATH names "
            "a folder of zone data)",
        )
    if window_end(start_ms, windows) <= windows.start_ms:
        return Stranded(start_ms, "it ends before windows.start", f"move windows.start back to {iso(start_ms)}")
    if any(start_ms in part for part in published):
        at = iso(start_ms)
        return Stranded(
            start_ms,
            "it counts as published, but no generation of it is in force",
            f"publish it: airflow dags backfill --reset-dagruns -y {name}.archive -s {at} -e {at}",
        )
    return None
