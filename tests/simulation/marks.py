"""A window's time, told from the documentation. Nothing of the core is imported here.

At the clock of a landed batch's plan, the *mark* of each Kafka partition is the largest plausible
event time that landed batches have read from it, or the clock at which it was last read if that is earlier, less the
delay. A partition of which that plan left nothing unread, not even behind an open transaction, may be stood in for, by
the window policy `idle`:

    wait     by nothing
    follow   by the largest mark of all partitions
    clock    by the clock of the newest landed plan that read something from another partition, less the delay; and by
             the newest landed plan's clock, less the delay, if nothing has been read anywhere for `topic_silence` and
             `on_silence` is close. By nothing while the topic lags: when something was last read, its newest event was
             older than the delay and `idle_max_lag`. By nothing, too, for a partition that was behind by more than the
             delay when an event was last read of it, until none has been for `topic_silence`. A plan's clock that is
             ahead of whoever asks stands in with no more than the asker's

A window's time has come when no partition's mark, or what stands in for it, is below the window's end. A window that
ends before `windows.start` holds nothing; its time is always.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.settings import Setting

UNREAD = "more of a partition than was read"
LAGS = "the topic lags behind the clock"
BEHIND = "a partition is behind the clock"
"""Why nothing stands in for a partition; see above."""


@dataclass(frozen=True)
class Mark:
    """`stands_in`: it is not the partition's own; `why` nothing does."""

    at: int | None
    stands_in: bool
    why: str = ""


Marks = dict[int, Mark]
"""By Kafka partition."""


@dataclass
class Known:
    """What landed batches have shown, by Kafka partition; `unread` as of the newest one's plan. Times are UTC ms."""

    clock: int | None = None
    newest: dict[int, int | None] = field(default_factory=dict)  # largest plausible event
    advanced: dict[int, int | None] = field(default_factory=dict)
    timed: dict[int, int | None] = field(default_factory=dict)  # when a plausible event was read last
    unread: dict[int, bool] = field(default_factory=dict)


class Times:
    """When windows have their time, by a life's setting."""

    def __init__(self, setting: Setting) -> None:
        self._s = setting

    def marks(self, known: Known, asked: int = 2**62) -> Marks:
        """`asked`: the clock of whoever asks."""
        own = {p: self.own(p, known) for p in known.newest}
        result: Marks = {}
        for p, mark in own.items():
            instead, why = (None, UNREAD) if known.unread[p] else self._instead(p, known, own, asked)
            stands_in = instead is not None and (mark is None or instead > mark)
            result[p] = Mark(instead, True) if stands_in else Mark(mark, False, why)
        return result

    def own(self, partition: int, known: Known) -> int | None:
        newest, advanced = known.newest[partition], known.advanced[partition]
        if newest is None or advanced is None:
            return None
        return min(newest, advanced) - self._s.delay

    def _instead(self, partition: int, known: Known, own: dict[int, int | None], asked: int) -> tuple[int | None, str]:
        """What stands in for a partition that has nothing unread; else why nothing does."""
        s = self._s
        if s.idle == "follow":
            return max((m for m in own.values() if m is not None), default=None), ""
        if s.idle == "wait":
            return None, ""
        if self.lags(known):
            return None, LAGS
        if self._is_behind(partition, known):
            return None, BEHIND
        if self.is_silent(known):
            return min(known.clock or 0, asked) - s.delay, ""
        others = [at for p, at in known.advanced.items() if p != partition and at is not None]
        return min(max(others), asked) - s.delay if others else None, ""

    def lags(self, known: Known) -> bool:
        if self._s.max_lag is None:
            return False
        events = [e for e in known.newest.values() if e is not None]
        moved = [at for at in known.advanced.values() if at is not None]
        return not events or not moved or max(moved) - max(events) > self._s.delay + self._s.max_lag

    def _is_behind(self, partition: int, known: Known) -> bool:
        newest, timed = known.newest[partition], known.timed.get(partition)
        if newest is None or timed is None or known.clock is None:
            return False
        return timed - newest > self._s.delay and known.clock - timed < self._s.silence

    def is_silent(self, known: Known) -> bool:
        moved = [at for at in known.advanced.values() if at is not None]
        if not moved or known.clock is None or self._s.on_silence != "close":
            return False
        return known.clock - max(moved) >= self._s.silence

    @staticmethod
    def lowest(marks: Marks) -> int | None:
        """Windows that end up to here have their time."""
        values = [m.at for m in marks.values()]
        return None if not values or None in values else min(v for v in values if v is not None)
