"""When a window that is blocked will be ready: from two looks at the topic, by a stated formula, or `unknown`.

`now` is what the newest landed batch left behind, `before` what one did about an hour earlier. With `C` and `C0` the
clocks of their plans, a partition's **pace** is how far its watermark came from `C0` to `C`, per clock time. A blocker
whose watermark is `M` is expected to reach the window's end `W` at

    C + (W - M) * (C - C0) / (M - M0)        by its pace

and none before the clock itself has reached `W + watermark_delay`, because no watermark is ahead of the clock. For a
drained partition, what `windows.idle` lets stand in for it comes first if it is earlier: with `follow` the pace of the
partition that is furthest ahead, with `clock` the clock, while another partition advances, or once the topic has been
silent for `topic_silence` (`on_silence: close`). The window is expected when its last blocker is. It is unknown where
one of them is: an open transaction, a single batch, a pace of nothing or backwards, more than a year ahead, or an
expected time that has gone by without a new batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.core.base.instants import iso, span
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.watermark import Held, PartitionWatermark, TopicFacts, watermarks

SPAN_MS = 3_600_000
"""How far back a pace is measured, if there are batches."""
BATCHES = 12
"""And how many batches at most."""
LIMIT_MS = 366 * 86_400_000
"""A forecast names no instant that is further away."""


@dataclass(frozen=True)
class Forecast:
    """`at_ms` (UTC) is None for unknown; `basis` says what it goes by, or why it is unknown; `partition` decides."""

    at_ms: int | None
    basis: str
    partition: int | None = None

    def text(self) -> str:
        """Words for people, behind what blocks."""
        if self.at_ms is None:
            return f"expected readiness unknown: {self.basis}"
        return f"expected ready {iso(self.at_ms // 1000 * 1000)} ({self.basis})"


def earlier(batches: Sequence[tuple[int, int]]) -> int | None:
    """Which of the landed batches (id, clock of its plan), newest first, a pace is measured from: the newest that is
    `SPAN_MS` older than the first of them, else the oldest of the `BATCHES` before it; None if there is none."""
    if len(batches) < 2:
        return None
    newest = batches[0][1]
    candidates = batches[1 : BATCHES + 1]
    return next((b for b, clock in candidates if newest - clock >= SPAN_MS), candidates[-1][0])


def forecast(
    windows: Windows, now: TopicFacts, before: TopicFacts, certificate: Certificate, now_ms: int
) -> Forecast | None:
    """The forecast for a window that `certificate` says is blocked, made of the facts `now`; None where no partition
    blocks it."""
    if certificate.ready or not certificate.blockers or now.clock_ms is None:
        return None
    view = _View(windows, now, now.clock_ms, before, certificate.window.end_ms)
    blocking = set(certificate.blockers)
    found = [view.expect(m) for m in certificate.partitions if m.partition in blocking]
    unknown = [f for f in found if f.at_ms is None]
    latest = unknown[0] if unknown else max(found, key=lambda f: f.at_ms or 0)
    return _still_to_come(latest, now.clock_ms, view.span_ms, now_ms)


def _still_to_come(expected: Forecast, clock_ms: int, span_ms: int, now_ms: int) -> Forecast:
    if expected.at_ms is None:
        return expected
    if expected.at_ms - now_ms > LIMIT_MS:
        return Forecast(None, f"more than a year from now, {expected.basis}", expected.partition)
    if expected.at_ms > now_ms:
        return expected
    if now_ms - clock_ms > max(span_ms, SPAN_MS):
        return Forecast(
            None,
            f"{iso(expected.at_ms // 1000 * 1000)} has gone by, {expected.basis}, and no batch has been planned for "
            f"{span(now_ms - clock_ms)}",
            expected.partition,
        )
    return Forecast(now_ms, f"with the next batch, {expected.basis}", expected.partition)


class _View:
    """The two looks, side by side. `clock` is that of the newest plan."""

    def __init__(self, windows: Windows, now: TopicFacts, clock_ms: int, before: TopicFacts, end_ms: int) -> None:
        self.windows, self.now, self.end_ms = windows, now, end_ms
        self.clock = clock_ms
        self.span_ms = self.clock - before.clock_ms if before.clock_ms is not None else 0
        alone = replace(windows, idle="wait")  # no other time stands in: what each partition says itself
        self.own = {m.partition: m.watermark_ms for m in watermarks(alone, now)}
        self.earlier = {m.partition: m.watermark_ms for m in watermarks(alone, before)}

    def expect(self, mark: PartitionWatermark) -> Forecast:
        if mark.open_transaction_since_ms is not None:
            words = f"the open transaction of partition {mark.partition} may end at any time, or never"
            return Forecast(None, words, mark.partition)
        found = [self._by_pace(mark)]
        if mark.drained and self.windows.idle == "follow":
            found.append(self._by_the_furthest(mark))
        elif mark.drained and self.windows.idle == "clock":
            found.append(self._by_the_clock(mark))
        known = [f for f in found if f.at_ms is not None]
        return min(known, key=lambda f: f.at_ms or 0) if known else found[-1]

    def _floor(self, at_ms: int) -> int:
        """No watermark is ahead of the clock."""
        return max(at_ms, self.end_ms + self.windows.watermark_delay_ms)

    def _when(self, own_ms: int | None, earlier_ms: int | None) -> int | None:
        """When a watermark that came from `earlier_ms` to `own_ms` reaches the window's end, rounded up."""
        if own_ms is None or earlier_ms is None or self.span_ms <= 0 or own_ms <= earlier_ms:
            return None
        missing, gained = (self.end_ms - own_ms) * self.span_ms, own_ms - earlier_ms
        return self._floor(self.clock + -(-missing // gained))

    def _by_pace(self, mark: PartitionWatermark) -> Forecast:
        p = mark.partition
        at = self._when(self.own[p], self.earlier.get(p))
        if at is not None:
            return Forecast(at, f"by the pace of partition {p} in {self._span()}", p)
        if self.span_ms <= 0:
            return Forecast(None, "there are no two batches to measure a pace by", p)
        if mark.max_event_ms is None:
            return Forecast(None, f"partition {p} never had a record with an event time", p)
        if self.earlier.get(p) is None:
            return Forecast(None, f"partition {p} had no record with an event time before {self._span()}", p)
        return Forecast(None, f"the watermark of partition {p} has not moved in {self._span()}", p)

    def _by_the_furthest(self, mark: PartitionWatermark) -> Forecast:
        own = max((m for m in self.own.values() if m is not None), default=None)
        earlier_ms = max((m for m in self.earlier.values() if m is not None), default=None)
        at = self._when(own, earlier_ms)
        if at is not None:
            words = f"by the pace of the partition that is furthest ahead in {self._span()}"
            return Forecast(at, words, mark.partition)
        if self.span_ms <= 0:
            return Forecast(None, "there are no two batches to measure a pace by", mark.partition)
        return Forecast(None, f"no partition has come further in {self._span()}", mark.partition)

    def _by_the_clock(self, mark: PartitionWatermark) -> Forecast:
        p, silence = mark.partition, self.windows.topic_silence_ms
        if mark.held == Held.LAG:
            return Forecast(None, "the clock does not stand in for what is so old (windows.idle_max_lag)", p)
        quiet = self.clock
        read_ms = next((q.event_read_ms for q in self.now.partitions if q.partition == p), None)
        if mark.held == Held.BEHIND and read_ms is not None:
            quiet = read_ms + silence
        others = [q.advanced_ms for q in self.now.partitions if q.partition != p and q.advanced_ms is not None]
        if others and self.clock - max(others) < silence:
            return Forecast(self._floor(quiet), f"by the clock, while partition {p} is idle and others are not", p)
        if self.windows.on_silence == "close":
            newest = max((*others, mark.advanced_ms or self.clock))
            return Forecast(self._floor(max(quiet, newest + silence)), "by the clock, if the topic stays silent", p)
        return Forecast(None, f"partition {p} is idle and no other partition has records (on_silence: hold)", p)

    def _span(self) -> str:
        return f"the last {span(self.span_ms)}"
