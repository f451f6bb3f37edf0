"""The windows that a draft has, at the edges of each rule."""

from __future__ import annotations

import pytest
from test_core_drafting import NOW, times

from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS
from tidegate.core.spec.draft_times import AHEAD_MS, EARLIEST_MS, WindowDraft, windows_of

QUARTER = 15 * MINUTE_MS


@pytest.mark.parametrize(
    ("hours", "records", "size", "why"),
    [
        (1, 1, HOUR_MS, "1 hour with about 1 record an hour"),
        (48, 48 * 10 - 1, HOUR_MS, "48 hours with about 10 records an hour"),
        (48, 9, HOUR_MS, "48 hours with about 1 record an hour"),
        (49, 490, HOUR_MS, "49 hours with about 10 records an hour"),
        (49, 489, DAY_MS, "2 days with about 240 records a day"),
        (49, 1, DAY_MS, "2 days with about 1 record a day"),
        (1200, 2400, DAY_MS, "50 days with about 48 records a day"),
        (2000, 2000 * 10, HOUR_MS, "2,000 hours with about 10 records an hour"),
        (2001, 2001 * 10_000 - 1, DAY_MS, "83 days with about 240,000 records a day"),
        (2001, 2001 * 10_000, HOUR_MS, "2,001 hours with about 10,000 records an hour"),
    ],
)
def test_days_where_hours_would_be_many_and_small(hours: int, records: int, size: int, why: str) -> None:
    found = windows_of(times(NOW - (hours - 1) * HOUR_MS, NOW), records, NOW)
    assert (found.size_ms, found.why["size"]) == (size, why)
    dated = windows_of(times(NOW - (hours - 1) * HOUR_MS, NOW), records, NOW, date_only=True)
    assert (dated.size_ms, dated.why["size"]) == (DAY_MS, "the event time has no hour")


@pytest.mark.parametrize(
    ("disorder", "delay"),
    [
        (0, QUARTER), (QUARTER // 2, QUARTER), (QUARTER // 2 + 1, 2 * QUARTER), (QUARTER, 2 * QUARTER),
        (30 * MINUTE_MS, HOUR_MS), (84 * HOUR_MS, 7 * DAY_MS), (84 * HOUR_MS + 1, 7 * DAY_MS), (9 * DAY_MS, 7 * DAY_MS),
    ],
)  # fmt: skip
def test_a_watermark_waits_for_twice_the_disorder_and_a_week_at_most(disorder: int, delay: int) -> None:
    found = windows_of(times(NOW, NOW - disorder, NOW), 1000, NOW)
    assert found.delay_ms == delay
    assert ("in order" in found.why["watermark_delay"]) is (disorder == 0)
    assert ("out of order" in found.why["watermark_delay"]) is (disorder > 0)


@pytest.mark.parametrize("late", [0, 1])
def test_a_topic_is_live_up_to_an_hour_and_the_delay(late: int) -> None:
    idle = "follow" if late else "clock"
    old = windows_of(times(NOW - HOUR_MS - QUARTER - late), 1000, NOW)
    assert old.idle == idle
    assert old.why.get("idle") == ("the newest event of the sample is 75 min old" if late else None)
    slow = windows_of(times(NOW), 1000, NOW, lag_ms=HOUR_MS + QUARTER + late)
    assert slow.idle == idle
    words = "records come 75 min after their events, as in a load of old data"
    assert slow.why.get("idle") == (words if late else None)


def test_event_times_of_before_the_year_2000_or_of_after_tomorrow_are_odd() -> None:
    for at, odd in ((EARLIEST_MS, 0), (EARLIEST_MS - 1, 1), (NOW + AHEAD_MS, 0), (NOW + AHEAD_MS + 1, 1)):
        assert windows_of(times(at), 1000, NOW).odd == odd
    assert windows_of(times(0, 1), 10, NOW + 5) == WindowDraft(
        HOUR_MS, NOW, QUARTER, "clock",
        {"start": "this hour: no event time was seen", "watermark_delay": "nothing was seen that says another"}, 2,
    )  # fmt: skip
    one = windows_of(times(0, NOW), 10, NOW)
    assert one.why["start"].startswith("the earliest event of the sample is of ")
    assert one.why["start"].endswith(" (without 1 odd event)")


def test_of_twenty_times_those_far_from_all_others_are_odd() -> None:
    """Far: three times the span of the nine tenths in the middle, and a day."""
    middle = [NOW - 40 * DAY_MS + n * HOUR_MS for n in range(19)]
    low, high = middle[0], middle[-2]  # of twenty, the first and the last are left out
    reach = 3 * (high - low) + DAY_MS
    for edge, odd in ((low - reach, 0), (low - reach - 1, 1)):
        assert windows_of(times(edge, *middle), 1000, NOW).odd == odd
    assert windows_of(times(low - reach - 1, *middle[:18]), 1000, NOW).odd == 0, "nineteen are too few to tell"
    low, high = middle[1], middle[-1]
    reach = 3 * (high - low) + DAY_MS
    for edge, odd in ((high + reach, 0), (high + reach + 1, 1)):
        assert windows_of(times(*middle, edge), 1000, NOW).odd == odd


@pytest.mark.parametrize(("events", "late", "delay"), [(99, 1, 2 * HOUR_MS), (100, 1, QUARTER), (100, 2, 2 * HOUR_MS)])
def test_the_latest_of_a_hundred_events_does_not_decide_the_delay(events: int, late: int, delay: int) -> None:
    found = windows_of(times(*[NOW] * (events - late), *[NOW - HOUR_MS] * late), 1000, NOW)
    assert found.delay_ms == delay
