"""Watermarks per Kafka partition, and the global one; `core.window.readiness` goes by them.

A partition's own watermark is the largest plausible event time seen, but never a later time than the clock of the plan
that last read there, minus `watermark_delay`. A drained partition has nothing to say about the future; `windows.idle`
decides what stands in for it:

    wait     its own watermark: an idle partition holds every window
    follow   the largest own watermark of all partitions (loads of old data, where the wall clock means nothing)
    clock    the clock of the newest plan in which another partition advanced, minus the delay; once the whole topic
             has been silent for `topic_silence`, `on_silence: close` lets the newest plan's clock stand in for all

The clock is a guess about records that are still to come, so it stands in only where what was read bears it out
(`Held` says why it does not): not while the newest event of the topic lies further behind than `idle_max_lag`, and not
for a partition that was behind when it was last read, until that has been quiet for `topic_silence`.

The idea of per-source watermarks whose minimum counts is Flink's; a drained partition is exact here because a plan's
clock is read before the broker is asked, and the broker's ends are those that the plan records.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.fields import read_as
from tidegate.core.spec.pipeline import Windows


@dataclass(frozen=True, kw_only=True)
class PartitionFacts:
    """What the ledger knows of one Kafka partition after its newest LANDED batch. All times UTC ms.

    `max_event_ms` is over all landed batches; `advanced_ms` is the clock of the newest plan that read anything here,
    `timed_ms` of the newest one that read a plausible event time (None too where it was not kept yet);
    `open_transaction_since_ms` is the clock of the first plan that met the open transaction which begins at
    `last_stable_offset`; None if no transaction was open.
    """

    partition: int
    max_event_ms: int | None
    drained: bool
    advanced_ms: int | None
    open_transaction_since_ms: int | None = None
    last_stable_offset: int | None = None
    timed_ms: int | None = None

    @property
    def event_read_ms(self) -> int | None:
        """When an event was read last, as far as that is known."""
        return self.advanced_ms if self.timed_ms is None else self.timed_ms


@dataclass(frozen=True)
class TopicFacts:
    """`batch_id` and `clock_ms` are of the newest LANDED batch; None: nothing has landed yet. `copied`: a copy of the
    whole source table has been read; only waits are told."""

    batch_id: int | None
    clock_ms: int | None
    partitions: tuple[PartitionFacts, ...]
    copied: bool = False


class Held:
    """Why the clock does not stand in for a drained partition (`PartitionWatermark.held`)."""

    LAG = "lag"  # the newest event of the whole topic was too old when it was read
    BEHIND = "behind"  # this partition's producer was behind when it was last read, not long ago
    ALONE = "alone"  # no other partition has ever had a record


@dataclass(frozen=True, kw_only=True)
class PartitionWatermark:
    """`basis`: own | follow | clock | none (never had a record and nothing stands in); `held`: see `Held`, or ''."""

    partition: int
    watermark_ms: int | None
    basis: str
    max_event_ms: int | None
    drained: bool
    advanced_ms: int | None
    open_transaction_since_ms: int | None
    last_stable_offset: int | None = None
    held: str = ""


def own_watermark(windows: Windows, p: PartitionFacts) -> int | None:
    """The watermark of what was read from this partition alone. An event that is ahead of the clock says no more than
    the clock: else one producer whose clock is fast would close windows before their time."""
    if p.max_event_ms is None:
        return None
    at = p.max_event_ms if p.advanced_ms is None else min(p.max_event_ms, p.advanced_ms)
    return at - windows.watermark_delay_ms


def watermarks(windows: Windows, facts: TopicFacts, now_ms: int | None = None) -> tuple[PartitionWatermark, ...]:
    """The watermark of each partition, idle policy applied.

    A plan's clock that is ahead of `now_ms`, the clock of the task that asks, does not stand in with more than that.
    Empty where windows are never closed: nothing waits for one."""
    if not windows.closes:
        return ()
    seen = [own for p in facts.partitions if (own := own_watermark(windows, p)) is not None]
    largest = max(seen, default=None)
    clock = _Clock.of(windows, facts, now_ms) if windows.idle == "clock" else None
    result = []
    for p in facts.partitions:
        stand_in, held = (largest if windows.idle == "follow" else None), ""
        if clock is not None and p.drained:
            stand_in, held = clock.stand_in(p)
        own = own_watermark(windows, p)
        mark, basis = own, "own" if own is not None else "none"
        if p.drained and stand_in is not None and (own is None or stand_in > own):
            mark, basis = stand_in, windows.idle
        result.append(read_as(PartitionWatermark, p, watermark_ms=mark, basis=basis, held=held))
    return tuple(result)


@dataclass(frozen=True, kw_only=True)
class _Clock:
    """What `idle: clock` goes by. `newest_ms` and `second_ms` are the newest two plans' clocks at which different
    partitions advanced, `first` the partition of the former."""

    windows: Windows
    plan_ms: int
    first: int
    newest_ms: int
    second_ms: int | None
    lags: bool
    now_ms: int | None

    @classmethod
    def of(cls, windows: Windows, facts: TopicFacts, now_ms: int | None) -> _Clock | None:
        """None while nothing has been read."""
        advanced = sorted((p.advanced_ms, p.partition) for p in facts.partitions if p.advanced_ms is not None)
        if not advanced or facts.clock_ms is None:
            return None
        newest, first = advanced[-1]
        second = advanced[-2][0] if len(advanced) > 1 else None
        return cls(
            windows=windows,
            plan_ms=facts.clock_ms,
            first=first,
            newest_ms=newest,
            second_ms=second,
            lags=lags(windows, facts),
            now_ms=now_ms,
        )

    def stand_in(self, p: PartitionFacts) -> tuple[int | None, str]:
        """(Watermark, why it is unknown) of the drained partition `p`."""
        windows = self.windows
        if self.lags:
            return None, Held.LAG
        if self._behind(p):
            return None, Held.BEHIND
        at = self.second_ms if p.partition == self.first else self.newest_ms
        if windows.on_silence == "close" and self._topic_is_silent():
            at = self.plan_ms
        if at is None:
            return None, Held.ALONE
        return (at if self.now_ms is None else min(at, self.now_ms)) - windows.watermark_delay_ms, ""

    def _topic_is_silent(self) -> bool:
        """Whether it is, by plans' clocks: records may wait that no plan has met yet."""
        return self.plan_ms - self.newest_ms >= self.windows.topic_silence_ms

    def _behind(self, p: PartitionFacts) -> bool:
        """A producer that catches up is drained between two of its records: that says nothing of the next one. Once
        nothing has come for `topic_silence` it has caught up, or stopped. Records without a plausible event time are
        nothing here: one that has begun to send only those must not hold windows for as long as it does."""
        read_ms = p.event_read_ms
        if p.max_event_ms is None or read_ms is None:
            return False
        was_behind = read_ms - p.max_event_ms > self.windows.watermark_delay_ms
        return was_behind and self.plan_ms - read_ms < self.windows.topic_silence_ms


def lag_ms(facts: TopicFacts) -> int | None:
    """How old the newest event of the topic was by the clock of the plan that read something last; None without."""
    events = [p.max_event_ms for p in facts.partitions if p.max_event_ms is not None]
    clocks = [p.advanced_ms for p in facts.partitions if p.advanced_ms is not None]
    return max(clocks) - max(events) if events and clocks else None


def lags(windows: Windows, facts: TopicFacts) -> bool:
    """Whether the topic's time is so far from the clock's that the clock says nothing of it: loads of old data."""
    if windows.idle_max_lag_ms is None:
        return False
    lag = lag_ms(facts)
    return lag is None or lag > windows.watermark_delay_ms + windows.idle_max_lag_ms


def global_watermark(marks: tuple[PartitionWatermark, ...]) -> int | None:
    """The smallest; None while any partition has none, or while there are no partitions."""
    values = [m.watermark_ms for m in marks]
    return None if not values or None in values else min(v for v in values if v is not None)
