"""Which windows are due: the rules."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.base.instants import DAY_MS
from tidegate.core.base.offsets import Interval
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.due import MOST_REMEMBERED, Due, due, remembered, stretches, unknown
from tidegate.core.window.states import WindowKey

HOUR = 3_600_000
T0 = 1_357_344_000_000  # 2013-01-05T00:00:00Z
HOURS = Windows(size_ms=HOUR, timezone="UTC", start_ms=T0, watermark_delay_ms=0)


def hours(*numbers: int) -> list[int]:
    return [T0 + n * HOUR for n in numbers]


def part(first: int, end: int) -> Interval:
    return Interval(T0 + first * HOUR, T0 + end * HOUR)


def window(hour: int) -> WindowKey:
    return WindowKey(T0 + hour * HOUR, T0 + (hour + 1) * HOUR)


def test_due_is_what_the_watermark_has_passed_and_is_not_published() -> None:
    parts = unknown(HOURS, (), T0 + 6 * HOUR + 1)
    assert parts == (part(0, 6),)
    found = due(HOURS, parts, hours(0, 1, 4))
    assert found.parts == (part(2, 4), part(5, 6))
    assert found.count == 3
    assert list(found) == [window(2), window(3), window(5)]
    assert list(found.ranges) == [(window(2), window(3)), (window(5), window(5))]
    assert found.holds(T0 + 3 * HOUR)
    assert not found.holds(T0 + 4 * HOUR)


@pytest.mark.parametrize("low", [-HOUR, 0, HOUR - 1])
def test_nothing_is_due_before_the_first_window_ends(low: int) -> None:
    assert not due(HOURS, unknown(HOURS, (), T0 + low), [])


def test_days_are_counted_as_they_are() -> None:
    berlin = Windows(
        size_ms=DAY_MS,
        timezone="Europe/Berlin",
        start_ms=int(datetime(2024, 10, 25, 22, tzinfo=UTC).timestamp() * 1000),
        watermark_delay_ms=0,
    )
    found = due(berlin, unknown(berlin, (), int(datetime(2024, 10, 29, tzinfo=UTC).timestamp() * 1000)), [])
    assert found.count == 3
    assert [(k.end_ms - k.start_ms) // HOUR for k in found] == [24, 25, 24]


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_what_is_remembered_changes_nothing_that_is_due(published: set[int], before: set[int], low: int) -> None:
    """Whatever part of the published windows was known before, the same windows are due."""
    old = remembered((part(0, 60),), due(HOURS, (part(0, 60),), hours(*sorted(published & before))), ())
    parts = unknown(HOURS, old, T0 + low * HOUR)
    found = due(
        HOURS, parts, hours(*sorted(p for p in published if any(i.start <= T0 + p * HOUR < i.end for i in parts)))
    )
    assert [(k.start_ms - T0) // HOUR for k in found] == [n for n in range(low) if n not in published]
    again = remembered(parts, found, old)
    assert not any(found.holds(start) for i in again for start in range(i.start, i.end, HOUR))


def test_what_is_remembered_is_bounded() -> None:
    scattered = due(HOURS, (part(0, 1000),), hours(*range(0, 500, 2), *range(600, 1000)))
    kept = remembered((part(0, 1000),), scattered, ())
    assert len(kept) == MOST_REMEMBERED
    assert part(600, 1000) in kept


def test_windows_that_follow_each_other_are_one_part() -> None:
    assert list(stretches(HOURS, hours(0, 1, 2, 5, 7, 8))) == [part(0, 3), part(5, 6), part(7, 9)]
    assert list(stretches(HOURS, [])) == []
    assert list(stretches(HOURS, [0, HOUR, 3 * HOUR])) == [Interval(0, 2 * HOUR), Interval(3 * HOUR, 4 * HOUR)]


def test_nothing_due_is_false_and_has_no_ranges() -> None:
    nothing = Due(HOURS, ())
    assert (bool(nothing), bool(Due(HOURS, (Interval(T0, T0 + HOUR),)))) == (False, True)
    assert not nothing
    assert (nothing.count, list(nothing), list(nothing.ranges)) == (0, [], [])


def test_what_is_remembered_may_end_within_a_window() -> None:
    """Noted by other zone data: the windows that it cuts are looked at again, as a whole."""
    days = Windows(
        size_ms=DAY_MS,
        timezone="Africa/Cairo",
        start_ms=int(datetime(2023, 4, 26, 22, tzinfo=UTC).timestamp() * 1000),
        watermark_delay_ms=0,
    )
    start, end = (int(datetime(2023, 4, d, 21, tzinfo=UTC).timestamp() * 1000) for d in (28, 30))
    noted = [Interval(days.start_ms, start + HOUR), Interval(start + 3 * HOUR, start + 4 * HOUR)]
    assert unknown(days, noted, end + HOUR) == (Interval(start, end),)
    assert unknown(HOURS, [Interval(T0 + 2 * HOUR + 1, T0 + 3 * HOUR)], T0 + 3 * HOUR) == (part(0, 3),)
    assert [key.start_ms for key in due(days, unknown(days, noted, end + HOUR), ())] == [start, start + 24 * HOUR]
