"""Local days and changes of clocks, as the zone database has them. Instants are UTC ms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import lru_cache
from zoneinfo import ZoneInfo

_DAY_S = 86_400
EXPLICIT_UNTIL_MS = 2_208_988_800_000
"""2040-01-01: the zone database lists changes one by one up to 2037, from then on each year is like the last."""


@dataclass(frozen=True)
class Change:
    """From `at_ms` on a zone is `after_ms` ahead of UTC, up to then it was `before_ms` ahead."""

    at_ms: int
    before_ms: int
    after_ms: int

    @property
    def back_ms(self) -> int:
        """The time by which clocks go back; negative where they go forward."""
        return self.before_ms - self.after_ms

    @property
    def local_ms(self) -> int:
        """What clocks read when they are changed, as ms since 1970-01-01T00:00 of local time."""
        return self.at_ms + self.before_ms


def day_start(day: date, zone: ZoneInfo) -> int:
    """The first instant at which the local date is `day` or a later one.

    Midnight, the first of two; where clocks go forward over midnight, or over the whole day, the change itself.
    """
    midnight = datetime.combine(day, time.min, zone)
    start = int(midnight.timestamp())
    if datetime.fromtimestamp(start, zone).replace(tzinfo=None) == midnight.replace(tzinfo=None):
        return start * 1000
    # no clock reads this midnight: by the offset before the change it comes after it, by the one behind before it
    return _first_after(int(midnight.replace(fold=1).timestamp()), start, zone) * 1000


def offset_at(timezone: str, at_ms: int) -> int:
    """The zone's offset from UTC at `at_ms`, in ms."""
    return _offset(at_ms // 1000, ZoneInfo(timezone))


def changes(timezone: str, first_ms: int, last_ms: int) -> Iterator[Change]:
    """Changes of the zone's offset in `(first_ms, last_ms]`, in order; of several within a day the sum."""
    zone = ZoneInfo(timezone)
    at, last = first_ms // 1000, last_ms // 1000
    offset = _offset(at, zone)
    while at < last:
        following = min(at + _DAY_S, last)
        then = _offset(following, zone)
        if then != offset:
            found = _first_after(at, following, zone)
            yield Change(found * 1000, offset, then)
            offset = then
        at = following


@lru_cache(maxsize=256)
def times_that_go_back(timezone: str, first_ms: int) -> tuple[Change, ...]:
    """Changes after `first_ms` by which local times come twice, up to EXPLICIT_UNTIL_MS or three years."""
    last_ms = max(EXPLICIT_UNTIL_MS, first_ms + 3 * 366 * _DAY_S * 1000)
    return tuple(c for c in changes(timezone, first_ms, last_ms) if c.back_ms > 0)


def _first_after(low: int, high: int, zone: ZoneInfo) -> int:
    """The first second in `(low, high]` whose offset is not that of `low`."""
    before = _offset(low, zone)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset(middle, zone) == before else (low, middle)
    return high


def _offset(instant: int, zone: ZoneInfo) -> int:
    """Local time minus UTC in ms at `instant` (UTC seconds)."""
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return round(offset.total_seconds() * 1000)
