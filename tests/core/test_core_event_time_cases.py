"""Event time, case by case: delay, skew, clocks of producers and our own, event times that are none.

Each test is one case of `docs/event-time.md`; hours are of one day.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_topic import DAY, DIRTY, HOUR, MINUTE, Topic, at, both

from tidegate.core.batch.planning import NothingToPlan
from tidegate.core.spec.pipeline import EventTime
from tidegate.core.window.plausibility import horizon_ms
from tidegate.core.window.watermark import Held, lag_ms, watermarks

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
