"""Windows around every change of clocks of every zone, for every size: one rule in the core, the engine and on disk.

`python -m tests.zone_windows` goes over all of them (`make windows`); tests/window/test_zone_windows.py over a sample.
"""

from __future__ import annotations

import argparse
import sys
import time
import zoneinfo
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise

import pyarrow as pa

from spark_jobs.engine.route import window_starts
from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS
from tidegate.core.base.partition_values import partition_path
from tidegate.core.base.zones import Change, changes, day_start
from tidegate.core.spec.pipeline import TIME_PARTITIONS, Windows
from tidegate.core.window.cut import shared_directory, time_values, window_end, window_named, window_start
from tidegate.spec.rules import needed_time_partitions

SIZES = tuple(m * MINUTE_MS for m in range(1, 1441) if 1440 % m == 0)
ZONES = tuple(sorted(zoneinfo.available_timezones() - {"localtime", "posixrules", "Factory"}))
SINCE, UNTIL = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000) for year in (1990, 2038))
EARLIEST = int(datetime(1971, 1, 2, tzinfo=UTC).timestamp() * 1000)
"""`windows.start` is in 1971 or later."""


@dataclass(frozen=True)
class Place:
    """Windows of one size, cut from one start, near one moment."""

    zone: str
    size_ms: int
    start_ms: int
    at_ms: int
    back_ms: int

    def __str__(self) -> str:
        at, start = (datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (self.at_ms, self.start_ms))
        return f"{self.zone}, {self.size_ms // MINUTE_MS} min from {start}, clocks change at {at}"

    @property
    def windows(self) -> Windows:
        return Windows(size_ms=self.size_ms, timezone=self.zone, start_ms=self.start_ms, watermark_delay_ms=0)


@cache
def changes_of(zone: str) -> tuple[Change, ...]:
    """All from EARLIEST on."""
    return tuple(changes(zone, EARLIEST, UNTIL))


@cache
def starts_of(zone: str, before_ms: int) -> tuple[int, ...]:
    """A local midnight for each offset that the zone has had: windows are cut from `windows.start` on."""
    local, found = zoneinfo.ZoneInfo(zone), {}
    for at in (EARLIEST, *(c.at_ms for c in changes_of(zone))):
        moment = datetime.fromtimestamp((at + DAY_MS) / 1000, local)
        midnight = day_start(moment.date(), local)
        if midnight + 4 * DAY_MS < before_ms:
            found.setdefault(moment.utcoffset(), midnight)
    return tuple(found.values())


def places(zone: str, change: Change, size_ms: int) -> Iterator[Place]:
    """One for each way in which windows of this size can lie around the change."""
    cuts = set()
    for start in starts_of(zone, change.at_ms):
        if size_ms == DAY_MS or start % size_ms not in cuts:
            cuts.add(start % size_ms)
            yield Place(zone, size_ms, start, change.at_ms, change.back_ms)
        if size_ms == DAY_MS:
            return


def near(place: Place) -> list[int]:
    """Starts of windows on both sides of the change, in order, as the core gives them."""
    reach = abs(place.back_ms) + 2 * max(place.size_ms, HOUR_MS)
    starts = [window_start(place.at_ms - reach, place.windows)]
    while starts[-1] <= place.at_ms + reach:
        starts.append(window_end(starts[-1], place.windows))
    return starts


def problems(place: Place) -> list[str]:
    """What is wrong with the windows of a place; each names the place."""
    starts = near(place)
    found = [*_tiling(place, starts), *_directories(place, starts)]
    return [f"{place}: {what}" for what in found]


def _tiling(place: Place, starts: list[int]) -> Iterator[str]:
    moments, owners = [], []
    for start, end in pairwise(starts):
        if not start < end <= start + 2 * DAY_MS:
            yield f"window {start} ends at {end}"
        inside = {start, start + 1, (start + end) // 2, end - 1} | (
            {place.at_ms} if start <= place.at_ms < end else set()
        )
        moments += sorted(inside)
        owners += [start] * len(inside)
    core = [window_start(m, place.windows) for m in moments]
    if core != owners:
        yield f"instants whose window is not the one they lie in: {_different(moments, owners, core)}"
    engine = window_starts(pa.array(moments, pa.int64()), place.windows).to_pylist()
    if engine != owners:
        yield f"instants that the engine gives another window: {_different(moments, owners, engine)}"


def _different(moments: list[int], wanted: list[int], got: list[int]) -> list[tuple[int, int, int]]:
    return [t for t in zip(moments, wanted, got, strict=True) if t[1] != t[2]][:3]


def _directories(place: Place, starts: list[int]) -> Iterator[str]:
    needed = len(needed_time_partitions(place.size_ms))
    for count in range(needed, len(TIME_PARTITIONS) + 1):
        names = TIME_PARTITIONS[:count]
        if shared_directory(place.windows, names) is not None:
            continue  # the spec is refused
        taken: dict[str, int] = {}
        for start in starts:
            values = time_values(start, names, place.zone)
            path = partition_path(values)
            if taken.setdefault(path, start) != start:
                yield f"{path} is the directory of {taken[path]} and {start}"
            if window_named(values, place.windows) != start:
                yield f"{path} names {window_named(values, place.windows)}, not {start}"


def all_of(zone: str) -> tuple[int, list[str]]:
    """Every change since SINCE, every size. How many places, and what is wrong."""
    count, found = 0, []
    for change in changes_of(zone):
        if change.at_ms >= SINCE:
            for size in SIZES:
                for place in places(zone, change, size):
                    count += 1
                    found += problems(place)
    return count, found


def main() -> int:
    """Exit code 1 if anything is wrong."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--zones", nargs="*", default=ZONES)
    asked.add_argument("--jobs", type=int, default=2)
    zones, began, total, wrong = asked.parse_args(), time.monotonic(), 0, []
    once = {changes_of(zone): zone for zone in reversed(zones.zones)}  # of zones that are alike the first
    with ProcessPoolExecutor(zones.jobs) as pool:
        for count, found in pool.map(all_of, sorted(once.values())):
            total, wrong = total + count, wrong + found
    print("\n".join(wrong[:50]))
    print(f"{len(zones.zones)} zones, {len(once)} of them different, {total:,} places, {len(wrong)} wrong, "
          f"{time.monotonic() - began:.0f} s")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
