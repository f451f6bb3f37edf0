"""The forecast against what happens: a broker with segments and retention, and a pipeline that reads from it.

A loss comes no sooner than 93 % of the forecast and two batches' intervals before it. It comes no later than 105 % of
the forecast and, divided by what the pace lacks to 1, a segment's span, a check's interval and two batches' intervals,
by bytes also a fifth of what the log holds. None comes within three retentions where the forecast is `never`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest

from tidegate.core.source.loss_forecast import AHEAD, NEVER, PASSING, LossForecast, forecast
from tidegate.core.source.port import Lane, LogState
from tidegate.core.source.progress import BatchLook, Look, Progress

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
STEP = 10 * SECOND
OVERHEAD, SIZE = 20, 300
"""Bytes on the broker's disk that a record takes beside its `SIZE`."""


@dataclass
class Segment:
    base: int
    bytes: int = 0
    first_ms: int = 0
    max_ms: int = 0


@dataclass
class Broker:
    """One partition. Whole segments go, at checks, and only while the log stays as large as it has to be."""

    retention_ms: int | None
    retention_bytes: int | None
    segment_bytes: int
    segment_ms: int
    check_ms: int
    start: int = 0
    end: int = 0
    segments: deque[Segment] = field(default_factory=deque)
    stamps: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def append(self, count: int, at_ms: int) -> None:
        last = self.segments[-1] if self.segments else None
        if last is None or last.bytes >= self.segment_bytes or at_ms - last.first_ms >= self.segment_ms:
            last = Segment(self.end, first_ms=at_ms)
            self.segments.append(last)
        last.bytes += count * (SIZE + OVERHEAD)
        last.max_ms = at_ms
        self.end += count
        self.stamps.append(at_ms)
        self.ends.append(self.end)

    def check(self, now_ms: int) -> None:
        size = sum(s.bytes for s in self.segments)
        while self.segments:
            oldest = self.segments[0]
            expired = self.retention_ms is not None and oldest.max_ms < now_ms - self.retention_ms
            too_much = self.retention_bytes is not None and size - oldest.bytes >= self.retention_bytes
            if not (expired or too_much):
                break
            size -= oldest.bytes
            self.segments.popleft()
            self.start = self.segments[0].base if self.segments else self.end

    def stamp_of(self, offset: int) -> int:
        return self.stamps[bisect_right(self.ends, offset)]

    def state(self) -> LogState:
        partitions = {0: Lane(self.start, self.end, self.end)}
        return LogState(
            topic="t",
            topic_id="id",
            partitions=partitions,
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
            segment_bytes=self.segment_bytes,
        )


@dataclass
class Reader:
    """A batch each `every_ms`, of at most `most` records; it lands `takes_ms` after it was planned."""

    every_ms: int
    most: int
    takes_ms: int
    at: int = 0
    planned: list[BatchLook] = field(default_factory=list)

    def plan(self, broker: Broker, now_ms: int) -> None:
        end = min(broker.end, self.at + self.most)
        if end == self.at:
            return
        newest = broker.stamp_of(end - 1)
        look = Look(
            start=self.at,
            end=end,
            log_start=broker.start,
            high_watermark=broker.end,
            read=end - self.at,
            bytes=(end - self.at) * SIZE,
            max_kafka_ms=newest,
        )
        batch = BatchLook(len(self.planned) + 1, True, now_ms, now_ms + self.takes_ms, {0: look})
        self.planned.append(batch)
        self.at = end

    def next_offset(self, now_ms: int) -> int:
        done = [b for b in self.planned[-3:] if (b.landed_ms or 0) <= now_ms]
        return done[-1].partitions[0].end if done else 0

    def progress(self, now_ms: int) -> Progress:
        """As `ledger` finds it."""
        landed = [b for b in self.planned if (b.landed_ms or 0) <= now_ms]
        newest = self.planned[-1]
        if newest is not landed[-1]:
            newest = BatchLook(newest.batch_id, False, newest.clock_ms, None, newest.partitions)
        before = landed[:-1]
        old = bisect_left([b.landed_ms or 0 for b in before], now_ms - HOUR + 1)
        return Progress("id", newest, landed[-1], before[max(0, old - 1)] if before else None)


@dataclass
class Life:
    """Records come at a rate with a little noise; the reader gets a share of it, or stops after the forecast."""

    broker: Broker
    reader: Reader
    rate: float
    noise: float
    rng: Random
    now_ms: int = 0

    def step(self, reading: bool = True) -> None:
        self.now_ms += STEP
        self.broker.append(round(self.rate * self.rng.uniform(1 - self.noise, 1 + self.noise)), self.now_ms)
        if reading and self.now_ms % self.reader.every_ms == 0:
            self.reader.plan(self.broker, self.now_ms)
        if self.now_ms % self.broker.check_ms == 0:
            self.broker.check(self.now_ms)

    @property
    def lost(self) -> bool:
        return self.broker.start > self.reader.next_offset(self.now_ms)

    def lost_after(self, limit_ms: int, reading: bool = True) -> int | None:
        """Goes on until a record is lost unread; None if that does not happen."""
        began = self.now_ms
        while not self.lost:
            if self.now_ms - began > limit_ms:
                return None
            self.step(reading)
        return self.now_ms - began


def life(rng: Random, share: float, *, by: str) -> Life:
    retention = rng.choice([4, 6, 12]) * HOUR
    rate = rng.randrange(200, 2_000)  # records a step
    kept = int(rate * retention / STEP * (SIZE + OVERHEAD))
    segment = int(kept / rng.randrange(15, 40))
    every = rng.choice([1, 5, 10]) * MINUTE
    broker = Broker(
        retention_ms=retention if by == "time" else None,
        retention_bytes=kept if by == "bytes" else None,
        segment_bytes=segment,
        segment_ms=retention // 10,
        check_ms=5 * MINUTE,
    )
    reader = Reader(every, max(1, int(rate * every / STEP * share)), every // 2)
    # what the pace lacks to 1 divides the noise of the rate: near to it, less makes as much
    return Life(broker, reader, rate, 0.1 if share == 0.8 else 0.2, rng)


def run_until(made: Life, hours: float) -> LossForecast | None:
    """The forecast then; None if records had been lost before."""
    while made.now_ms < hours * HOUR:
        made.step()
        if made.lost:
            return None
    (found,) = forecast(made.broker.state(), made.reader.progress(made.now_ms), made.now_ms)
    return found


def span_of(made: Life) -> int:
    """Of the records that retention keeps."""
    b = made.broker
    return b.retention_ms or int((b.retention_bytes or 0) / (SIZE + OVERHEAD) / made.rate * STEP)


def late_by(made: Life, share: float = 0) -> int:
    """How much later than 105 % of the forecast a loss may come: the pace is `share`."""
    b = made.broker
    segment = min(b.segment_ms, int(b.segment_bytes / (SIZE + OVERHEAD) / made.rate * STEP))
    doubt = span_of(made) / 5 if b.retention_bytes else 0
    return int((segment + b.check_ms + 2 * made.reader.every_ms + doubt) / (1 - share))


@pytest.mark.parametrize("by", ["time", "bytes"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.8])
def test_a_reader_that_is_too_slow(by: str, share: float, rng: Random) -> None:
    """`share` 0: it keeps up, and stops at the forecast."""
    made = life(rng, share or 1.5, by=by)
    found = run_until(made, rng.uniform(1.5, 3.5))
    assert found is not None
    expected = found.stopped_ms if share == 0 else found.at_pace_ms
    assert expected is not None
    assert found.state == (AHEAD if share else NEVER)
    happened = made.lost_after(20 * span_of(made), reading=share > 0)
    assert happened is not None
    early, late = 2 * made.reader.every_ms, late_by(made, share)
    assert 0.93 * expected - early <= happened <= 1.05 * expected + late, (found, happened)


@pytest.mark.parametrize("by", ["time", "bytes"])
def test_a_reader_that_keeps_up_loses_nothing(by: str, rng: Random) -> None:
    made = life(rng, 1.5, by=by)
    found = run_until(made, rng.uniform(1.5, 3.5))
    assert found is not None
    assert (found.state, found.at_pace_ms) == (NEVER, None)
    assert made.lost_after(3 * span_of(made)) is None


@pytest.mark.parametrize("by", ["time", "bytes"])
def test_a_backlog_that_is_worked_off_is_not_lost(by: str, rng: Random) -> None:
    made = life(rng, 2.0, by=by)
    retention = span_of(made)
    while made.now_ms < 0.6 * retention:
        made.step(reading=False)
    made.step()
    began = made.now_ms / HOUR
    found = run_until(made, began + 0.15 * retention / HOUR)
    assert found is not None
    assert found.unread > 0
    assert found.state == NEVER
    assert found.stopped_ms is not None
    assert made.lost_after(3 * retention) is None


def test_records_that_are_past_retention_are_lost_at_the_next_check_of_their_segment(rng: Random) -> None:
    made = life(rng, 1.5, by="time")
    found = run_until(made, 2)
    assert found is not None
    while not made.lost:
        made.step(reading=False)
        (found,) = forecast(made.broker.state(), made.reader.progress(made.now_ms), made.now_ms)
        if found.state == PASSING:
            break
    assert found.state == PASSING
    happened = made.lost_after(span_of(made), reading=False)
    assert happened is not None
    assert happened <= late_by(made)
