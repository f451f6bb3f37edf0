"""The cut: which window an instant belongs to, and how windows are named."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta

from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.base.zones import day_start, times_that_go_back
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.states import WindowKey


def window_id(start_ms: int) -> str:
    """A window's name in paths and commands: its start in UTC, `20130105T040000Z`."""
    at = datetime.fromtimestamp(start_ms / 1000, UTC)
    return f"{at.year:04d}{at:%m%dT%H%M%SZ}"  # of the year 512 the C library's %Y is `512`


def parse_window_id(text: str) -> int:
    return int(datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)


def is_number(text: str) -> bool:
    """Whether it is a number as names spell it: digits, none of them a zero in front."""
    return text.isascii() and text.isdigit() and str(int(text)) == text


def time_values(start_ms: int, names: tuple[str, ...], timezone: str) -> PartitionValues:
    """The time partitions of the window that starts at `start_ms`, in the pipeline's zone.

    Where clocks go back, the second 01:00 renders `01-fold`: two instants never share a directory.
    """
    local = datetime.fromtimestamp(start_ms / 1000, zoneinfo.ZoneInfo(timezone))
    text = {
        "date": local.strftime("%Y-%m-%d"),
        "hour": local.strftime("%H") + ("-fold" if local.fold else ""),
        "minute": local.strftime("%M"),
    }
    return tuple((name, text[name]) for name in names)


def window_start(event_ms: int, windows: Windows) -> int:
    """Start (UTC ms) of the window that holds `event_ms`.

    Windows below a day are cut in UTC from `windows.start` on, so that a change of clocks never makes two overlap;
    day windows are local days.
    """
    if windows.size_ms < DAY_MS:
        return event_ms - (event_ms - windows.start_ms) % windows.size_ms
    zone = zoneinfo.ZoneInfo(windows.timezone)
    day = datetime.fromtimestamp(event_ms / 1000, zone).date()
    start = day_start(day, zone)
    # where clocks go back over midnight, the end of the day before is read once more: it belongs to the day begun
    while (following := day_start(day + timedelta(days=1), zone)) <= event_ms:
        day, start = day + timedelta(days=1), following
    return start


def window_end(start_ms: int, windows: Windows) -> int:
    """End (exclusive, UTC ms): a local day has 23, 24 or 25 hours, and up to 48 where the calendar repeats one."""
    if windows.size_ms < DAY_MS:
        return start_ms + windows.size_ms
    zone = zoneinfo.ZoneInfo(windows.timezone)
    # the next date's beginning, not this time tomorrow: where clocks change at midnight a day may begin at 01:00
    return day_start(datetime.fromtimestamp(start_ms / 1000, zone).date() + timedelta(days=1), zone)


def window_from(start_ms: int, windows: Windows) -> WindowKey:
    """The window that begins at `start_ms`."""
    return WindowKey(start_ms, window_end(start_ms, windows))


def window_named(values: PartitionValues, windows: Windows) -> int | None:
    """The window (its start) whose time partitions are `values`, as `time_values` spells them; None if none is.

    Raises ValueError for what is no date, hour or minute.
    """
    names, text = tuple(name for name, _ in values), {name: value or "" for name, value in values}
    hour = text.get("hour", "00").removesuffix("-fold")
    # directories of years before 1000 have fewer digits
    first = datetime.fromisoformat(f"{text.get('date', '').zfill(10)}T{hour}:{text.get('minute', '00')}")
    zone = zoneinfo.ZoneInfo(windows.timezone)
    for fold in (0, 1):
        earliest = int(first.replace(tzinfo=zone, fold=fold).timestamp() * 1000)
        # a window may begin anywhere within the minute or hour that names it; one that its date names is that day
        start = window_start(earliest, windows)
        while start <= earliest + HOUR_MS:
            if time_values(start, names, windows.timezone) == values:
                return start
            start = window_end(start, windows)
    return None


def shared_directory(windows: Windows, names: tuple[str, ...]) -> tuple[int, int] | None:
    """Two windows (starts) from `windows.start` on that `names` would give one directory; None if there are none.

    It takes clocks that go back from within a named hour, by less than the size of a window.
    """
    if windows.size_ms >= DAY_MS:
        return None
    cell = MINUTE_MS if "minute" in names else HOUR_MS
    for change in times_that_go_back(windows.timezone, windows.start_ms):
        if change.local_ms % cell == 0:
            continue
        reach = change.back_ms + cell
        start = max(windows.start_ms, window_start(change.at_ms - reach, windows))
        seen: dict[PartitionValues, int] = {}
        while start <= change.at_ms + reach:
            other = seen.setdefault(time_values(start, names, windows.timezone), start)
            if other != start:
                return other, start
            start += windows.size_ms
    return None
