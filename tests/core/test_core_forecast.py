"""Expected readiness: the formula, and where it says that nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR

from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.forecast import BATCHES, LIMIT_MS, SPAN_MS, Forecast, earlier, forecast
from tidegate.core.window.readiness import certify
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

MINUTE = 60_000
WAIT = Windows(
    size_ms=HOUR, timezone="UTC", start_ms=0, watermark_delay_ms=HOUR, idle="wait", topic_silence_ms=2 * HOUR
)
CLOCK = replace(WAIT, idle="clock", on_silence="hold")
FOLLOW = replace(WAIT, idle="follow")
C = 1000 * HOUR
"""The newest plan's clock; the earlier one was an hour before."""


def part(number: int, event: float | None, drained: bool = False, advanced: float | None = 1000) -> PartitionFacts:
    return PartitionFacts(
        partition=number,
        max_event_ms=None if event is None else round(event * HOUR),
        drained=drained,
        advanced_ms=None if advanced is None else round(advanced * HOUR),
    )


def now(*parts: PartitionFacts) -> TopicFacts:
    return TopicFacts(20, C, parts)


def before(*parts: PartitionFacts, clock: float = 999) -> TopicFacts:
    return TopicFacts(8, round(clock * HOUR), parts)


def expect(
    windows: Windows, newest: TopicFacts, earlier_: TopicFacts, end: float, asked: float = 1000.05
) -> Forecast | None:
    """Of the window that ends at `end`."""
    at = round(asked * HOUR)
    key = WindowKey(round((end - 1) * HOUR), round(end * HOUR))
    return forecast(windows, newest, earlier_, certify("p", windows, newest, key, at), at)


def hour(found: Forecast | None) -> float | None:
    assert found is not None
    return None if found.at_ms is None else found.at_ms / HOUR


# ---------------------------------------------------------------- by pace


def test_by_the_pace_of_the_last_hour() -> None:
    """Two hours of events in one; its watermark is 89, the window ends at 95."""
    found = expect(WAIT, now(part(17, 90)), before(part(17, 88)), 95)
    assert found == Forecast(1003 * HOUR, "by the pace of partition 17 in the last 60 min", 17)
    assert found.text() == "expected ready 1970-02-11T19:00Z (by the pace of partition 17 in the last 60 min)"


def test_rounded_up_and_never_early() -> None:
    first = replace(part(0, 88), max_event_ms=88 * HOUR)
    found = expect(WAIT, now(replace(first, max_event_ms=88 * HOUR + 7)), before(first), 87 + 5 / HOUR)
    assert found is None, "it is there"
    found = expect(WAIT, now(replace(first, max_event_ms=88 * HOUR + 7_000_000)), before(first), 90)
    assert found is not None
    missing = 3 * HOUR - 7_000_000
    assert found.at_ms == C + -(-missing * HOUR // 7_000_000)
    assert (found.at_ms - C - 1) * 7_000_000 < missing * HOUR


def test_a_text_has_whole_seconds() -> None:
    assert Forecast(1_234_567, "so").text() == "expected ready 1970-01-01T00:20:34Z (so)"


def test_two_batches_within_a_millisecond() -> None:
    newest, earliest = part(0, 90), replace(part(0, 90), max_event_ms=90 * HOUR - 1)
    found = expect(WAIT, now(newest), TopicFacts(8, C - 1, (earliest,)), 90)
    assert found is not None
    assert (found.at_ms, found.basis) == (C + HOUR, "by the pace of partition 0 in the last 0 s")
    still = expect(WAIT, now(newest), TopicFacts(8, C - 1, (newest,)), 90)
    assert still == Forecast(None, "the watermark of partition 0 has not moved in the last 0 s", 0)
    still = expect(FOLLOW, now(part(0, 90, True)), TopicFacts(8, C - 1, (part(0, 90),)), 90)
    assert still == Forecast(None, "no partition has come further in the last 0 s", 0)


def test_the_last_blocker_decides() -> None:
    found = expect(WAIT, now(part(0, 90), part(1, 90), part(2, 97)), before(part(0, 89), part(1, 86), part(2, 96)), 95)
    assert (hour(found), found and found.partition) == (1006, 0)


def test_no_watermark_is_ahead_of_the_clock() -> None:
    """A backlog that is read at a great pace: the window's own end and the delay still have to come."""
    found = expect(WAIT, now(part(0, 999)), before(part(0, 900)), 1000)
    assert hour(found) == 1001


@pytest.mark.parametrize(
    ("newest", "earliest", "clock", "why"),
    [
        (part(0, 90), part(0, 90), 999, "the watermark of partition 0 has not moved in the last 60 min"),
        (part(0, 90), part(0, 91), 999, "the watermark of partition 0 has not moved in the last 60 min"),
        (part(0, 90), part(0, 80), 1000, "there are no two batches to measure a pace by"),
        (part(0, 90), part(0, 80), 1001, "there are no two batches to measure a pace by"),
        (part(0, None), part(0, None), 999, "partition 0 never had a record with an event time"),
        (part(0, 90), part(0, None), 999, "partition 0 had no record with an event time before the last 60 min"),
        (part(0, 90), part(1, 80), 999, "partition 0 had no record with an event time before the last 60 min"),
    ],
)
def test_no_pace(newest: PartitionFacts, earliest: PartitionFacts, clock: float, why: str) -> None:
    found = expect(WAIT, now(newest), before(earliest, clock=clock), 95)
    assert found == Forecast(None, why, 0)
    assert found.text() == f"expected readiness unknown: {why}"


def test_a_single_batch_gives_no_pace() -> None:
    found = expect(WAIT, now(part(0, 90)), TopicFacts(None, None, ()), 95)
    assert found == Forecast(None, "there are no two batches to measure a pace by", 0)


def test_what_is_too_far_away_is_no_forecast() -> None:
    """A pace of 1 ms an hour; and the first that is too far."""
    slow = expect(WAIT, now(part(0, 90)), before(replace(part(0, 90), max_event_ms=90 * HOUR - 1)), 95)
    assert slow == Forecast(None, "more than a year from now, by the pace of partition 0 in the last 60 min", 0)
    for ms, known in ((0, True), (1, False)):
        key = WindowKey(0, 89 * HOUR + LIMIT_MS + ms)  # at a pace of one
        found = forecast(WAIT, now(part(0, 90)), before(part(0, 89)), certify("p", WAIT, now(part(0, 90)), key, C), C)
        assert found is not None
        assert (found.at_ms == C + LIMIT_MS) == known, found
    huge = expect(WAIT, now(part(0, 10**12, advanced=None)), before(part(0, 10**12 - 1, advanced=None)), 10**15)
    assert hour(huge) is None


def test_one_that_is_unknown_makes_all_unknown() -> None:
    found = expect(WAIT, now(part(0, 90), part(1, 80)), before(part(0, 88), part(1, 80)), 95)
    assert (hour(found), found and found.partition) == (None, 1)


def test_an_open_transaction_may_last_for_ever() -> None:
    held = replace(part(3, 90), open_transaction_since_ms=5)
    found = expect(WAIT, now(held), before(part(3, 80)), 95)
    assert found == Forecast(None, "the open transaction of partition 3 may end at any time, or never", 3)


def test_nothing_to_expect() -> None:
    assert expect(WAIT, now(part(0, 99)), before(part(0, 98)), 95) is None, "ready"
    assert expect(WAIT, TopicFacts(None, None, ()), TopicFacts(None, None, ()), 95) is None, "nothing has landed"
    assert expect(WAIT, now(), before(), 95) is None, "no partitions"


# ---------------------------------------------------------------- expected and gone by


def test_a_time_that_has_just_gone_by_is_the_next_batch() -> None:
    newest, earliest = now(part(0, 95)), before(part(0, 35))
    found = expect(WAIT, newest, earliest, 95, asked=1000.5)
    assert found == Forecast(
        round(1000.5 * HOUR), "with the next batch, by the pace of partition 0 in the last 60 min", 0
    )
    there = expect(WAIT, newest, earliest, 95, asked=1000 + 1 / 60)
    assert there == Forecast(C + MINUTE, "with the next batch, by the pace of partition 0 in the last 60 min", 0)
    at_once = expect(WAIT, newest, earliest, 95, asked=1001)
    assert hour(at_once) == 1001
    gone = expect(WAIT, newest, earliest, 95, asked=1001 + 1 / HOUR)
    assert hour(gone) is None
    assert gone is not None
    assert gone.partition == 0
    assert gone.basis == (
        "1970-02-11T16:01Z has gone by, by the pace of partition 0 in the last 60 min, and no batch has been planned "
        "for 60 min"
    )
    odd = replace(newest, partitions=(replace(newest.partitions[0], max_event_ms=95 * HOUR - 7),))
    gone = expect(WAIT, odd, earliest, 95, asked=1002)
    assert gone is not None
    assert gone.basis.startswith("1970-02-11T16:01Z has gone by"), "in whole seconds"
    slow = expect(WAIT, newest, before(part(0, 35), clock=990), 95, asked=1009)
    assert hour(slow) == 1009, "batches that are rare are given their time"


# ---------------------------------------------------------------- what stands in


def test_idle_and_wait() -> None:
    found = expect(WAIT, now(part(0, 99), part(1, 80, True, 900)), before(part(0, 98), part(1, 80, True, 900)), 95)
    assert hour(found) is None


def test_follow_goes_by_the_partition_that_is_furthest_ahead() -> None:
    newest = now(part(0, 94, True), part(1, 80, True, 900))
    found = expect(FOLLOW, newest, before(part(0, 92), part(1, 80)), 95)
    assert hour(found) == 1001
    assert found is not None
    still = expect(FOLLOW, newest, before(part(0, 94), part(1, 80)), 95)
    assert still == Forecast(None, "no partition has come further in the last 60 min", 0)
    alone = expect(FOLLOW, newest, TopicFacts(None, None, ()), 95)
    assert alone == Forecast(None, "there are no two batches to measure a pace by", 0)
    behind = expect(FOLLOW, now(part(0, 94), part(1, 80)), before(part(0, 92), part(1, 80)), 95)
    assert hour(behind) is None, "it has a backlog: nobody stands in"
    words = expect(FOLLOW, now(part(0, 96, False), part(1, 80, True)), before(part(0, 94), part(1, 80)), 96)
    assert words is not None
    assert (words.at_ms, words.basis) == (
        1000 * HOUR + HOUR // 2,
        "by the pace of partition 0 in the last 60 min",
    )


def test_follow_takes_whichever_is_earlier() -> None:
    newest = now(part(0, 94, True), part(1, 93, True))
    furthest = expect(FOLLOW, newest, before(part(0, 92), part(1, 91)), 95)
    assert hour(furthest) == 1001, "partition 1 would take half an hour longer by itself"
    own = expect(FOLLOW, newest, before(part(0, 93.9), part(1, 83)), 93.5)
    assert hour(own) == pytest.approx(1005), "partition 0: by itself; partition 1 is sooner there by its own pace"
    assert own is not None
    assert own.partition == 0


def test_follow_where_somebody_never_had_a_record() -> None:
    newest = now(part(1, None, True), part(0, 94, True))
    found = expect(FOLLOW, newest, before(part(0, 92)), 95)
    words = "by the pace of the partition that is furthest ahead in the last 60 min"
    assert found == Forecast(1001 * HOUR, words, 1)
    nobody = expect(FOLLOW, now(part(1, None, True)), before(part(1, None)), 95)
    assert nobody == Forecast(None, "no partition has come further in the last 60 min", 1)


def test_the_clock_stands_in_while_others_advance() -> None:
    """Watermark of the idle one: 999 by the clock of the newest plan. The window's end and delay: 1001."""
    newest = now(part(0, 999.9), part(1, 990, True, 990))
    found = expect(CLOCK, newest, before(part(0, 998.9), part(1, 990, True, 990)), 1000)
    assert hour(found) == pytest.approx(1001.1, abs=0.001), "partition 0 comes a little later, by its pace"
    only = expect(CLOCK, now(part(0, 1000), part(1, 990, True, 990)), before(part(0, 999), part(1, 990)), 999.5)
    assert hour(only) == 1000.5
    drained = now(part(0, 1000, True), part(1, 998.5, True, 999))
    found = expect(CLOCK, drained, before(part(0, 1000, True, 1000), part(1, 998.5, True, 999)), 999.5)
    assert found == Forecast(round(1000.5 * HOUR), "by the clock, while partition 0 is idle and others are not", 0)


def test_a_partition_that_was_behind_counts_as_idle_after_the_silence() -> None:
    newest = now(part(0, 1000), part(1, 990, True, 999.5))
    found = expect(CLOCK, newest, before(part(0, 999), part(1, 990, True, 998)), 998)
    assert found == Forecast(round(1001.5 * HOUR), "by the clock, while partition 1 is idle and others are not", 1)
    dirty = now(part(0, 1000), replace(part(1, 990, True, 1000), timed_ms=round(999.5 * HOUR)))
    assert expect(CLOCK, dirty, before(part(0, 999), part(1, 990, True, 998)), 998) == found, "since its last event"


def test_a_silent_topic() -> None:
    newest = TopicFacts(20, C, (part(0, 995, True, 995), part(1, 990, True, 990)))
    held = expect(CLOCK, newest, before(part(0, 995), part(1, 990)), 996)
    assert held == Forecast(None, "partition 0 is idle and no other partition has records (on_silence: hold)", 0)
    close = replace(CLOCK, on_silence="close")
    found = expect(close, newest, before(part(0, 995), part(1, 990)), 1002)
    assert found == Forecast(1003 * HOUR, "by the clock, if the topic stays silent", 0)
    soon = TopicFacts(20, C, (part(0, 999.5, True, 999.5), part(1, 990, True, 990)))
    found = expect(close, soon, before(part(0, 999.5), part(1, 990)), 999)
    assert (hour(found), found and found.partition) == (1001.5, 0), "silent two hours after the last record"
    for advanced, known in ((998, False), (998.001, True)):
        edge = TopicFacts(20, C, (part(0, 998, False, advanced), part(1, 997, True, 997)))
        found = expect(CLOCK, edge, before(part(0, 997), part(1, 997)), 998.5)
        assert (hour(found) is not None) == known, "silent for exactly two hours, and not quite"
    single = TopicFacts(20, C, (part(0, 999.5, True, 999.5),))
    assert hour(expect(close, single, before(part(0, 999.5)), 999)) == 1001.5
    assert hour(expect(CLOCK, single, before(part(0, 999.5)), 999)) is None


def test_what_is_too_old_for_the_clock() -> None:
    newest = now(part(0, 95, True), part(1, 90, True))
    found = expect(CLOCK, newest, before(part(0, 95), part(1, 90)), 96)
    assert found == Forecast(None, "the clock does not stand in for what is so old (windows.idle_max_lag)", 0)
    moving = expect(CLOCK, newest, before(part(0, 93), part(1, 88)), 95)
    assert hour(moving) == 1003, "but its own pace counts"


# ---------------------------------------------------------------- from where a pace is measured


def test_from_where_a_pace_is_measured() -> None:
    def at(*minutes: int) -> list[tuple[int, int]]:
        return [(100 - i, C - m * MINUTE) for i, m in enumerate(minutes)]

    assert earlier([]) is None
    assert earlier(at(0)) is None
    assert earlier(at(0, 5)) == 99
    assert earlier(at(0, 5, 10, 59)) == 97, "the oldest, while none is an hour older"
    assert earlier(at(0, 5, 60, 61, 90)) == 98, "the newest that is an hour older"
    assert earlier(at(*range(0, 100, 1))) == 100 - BATCHES
    assert earlier(at(*[0] * 12, 60, 61)) == 88
    assert (SPAN_MS, BATCHES) == (HOUR, 12)
