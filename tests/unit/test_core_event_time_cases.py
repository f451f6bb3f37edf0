"""Event time, case by case: what holds a window, for how long, and what must never close one too early.

Each test is one case of `docs/event-time.md`. A `Topic` goes through plans as a real one does; hours are of one day.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from core_values import PIPELINE

from tidegate.core.batch import Plan
from tidegate.core.instants import iso
from tidegate.core.pipeline import EventTime
from tidegate.core.planning import NothingToPlan, PlanningView, advance, plan_batch
from tidegate.core.ports import PartitionOffsets, TopicState
from tidegate.core.watermark import (
    Certificate,
    Held,
    TopicFacts,
    certify,
    global_watermark,
    horizon_ms,
    lag_ms,
    lags,
    watermarks,
)
from tidegate.core.window import WindowKey

HOUR, MINUTE, DAY = 3_600_000, 60_000, 86_400_000
NOON = 1_767_441_600_000 + 12 * HOUR  # 2026-01-03T12:00Z
DIRTY = None
"""A record without a usable event time."""


def at(hour: float) -> int:
    """`12.5` is 12:30 of that day; 36 is noon of the next."""
    return NOON + round((hour - 12) * HOUR)


class Topic:
    """Partitions that producers send to, and the pipeline that reads them. Hours everywhere."""

    def __init__(self, partitions: int = 2, idle: str = "clock", delay: float = 0.5, **windows: object) -> None:
        self.spec = replace(
            PIPELINE,
            windows=replace(
                PIPELINE.windows,
                **{"start_ms": at(-9000), "watermark_delay_ms": round(delay * HOUR), "idle": idle} | windows,
            ),
            ingest=replace(PIPELINE.ingest, max_records=1_000_000),
        )
        self.logs: dict[int, list[float | None]] = {p: [] for p in range(partitions)}
        self.transactions: dict[int, int] = {}  # first offset by partition
        self.facts = TopicFacts(None, None, ())
        self.ends: dict[int, int] = {}
        self.next_id = 1

    def send(self, partition: int, *events: float | None) -> None:
        self.logs.setdefault(partition, []).extend(events)

    def begin(self, partition: int) -> None:
        self.transactions[partition] = len(self.logs[partition])

    def plan(self, clock: float) -> Plan | NothingToPlan:
        """A plan at `clock`, landed at once."""
        offsets = {p: PartitionOffsets(0, self.transactions.get(p, len(log)), len(log)) for p, log in self.logs.items()}
        view = PlanningView(1, self.next_id, "id", None, self.ends, (), self.facts)
        plan = plan_batch(self.spec, 1, view, TopicState("flights", "id", offsets), {}, at(clock))
        if isinstance(plan, Plan):
            horizon = horizon_ms(self.spec.event_time, plan.clock_ms)
            newest: dict[int, int | None] = {}
            for r in plan.ranges:
                read = [at(e) for e in self.logs[r.partition][r.start : r.end] if e is not None]
                newest[r.partition] = max((e for e in read if e <= horizon), default=None)
            self.facts = advance(self.facts, plan, newest)
            self.ends = {p.partition: p.end for p in plan.partitions}
            self.next_id += 1
        return plan

    def certify(self, hour: int, now: float = 1000) -> Certificate:
        """Of the window that begins at `hour`."""
        return certify("p", self.spec.windows, self.facts, WindowKey(at(hour), at(hour + 1)), at(now))

    def ready(self, hour: int, now: float = 1000) -> bool:
        return self.certify(hour, now).ready

    def low(self) -> float | None:
        """The global watermark as an hour."""
        mark = global_watermark(watermarks(self.spec.windows, self.facts))
        return None if mark is None else (mark - at(0)) / HOUR

    def held(self) -> list[str]:
        return [m.held for m in watermarks(self.spec.windows, self.facts)]


def both(topic: Topic, *events: float | None, partitions: Iterable[int] = (0, 1)) -> Topic:
    for p in partitions:
        topic.send(p, *events)
    return topic


# ---------------------------------------------------------------- delay, skew, producers' clocks


def test_delay() -> None:
    """A window closes when the slowest partition has an event `watermark_delay` after its end."""
    topic = Topic(idle="wait")
    topic.send(0, 11.0)
    topic.send(1, 10.45)
    topic.plan(11.1)
    assert topic.certify(9).blockers == (1,)
    topic.send(1, 10.5)
    topic.plan(11.2)
    assert topic.ready(9)
    assert not topic.ready(10)


def test_future_skew() -> None:
    """Beyond the skew an event moves nothing; within it, it moves no watermark further than the clock."""
    topic = both(Topic(idle="wait"), 9.0)
    assert horizon_ms(topic.spec.event_time, at(10)) == at(10) + 5 * MINUTE
    both(topic, 10.2)  # seven minutes further than the five that are allowed
    topic.plan(10.0)
    assert topic.low() == 8.5
    both(topic, 10.05)
    topic.plan(10.01)
    assert topic.low() == pytest.approx(9.51), "the plan's clock, not the event's"
    both(topic, 10.04)
    topic.plan(10.2)
    assert topic.low() == pytest.approx(9.55), "what was ahead then has come true"


@pytest.mark.parametrize("future", ["dirty", "accept"])
@pytest.mark.parametrize("path", ["$.at", None])  # None: Kafka's timestamp, which a producer gives too
def test_producer_clock_a_year_ahead(future: str, path: str | None) -> None:
    """Its records never move a watermark, wherever they go; its partition waits for others that do."""
    for idle in ("wait", "follow", "clock"):
        topic = Topic(idle=idle)
        topic.spec = replace(topic.spec, event_time=EventTime(path, future=future))
        topic.send(0, 9.0, 9.9)
        topic.send(1, 9.0, 9.0 + 365 * 24)
        topic.plan(10.0)
        assert (topic.low() or 0) <= 9.5, idle
        assert not topic.ready(9)
        assert not topic.ready(5000)


def test_producer_clock_a_year_ahead_within_the_skew() -> None:
    """Whoever allows a year of skew still has no hour closed before it is over."""
    for idle in ("wait", "follow", "clock"):
        topic = Topic(idle=idle)
        topic.spec = replace(topic.spec, event_time=replace(topic.spec.event_time, future_skew_ms=366 * DAY))
        both(topic, 9.9)
        topic.send(1, 9.9 + 365 * 24)
        topic.plan(10.0)
        assert topic.low() == pytest.approx(9.4 if idle == "wait" else 9.5, abs=0.11), idle
        assert not topic.ready(9)
        both(topic, 11.9)
        topic.plan(12.0)
        assert topic.ready(10), "and it does not hold the hours that follow"
        assert not topic.ready(11)


def test_a_partition_of_a_producer_that_is_always_ahead() -> None:
    """Only its records lie in the future: it has no event time, and the policy says what stands in."""
    topic = Topic(idle="clock")
    for hour in (9, 10, 11):
        topic.send(0, hour - 0.01)
        topic.send(1, hour + 365 * 24)
        topic.plan(hour)
    assert topic.ready(9), "by the clock: its records belong to no hour that is due"
    topic.spec = replace(topic.spec, windows=replace(topic.spec.windows, idle="wait"))
    assert "partition 1: never had a record with an event time" in topic.certify(9).reason


@pytest.mark.parametrize("bad", [DIRTY, 365 * 24.0])
def test_a_producer_that_has_gone_wrong_and_goes_on_sending_holds_no_window_for_it(bad: float | None) -> None:
    """Its last good event is old and it never falls quiet; its bad records say nothing of when good ones will come."""
    topic = both(Topic(idle="clock"), 9.9)
    topic.plan(10)
    for hour in (10.5, 11.0, 11.5, 12.0):
        topic.send(0, hour - 0.05)
        topic.send(1, bad)
        topic.plan(hour)
    assert topic.held() == ["", ""]
    assert topic.ready(10)
    topic.send(1, 10.2, bad)
    topic.plan(12.1)
    assert topic.held() == ["", Held.BEHIND], "a good one that is old: it may have kept more"


def test_when_an_event_was_read_is_known_after_an_upgrade() -> None:
    """Until the first plan of this version, and for a partition that reads nothing of use, the best guess is when
    anything was read."""
    topic = both(Topic(idle="clock"), 9.9)
    topic.send(1, 8.0)
    topic.plan(12)
    old = replace(topic.facts, partitions=tuple(replace(p, timed_ms=None) for p in topic.facts.partitions))
    topic.facts = old
    assert topic.held() == [Held.BEHIND, Held.BEHIND]
    topic.send(0, 12.4)
    topic.send(1, DIRTY)
    topic.plan(12.5)
    assert [p.timed_ms for p in topic.facts.partitions] == [at(12.5), at(12)]
    assert topic.held() == ["", Held.BEHIND]


# ---------------------------------------------------------------- drained, silent, stopped


def test_drained() -> None:
    """A partition that is read to its end is stood in for; one with a backlog never is, by any policy."""
    for idle, ready in (("wait", False), ("follow", True), ("clock", True)):
        topic = Topic(idle=idle)
        topic.send(0, 8.9)
        topic.send(1, 8.9)
        topic.plan(9)
        topic.send(0, 10.9)
        topic.plan(11)
        assert topic.ready(9) == ready, idle
        topic = Topic(idle=idle)
        topic.spec = replace(topic.spec, ingest=replace(topic.spec.ingest, max_records=2))
        topic.send(0, 10.9)
        topic.send(1, 8.0, 8.1, 8.2)
        topic.plan(11)
        assert not topic.ready(8), f"{idle}: there is more to read"


def test_open_transaction() -> None:
    """It holds its partition like a backlog, under every policy; the certificate says since when and from where."""
    for idle in ("wait", "follow", "clock"):
        topic = both(Topic(idle=idle), 8.0)
        topic.plan(8.1)
        topic.begin(1)
        topic.send(1, 8.2)
        topic.send(0, 10.9)
        topic.plan(11)
        found = topic.certify(8)
        assert not found.ready
        assert f"partition 1: an open transaction holds it since {iso(at(11))}, from offset 1 on" in found.reason
        topic.send(0, 20.9)
        topic.plan(21)
        assert iso(at(11)) in topic.certify(8).reason, "it is the same one, ten hours later"
        assert topic.certify(8).blockers == (1,)
        del topic.transactions[1]
        both(topic, 21.9)
        topic.plan(22)
        assert topic.ready(8), idle


def test_a_transaction_that_is_open_for_ever_does_not_hold_what_its_partition_has_passed() -> None:
    topic = both(Topic(), 10.9)
    topic.begin(1)
    topic.send(1, 11.0)
    topic.plan(11)
    assert topic.ready(9)
    assert not topic.ready(10)


def test_never_had_a_record() -> None:
    for idle, ready in (("wait", False), ("follow", True), ("clock", True)):
        topic = Topic(3, idle=idle)
        both(topic, 10.9)
        topic.plan(11)
        assert topic.ready(9) == ready, idle
    assert "no batch has landed" in Topic(1).certify(9).reason


def test_a_topic_of_one_partition_is_never_stood_in_for_by_the_clock() -> None:
    topic = Topic(1)
    topic.send(0, 9.9)
    topic.plan(10)
    topic.plan(11)
    assert topic.low() == pytest.approx(9.4)
    assert topic.held() == [Held.ALONE]
    assert "no other partition has had a record" in topic.certify(9).reason


def test_one_record_long_ago() -> None:
    """A partition that had one record once is idle as one that never had any."""
    topic = Topic()
    topic.send(1, 1.0)
    topic.plan(1.01)
    for hour in range(2, 30):
        topic.send(0, hour - 0.01)
        topic.plan(hour)
    assert topic.low() == pytest.approx(29 - 0.51)
    topic.spec = replace(topic.spec, windows=replace(topic.spec.windows, idle="wait"))
    assert topic.low() == 0.5


def test_whole_topic_silent() -> None:
    """hold: the hour that was open stays open, however long. close: it closes by the clock after `topic_silence`."""
    for policy, ready in (("hold", False), ("close", True)):
        topic = both(Topic(on_silence=policy), 9.95)
        topic.plan(10)
        assert not topic.ready(9)
        assert isinstance(topic.plan(10.9), NothingToPlan), "not silent for an hour yet"
        planned = topic.plan(11.01)
        assert isinstance(planned, Plan) == ready, "an empty batch says that nothing came"
        assert topic.ready(9) == ready
        assert not topic.ready(10)
        topic.plan(34)
        assert topic.ready(10) == ready
        assert topic.ready(32) == ready


def test_records_that_come_after_a_silence_was_closed() -> None:
    """What the silence closed stays closed; the watermark goes back to what is known, and closes nothing twice."""
    topic = both(Topic(on_silence="close"), 9.95)
    topic.plan(10)
    topic.plan(13)
    assert topic.low() == 12.5
    topic.send(0, 10.5)
    topic.plan(13.1)
    assert topic.low() == pytest.approx(10.0), "its producer was behind: its own again, until it has caught up"
    assert topic.held() == [Held.BEHIND, ""]
    topic.send(0, 13.15)
    topic.plan(13.2)
    assert topic.low() == pytest.approx(12.65)


def test_source_stopped_for_a_day_and_what_it_kept_comes_first() -> None:
    """Producers that catch up are drained between two records; the clock must not close the day before it comes."""
    topic = both(Topic(), 9.95)
    topic.plan(10)
    for minute in range(0, 60, 5):  # a day later both send what they kept, an hour's worth at a time
        both(topic, 10.0 + minute / 60 * 20)
        topic.plan(34 + minute / 60)
        assert topic.low() == pytest.approx(9.5 + minute / 60 * 20), "as far as they have come"
        assert topic.held() == [Held.BEHIND] * 2
    both(topic, 34.95)
    topic.plan(35)
    assert topic.ready(33)
    assert not topic.ready(34)


def test_source_stopped_for_a_day_and_one_partition_never_comes_back() -> None:
    topic = both(Topic(), 9.95)
    topic.plan(10)
    assert isinstance(topic.plan(20), NothingToPlan)
    assert not topic.ready(9)
    topic.send(0, 33.98)
    topic.plan(34)
    assert topic.ready(32), "partition 0 shows that time has passed; partition 1 has been quiet for a day"


def test_a_partition_that_was_behind_holds_no_longer_than_the_silence() -> None:
    topic = Topic()
    topic.send(0, 9.9)
    topic.send(1, 5.0)  # one straggler, five hours old
    topic.plan(10)
    topic.send(0, 10.8)
    topic.plan(10.9)
    assert topic.low() == 4.5
    topic.send(0, 10.95)
    topic.plan(11)
    assert topic.low() == pytest.approx(10.45), "an hour later it counts as idle"


def test_behind_by_exactly_the_delay_is_not_behind() -> None:
    topic = Topic()
    topic.send(0, 9.9)
    topic.send(1, 9.5)
    topic.plan(10)
    assert topic.held() == ["", ""]
    topic.send(1, 9.5)
    topic.plan(10 + 1 / HOUR)
    assert topic.held() == ["", Held.BEHIND]


# ---------------------------------------------------------------- partitions that come later, topics that come again


def test_partition_added_later_and_empty() -> None:
    """It holds nothing before a plan has met it; from then on what the policy says of one that never had a record."""
    for idle, ready in (("wait", False), ("follow", True), ("clock", True)):
        topic = both(Topic(idle=idle), 10.9)
        topic.plan(11)
        assert topic.ready(9)
        topic.send(2)
        assert isinstance(topic.plan(11.05), NothingToPlan), "an empty partition is worth no batch"
        assert topic.ready(9)
        both(topic, 11.9)
        topic.plan(12)
        assert topic.ready(10) == ready, idle
    assert topic.facts.partitions[2].max_event_ms is None


def test_partition_added_later_with_records() -> None:
    """From the plan that meets it, it holds windows until its own records have passed them: no longer, no shorter."""
    for idle in ("wait", "follow", "clock"):
        topic = both(Topic(idle=idle), 10.4)
        topic.plan(10.5)
        topic.spec = replace(topic.spec, ingest=replace(topic.spec.ingest, max_records=4))
        topic.send(2, 10.41, 10.45, 10.9, 11.4)
        both(topic, 11.6, 11.7)
        topic.plan(11.75)
        assert topic.certify(10).blockers == (2,), f"{idle}: it has a backlog"
        both(topic, 11.76)
        topic.plan(11.8)
        topic.plan(11.81)
        assert topic.ready(10) == (idle != "wait"), "read to its end"


def test_topic_replayed_from_the_start() -> None:
    """The producer sends all again: the watermark stands still, and does not fall back to the old events."""
    for idle in ("wait", "follow", "clock"):
        topic = both(Topic(idle=idle), *(h + 0.9 for h in range(10)))
        topic.plan(10)
        before = topic.low()
        both(topic, *(h + 0.9 for h in range(5)))
        topic.plan(10.2)
        assert topic.low() >= before, idle
        assert topic.ready(8)
        assert not topic.ready(9)
        both(topic, 9.95)
        topic.plan(10.3)
        assert not topic.ready(9), f"{idle}: its last hour ends when something later comes"
        both(topic, 10.6)
        topic.plan(10.7)
        assert topic.ready(9), idle


def test_first_start_with_seven_days_of_retention() -> None:
    """Capped batches: partitions progress unevenly, one is nearly empty, one empty. No hour closes before the last
    partition with a backlog has passed it, and the clock stands in for nobody while what is read is days old."""
    topic = Topic(4)
    topic.spec = replace(topic.spec, ingest=replace(topic.spec.ingest, max_records=40))
    week = [h / 2 - 168 for h in range(2 * 168)]
    topic.send(0, *week)
    topic.send(1, *(e for e in week for _ in range(3)))
    topic.send(2, -100.0)
    closed = -1000
    clock = 0.0
    while not isinstance(topic.plan(clock), NothingToPlan):
        low = topic.low()
        unread = [topic.logs[p][topic.ends[p]] for p in (0, 1) if topic.ends[p] < len(topic.logs[p])]
        if unread:
            assert low is None or low <= min(unread), "nothing closes before what is still to be read"
        if lags(topic.spec.windows, topic.facts):
            assert {2, 3} <= set(topic.certify(-100).blockers)
            assert topic.certify(-170).blockers[-1] == 3
        closed = max(closed, -1000 if low is None else low)
        clock += 0.1
    assert closed == pytest.approx(-1.0)
    both(topic, clock - 0.01)
    topic.plan(clock)
    assert topic.ready(-2)


def test_loads_of_old_data_are_not_closed_by_the_clock() -> None:
    """13 years behind: the clock says nothing of this topic, drained or silent, until the spec says so on purpose."""
    old = 13 * 365 * 24
    for policy in ("hold", "close"):
        topic = Topic(on_silence=policy, start_ms=at(-2 * old))
        topic.send(0, -old, -old + 1)
        topic.send(1, -old)
        topic.plan(10)
        assert topic.held() == [Held.LAG] * 2
        assert "windows.idle_max_lag" in topic.certify(1 - old).reason
        topic.plan(20)
        assert topic.low() == -old - 0.5
        topic.spec = replace(topic.spec, windows=replace(topic.spec.windows, idle_max_lag_ms=None))
        topic.plan(21)
        assert topic.low() == (20.5 if policy == "close" else 9.5), policy
        topic.spec = replace(topic.spec, windows=replace(topic.spec.windows, idle="follow"))
        assert topic.low() == -old + 0.5


@pytest.mark.parametrize(("lag", "trusted"), [(24.5, True), (24.5 + 1 / HOUR, False), (-0.05, True)])
def test_how_old_the_newest_event_may_be(lag: float, trusted: bool) -> None:
    """The delay and `idle_max_lag`, by the clock at which something was read last."""
    topic = Topic()
    topic.send(0, 10 - lag)
    topic.send(1, -30.0)
    topic.plan(10)
    assert lag_ms(topic.facts) == round(lag * HOUR)
    assert lags(topic.spec.windows, topic.facts) != trusted
    assert not lags(replace(topic.spec.windows, idle_max_lag_ms=None), topic.facts)


# ---------------------------------------------------------------- event times that are none


def test_event_time_absent_or_unparsable() -> None:
    """Dirty rows show that a partition is read, and nothing about time."""
    topic = Topic()
    topic.send(0, 9.9)
    topic.send(1, DIRTY, DIRTY)
    topic.plan(10)
    assert topic.facts.partitions[1].advanced_ms == at(10)
    assert topic.facts.partitions[1].max_event_ms is None
    topic.send(0, 11.0)
    topic.plan(11.1)
    assert topic.ready(9), "it is drained, and what is dirty belongs to no window"
    topic.spec = replace(topic.spec, windows=replace(topic.spec.windows, idle="wait"))
    assert topic.certify(9).blockers == (1,)


def test_nothing_but_dirty_rows() -> None:
    """Nothing says what time it is in this topic: no window closes, by no policy."""
    for idle in ("wait", "follow", "clock"):
        topic = both(Topic(idle=idle, on_silence="close"), DIRTY)
        topic.plan(10)
        assert isinstance(topic.plan(20), NothingToPlan)
        assert (topic.low(), lag_ms(topic.facts)) == (None, None)
        assert not topic.ready(9)


def test_row_before_windows_start() -> None:
    """It is late, so it counts; a partition that holds nothing else has a watermark before the first window."""
    topic = Topic(idle="wait", start_ms=at(8))
    topic.send(0, 8.5)
    topic.send(1, -17000.0)
    topic.plan(9)
    assert topic.certify(8).blockers == (0, 1)
    assert topic.ready(7), "windows before the start hold nothing"
    both(topic, 9.6)
    topic.plan(9.7)
    assert topic.ready(8)
    assert isinstance(topic.plan(9.8), NothingToPlan)


def test_a_watermark_before_windows_start_is_worth_no_empty_batch() -> None:
    topic = both(Topic(idle="follow", start_ms=at(8)), 2.0)
    topic.send(1, -17000.0)
    topic.begin(1)
    topic.send(1, 2.0)
    topic.plan(9)
    assert topic.low() is not None
    del topic.transactions[1]
    topic.logs[1].pop()  # the transaction left nothing behind
    assert isinstance(topic.plan(9.5), NothingToPlan)


def test_the_first_moment_of_the_calendar_stops_nobody() -> None:
    """The oldest event time that a row may have, less a long delay, is a year before the first: still a watermark."""
    first = -62_135_596_800_000 + 2 * DAY
    topic = Topic(idle="wait", delay=24 * 30)
    topic.send(0, 9.0)
    topic.send(1, (first - at(0)) / HOUR)
    topic.plan(10)
    found = topic.certify(9)
    assert found.blockers == (0, 1)
    assert found.text()


# ---------------------------------------------------------------- clocks of our own


def test_clock_that_runs_backwards_between_two_plans() -> None:
    """A watermark may fall back with the clock; nothing closes that was not ready by the earlier one."""
    topic = Topic(on_silence="close")
    topic.send(0, 9.9)
    topic.send(1, 9.9)
    topic.plan(12)
    assert topic.low() == 9.4, "they were two hours behind"
    topic.send(0, 9.95)
    topic.plan(10)
    assert topic.low() <= 11.5
    assert not topic.ready(11)
    assert topic.plan(9) is not None
    assert not topic.ready(10)


def test_plan_whose_clock_was_ahead() -> None:
    """A host that is 27 minutes fast has planned: whoever closes goes no further than the own clock."""
    topic = both(Topic(), 10.3)
    topic.plan(10.75)
    assert topic.low() == 10.25
    assert topic.ready(9), "as that host has it"
    assert not topic.ready(9, now=10.3)
    marks = watermarks(topic.spec.windows, topic.facts, at(10.4))
    assert [m.watermark_ms for m in marks] == [at(9.9)] * 2
    assert topic.ready(9, now=10.5)


def test_what_was_lost_or_given_up_moves_no_watermark() -> None:
    """Offsets that retention took, or a batch that was abandoned, say nothing of time."""
    topic = both(Topic(idle="wait"), 8.0, 9.0, 10.0)
    topic.plan(8.1)
    before = topic.facts
    topic.ends[0] += 5  # as planned by a batch that never landed
    both(topic, *[9.5] * 5)
    topic.send(1, 10.6)
    topic.plan(10.7)
    assert topic.facts.partitions[0] == replace(before.partitions[0], last_stable_offset=8, drained=True), (
        "partition 0 was not read by this batch"
    )
