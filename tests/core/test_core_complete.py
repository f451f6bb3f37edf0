"""How far a table is complete, and which days that ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tidegate.core.base.instants import DAY_MS, HOUR_MS
from tidegate.core.publish.complete import MOST, Run, days_ended, through
from tidegate.core.spec.pipeline import Windows

HOURS = Windows(size_ms=HOUR_MS, timezone="UTC", start_ms=0, watermark_delay_ms=0)
BERLIN = Windows(size_ms=DAY_MS, timezone="Europe/Berlin", start_ms=0, watermark_delay_ms=0)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("before", "stand", "expected"),
    [
        (None, (), 0),
        (None, (0, 1, 2), 3),
        (None, (1, 2), 0),
        (2, (0, 1), 2),
        (2, (2, 3, 5), 4),
    ],
)
def test_the_run_ends_at_the_first_window_that_is_missing(
    before: int | None, stand: tuple[int, ...], expected: int
) -> None:
    said = None if before is None else Run(before * HOUR_MS)
    assert through(HOURS, said, lambda start: start // HOUR_MS in stand) == expected * HOUR_MS


def test_one_commit_looks_at_a_bounded_number_of_windows() -> None:
    first = through(HOURS, None, lambda start: True)
    assert first == MOST * HOUR_MS
    assert through(HOURS, Run(first, 0), lambda start: True) == 2 * first


@pytest.mark.parametrize(("stand", "expected"), [((), -2), ((-2,), -1), ((-2, -1), 5), ((-2, -1, 5), 6)])
def test_a_start_that_moved_back_is_counted_first(stand: tuple[int, ...], expected: int) -> None:
    """Hours 0 to 4 were said by a spec that began at hour 0; the one of today begins two hours earlier."""
    earlier = replace(HOURS, start_ms=-2 * HOUR_MS)
    found = through(earlier, Run(5 * HOUR_MS, 0), lambda start: start // HOUR_MS in stand)
    assert found == expected * HOUR_MS
    assert through(earlier, Run(5 * HOUR_MS), lambda start: False) == 5 * HOUR_MS  # said by a release before


def test_windows_of_local_days_are_followed_over_a_change_of_clocks() -> None:
    begin, end = at("2026-10-23T22:00"), at("2026-10-26T23:00")
    assert through(BERLIN, Run(begin), lambda start: start < end) == end


def test_days_end_once_in_the_pipelines_zone() -> None:
    zone = Windows(size_ms=HOUR_MS, timezone="Europe/Berlin", start_ms=at("2026-03-28T05:00"), watermark_delay_ms=0)
    day = at("2026-03-27T23:00"), at("2026-03-28T23:00"), at("2026-03-29T22:00")
    assert days_ended(zone, None, zone.start_ms, 30) == ()
    assert days_ended(zone, day[1] - 1, day[1], 30) == (day[0],)  # the first day, though it began in the middle
    assert days_ended(zone, day[1], day[2] - 1, 30) == ()
    assert days_ended(zone, day[1] - 1, day[2], 30) == (day[0], day[1])
    assert days_ended(zone, day[1] - 1, day[2], 1) == (day[1],)
    assert days_ended(zone, None, day[2] + HOUR_MS, 30) == (day[1],)
