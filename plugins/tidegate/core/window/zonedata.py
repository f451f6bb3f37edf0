"""What a host's zone data say of a zone: pinned by each plan, and compared by what decides about windows later (R1).

Zone data change with every release of tzdata, and hosts take them from the system or from a Python package. Two hosts
that disagree cut local days differently and spell directories differently.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from tidegate.core.base.instants import DAY_MS, iso
from tidegate.core.base.offsets import Interval
from tidegate.core.base.zones import changes, offset_at
from tidegate.core.spec.pipeline import Windows

_YEAR_MS = 366 * DAY_MS
SAME_TZDATA = (
    "install the same tzdata (the Python package `tzdata`, or the system's; PYTHONTZPATH says which) on the executors, "
    "on the driver's host and on the hosts of Airflow"
)


@dataclass(frozen=True)
class ZoneData:
    """The offsets of a zone in `[first_ms, last_ms]`: `offset_ms` at first, then `changes` of (instant, offset).

    `version` says for people where they come from: two versions that name the same offsets are equal."""

    timezone: str
    first_ms: int
    last_ms: int
    offset_ms: int
    changes: tuple[tuple[int, int], ...] = ()
    version: str = field(default="", compare=False)

    def offset(self, at_ms: int) -> int:
        found = self.offset_ms
        for since_ms, offset_ms in self.changes:
            if since_ms > at_ms:
                break
            found = offset_ms
        return found


def pinned(windows: Windows, horizon_ms: int) -> ZoneData | None:
    """What a plan pins: from before the first window up to `horizon_ms`, beyond which no event time moves a watermark.

    What comes later is left out: a new release of tzdata that changes a rule of next year changes no window yet. None
    for a zone without any changes of clocks, which every host knows alike."""
    if zoneinfo.ZoneInfo(windows.timezone).utcoffset(None) is not None:
        return None
    first_ms = (windows.start_ms // DAY_MS - 2) * DAY_MS
    return known_here(windows.timezone, first_ms, max(first_ms, horizon_ms))


def known_here(timezone: str, first_ms: int, last_ms: int) -> ZoneData:
    """What this host's zone data say."""
    until_ms = (last_ms // _YEAR_MS + 1) * _YEAR_MS  # the same for many plans: they share one look
    found = tuple((at, offset) for at, offset in _changes(timezone, first_ms, until_ms) if at <= last_ms)
    return ZoneData(timezone, first_ms, last_ms, offset_at(timezone, first_ms), found, version_of(timezone))


@lru_cache(maxsize=64)
def _changes(timezone: str, first_ms: int, last_ms: int) -> tuple[tuple[int, int], ...]:
    return tuple((c.at_ms, c.after_ms) for c in changes(timezone, first_ms, last_ms))


@dataclass(frozen=True)
class Disagreement:
    """At `at_ms` the zone data `there` name another offset than those `here`."""

    at_ms: int
    there: ZoneData
    here: ZoneData

    def text(self, whose: str, mine: str) -> str:
        there, here = self.there, self.here
        theirs, ours = (_clock(data.offset(self.at_ms)) for data in (there, here))
        return (
            f"zone data of {there.timezone} disagree from {iso(self.at_ms)} on: UTC{theirs} by {whose} "
            f"({there.version or 'unknown tzdata'}), UTC{ours} by {mine} ({here.version})"
        )


def disagreement(there: ZoneData | None, parts: Iterable[Interval] | None = None) -> Disagreement | None:
    """The place where this host's zone data first differ from `there`: in `parts` of time, None: in all that it covers.

    None: they agree, or nothing was pinned."""
    if there is None:
        return None
    here = known_here(there.timezone, there.first_ms, there.last_ms)
    whole = Interval(there.first_ms, there.last_ms + 1)
    for part in [whole] if parts is None else sorted(parts):
        low, high = max(part.start, whole.start), min(part.end, whole.end)
        moments = {low, *(at for data in (there, here) for at, _ in data.changes if low <= at < high)}
        for at_ms in sorted(moments) if low < high else ():
            if there.offset(at_ms) != here.offset(at_ms):
                return Disagreement(at_ms, there, here)
    return None


def around(start_ms: int, end_ms: int) -> Interval:
    """The part of time whose offsets decide where a window begins and ends."""
    return Interval(start_ms - DAY_MS, end_ms + DAY_MS)


@lru_cache(maxsize=64)
def version_of(timezone: str) -> str:
    """Origin of this host's zone data: `tzdata 2026.6 (Python package)`, `tzdata 2025b (/usr/share/zoneinfo)`."""
    for folder in map(Path, zoneinfo.TZPATH):
        if (folder / timezone).is_file():
            return f"tzdata {_system_version(folder)} ({folder})"
    try:
        return f"tzdata {metadata.version('tzdata')} (Python package)"
    except metadata.PackageNotFoundError:
        return "tzdata of unknown version"


def _system_version(folder: Path) -> str:
    """Debian and others install `tzdata.zi`, whose first line is `# version 2025b`; BSD's have `+VERSION`."""
    for name in ("tzdata.zi", "+VERSION"):
        try:
            with (folder / name).open() as file:
                return file.readline().removeprefix("# version").strip() or "of unknown version"
        except OSError:
            continue
    return "of unknown version"


def _clock(offset_ms: int) -> str:
    minutes, seconds = divmod(abs(offset_ms) // 1000, 60)
    sign = "-" if offset_ms < 0 else "+"
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}" + (f":{seconds:02d}" if seconds else "")
