"""Where windows begin and end, told without the core: by asking a zone for its local dates, instant by instant."""

from __future__ import annotations

import zoneinfo
from bisect import bisect_right
from datetime import date, datetime

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


class Calendar:
    """The windows of `size` ms from `start` on (UTC ms). Below a day they are cut in UTC; days are local days, each of
    which begins at the first instant that has its date. Dates are looked up between `first` and `last` (UTC ms)."""

    def __init__(self, size: int, zone: str, start: int, first: int, last: int) -> None:
        self.size, self.start = size, start
        self._midnights = _midnights(zone, first, last) if size == DAY else []

    def window(self, event: int) -> tuple[int, int]:
        """`[start, end)` of the window that holds `event`."""
        if self.size < DAY:
            number = (event - self.start) // self.size
            return self.start + number * self.size, self.start + (number + 1) * self.size
        i = bisect_right(self._midnights, event)
        return self._midnights[i - 1], self._midnights[i]

    def ends(self, after: int, up_to: int) -> list[int]:
        """Ends of windows in `(after, up_to]`."""
        found: list[int] = []
        end = self.window(after)[1]
        while end <= up_to:
            found.append(end)
            end = self.window(end)[1]
        return found


def _midnights(zone: str, first: int, last: int) -> list[int]:
    """The first instant of each local date; clocks that go back over midnight begin no date a second time."""
    local = zoneinfo.ZoneInfo(zone)

    def day(at: int) -> date:
        return datetime.fromtimestamp(at / 1000, local).date()

    found: list[int] = []
    at = first - first % HOUR
    newest = day(at)
    while at < last:
        at += HOUR
        if day(at) > newest:
            begins = next(m for m in range(at - 3 * HOUR, at + MINUTE, MINUTE) if day(m) > newest)
            newest = day(begins)
            found.append(begins)
            at = begins - begins % HOUR + 20 * HOUR
    return found
