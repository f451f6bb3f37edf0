"""When many windows are ready and none of them has a run, one process publishes them one after the other.

Which ones, in what order, when it ends, and what it says meanwhile. Times are UTC ms, durations seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.base.errors import AskedWrong
from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import Interval
from tidegate.core.base.wording import many
from tidegate.core.replay.request import instant
from tidegate.core.window.states import WindowKey

FEWEST = 20
"""Fewer windows get runs of their own at once."""
MOST, LONGEST_S = 200, 300.0
"""Windows, and seconds, of one run: then other pipelines have their turn."""
FAILURES_IN_A_ROW = 3
"""So many are no fault of single windows."""
SAY_EVERY = 25
"""Windows between two lines of `tidegate backfill`, which says what each of them does."""
SAY_S, PACE_S = 15.0, 120.0
"""Between two lines; the pace is that of so long before."""
_GOES_ON = "catch_up_from_"


def asked_part(conf: Any) -> Interval | None:
    """The part of time that the run's conf wants first, by `from` (inclusive) and `until` (exclusive); None where the
    conf names none. Raises AskedWrong."""
    if not isinstance(conf, Mapping) or not {"from", "until"} & conf.keys():
        return None
    begin, end = instant(conf.get("from"), "from"), instant(conf.get("until"), "until")
    if begin >= end:
        raise AskedWrong("`from` is not before `until`", advice="trigger it with the first one first")
    return Interval(begin, end)


def conf_of(part: Interval | None) -> dict[str, str]:
    """Inverse of `asked_part`."""
    return {} if part is None else {"from": iso(part.start), "until": iso(part.end)}


def next_run(left: WindowKey) -> str:
    """The id of the run that goes on where `left` is the first window."""
    return f"{_GOES_ON}{iso(left.start_ms)}"


def goes_on(run_id: str) -> bool:
    """Whether the run was triggered to go on after another one."""
    return run_id.startswith(_GOES_ON)


def worth_it(without_run: Iterable[WindowKey], part: Interval | None = None, run_id: str = "") -> bool:
    """Whether windows that are ready and have no run are published by one process. A range that somebody has asked for
    is, however few of its windows are left; a run that goes on ends what was begun."""
    found = list(without_run)
    return len(found) >= (1 if goes_on(run_id) else FEWEST) or any(_within(key, part) for key in found)


def in_turn(without_run: Iterable[WindowKey], part: Interval | None = None, most: int = MOST) -> list[WindowKey]:
    """The windows of one run: those that were asked for, then the others, each oldest first."""
    return sorted(without_run, key=lambda key: (not _within(key, part), key.start_ms))[:most]


def _within(key: WindowKey, part: Interval | None) -> bool:
    return part is not None and part.start <= key.start_ms < part.end


@dataclass
class Tally:
    """What one run has come to. `ready`: windows without a run as it began; `closing` wait for a batch to land;
    `left` were given an ordinary run, or to somebody else who works on them."""

    ready: int
    published: int = 0
    closing: int = 0
    left: int = 0

    @property
    def seen(self) -> int:
        return self.published + self.closing + self.left

    @property
    def remain(self) -> int:
        """How many a next run would find."""
        return self.ready - self.published - self.left

    def words(self) -> str:
        """`1,450 windows: 640 published`."""
        found = f"{many(self.ready, 'window')}: {self.published:,} published"
        if self.closing:
            found += f", {self.closing:,} wait for a batch to land"
        if self.left:
            found += f", {self.left:,} left to runs of their own"
        return found


@dataclass
class Progress:
    """When one run says how far it is, and what. `began` and all instants are seconds of one clock; `mine`: how many
    of the windows it looks at."""

    tally: Tally
    began: float
    mine: int
    _said: float | None = None
    _done: deque[tuple[float, int]] = field(default_factory=deque)

    def line(self, now: float) -> str:
        """What to say after a window, or "". The first window has a line."""
        self._note(now)
        if not self.tally.seen or (self._said is not None and now - self._said < SAY_S):
            return ""
        self._said = now
        return self._words(now, LONGEST_S - (now - self.began))

    def last(self, now: float) -> str:
        """What to say at the end."""
        self._note(now)
        return self._words(now, 0.0)

    def _note(self, now: float) -> None:
        if not self._done:
            self._done.append((self.began, 0))
        self._done.append((now, self.tally.published))
        while self._done[1][0] <= now - PACE_S:
            self._done.popleft()

    def _words(self, now: float, time_left: float) -> str:
        """A part that this run has no time for, or no turn, is said to be the next one's."""
        tally, (since, before) = self.tally, self._done[0]
        lately, seconds = tally.published - before, now - since
        found = tally.words() + pace(lately, tally.remain, seconds)
        if not tally.published or not tally.remain:
            return found
        too_slow = not lately or tally.remain / lately * seconds > time_left
        return f"{found}; goes on in the next run" if too_slow or tally.ready > self.mine else found


def pace(published: int, remain: int, seconds: float) -> str:
    """`, 130 a minute, about 6 minutes left`; nothing where it cannot be told."""
    if not published or seconds <= 0:
        return ""
    a_minute = published / seconds * 60
    speed = f", {a_minute / 60:,.0f} a second" if a_minute >= 600 else f", {a_minute:,.0f} a minute"
    if a_minute < 1:
        speed = f", {a_minute * 60:,.0f} an hour"
    return speed if not remain else f"{speed}, about {_span(remain / a_minute)} left"


def _span(minutes: float) -> str:
    if minutes < 1:
        return "a minute"
    return many(round(minutes), "minute") if minutes < 120 else many(round(minutes / 60), "hour")
