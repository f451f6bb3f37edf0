"""The calendar's geometry: sizes of windows, zones, changes of clocks. States of windows: test_core_windowmap.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.world import HOUR, make_pipeline
from tidegate.board.pages.calendar import DAY, MONTH, YEAR, Calendar, calendar, period_of
from tidegate.core.look import window_map
from tidegate.core.look.glance import Mark
from tidegate.core.look.window_map import MEANINGS, Judge
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

MINUTE = 60_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def pipeline(size_ms: int = HOUR, zone: str = "UTC", start: str = "2025-01-01T00:00") -> Pipeline:
    made = make_pipeline("file:///lake")
    spec = replace(made.windows, size_ms=size_ms, timezone=zone, start_ms=ms(start), watermark_delay_ms=0)
    return replace(made, windows=spec)


def facts(*events: int) -> TopicFacts:
    """One Kafka partition for each newest event."""
    parts = tuple(
        PartitionFacts(partition=p, max_event_ms=at, drained=False, advanced_ms=at + HOUR)
        for p, at in enumerate(events)
    )
    return TopicFacts(7, max(events) + HOUR, parts)


def shown(p: Pipeline, name: str | None, now: str = "2025-12-31T23:59", marks: tuple[Mark, ...] = ()) -> Calendar:
    now_ms = ms(now)
    judge = Judge(p, facts(now_ms), None, now_ms)
    return calendar(p.windows, period_of(p.windows, name, now_ms), marks, judge, now_ms)


def starts(found: Calendar) -> list[int]:
    return [cell.start_ms for row in found.rows for cell in row.cells if cell is not None]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/Havana"])
@pytest.mark.parametrize("size", [HOUR, 15 * MINUTE, 3 * HOUR, 7 * HOUR])
@pytest.mark.parametrize("month", ["2025-03", "2025-04", "2025-10", "2025-11"])
def test_every_window_of_a_month_has_one_cell(zone: str, size: int, month: str) -> None:
    p = pipeline(size, zone)
    found = shown(p, month)
    within = found.period.interval
    start, expected = window_start(within.start, p.windows), []
    while start < within.end:
        expected += [start] if start >= within.start else []
        start = window_end(start, p.windows)
    assert found.period.kind == MONTH
    assert starts(found) == expected
    assert len({len(row.cells) for row in found.rows}) == 1
    assert len(found.rows[0].cells) == len(found.columns)


def test_where_clocks_go_back_the_second_hour_has_a_column_of_its_own() -> None:
    found = shown(pipeline(zone="Europe/Berlin"), "2025-10")
    assert found.columns[:5] == ("00", "01", "02", "02²", "03")
    assert [row.label for row in found.rows if row.cells[3] is not None] == ["Sun 26"]


def test_where_clocks_go_forward_an_hour_is_missing() -> None:
    found = shown(pipeline(zone="Europe/Berlin"), "2025-03")
    last_sunday = next(row for row in found.rows if row.label == "Sun 30")
    assert [n for n, cell in enumerate(last_sunday.cells) if cell is None] == [2]
    assert last_sunday.weekend


def test_cells_say_both_times() -> None:
    found = shown(pipeline(zone="Europe/Berlin"), "2025-07")
    cell = found.rows[0].cells[0]
    assert cell is not None
    assert cell.text.startswith("2025-06-30 22:00 UTC (2025-07-01 00:00 CEST): ")


def test_days_are_a_year_and_minutes_a_day() -> None:
    days = shown(pipeline(24 * HOUR, "Europe/Berlin"), "2025")
    assert days.period.kind == YEAR
    assert len(days.rows) == 12
    assert len(starts(days)) == 365
    minutes = shown(pipeline(MINUTE, "Europe/Berlin"), "2025-10-26")
    assert minutes.period.kind == DAY
    assert len(starts(minutes)) == 25 * 60
    assert [row.label for row in minutes.rows][2:4] == ["02", "02 again"]


def test_zones_by_half_hours_have_half_hours_in_their_heads() -> None:
    found = shown(pipeline(zone="Asia/Kolkata"), "2025-05")
    assert found.columns[0] == "00:30"
    assert len(found.columns) == 24


def test_only_what_has_begun_is_there() -> None:
    found = shown(pipeline(start="2025-06-10T05:00"), "2025-06", now="2025-06-12T03:30")
    assert [row.label for row in found.rows] == ["Tue 10", "Wed 11", "Thu 12"]
    assert starts(found)[0] == ms("2025-06-10T05:00")
    assert starts(found)[-1] == ms("2025-06-12T03:00")
    assert (found.previous, found.next) == (None, None)


def test_a_window_before_the_start_is_there_once_the_ledger_knows_it() -> None:
    mark = Mark(start_ms=ms("2025-06-08T01:00"), state="CLOSED", number=1, kind="archive", rows=0)
    found = shown(pipeline(start="2025-06-10T05:00"), "2025-06", now="2025-06-10T05:30", marks=(mark,))
    assert starts(found)[0] == mark.start_ms
    assert found.rows[0].cells[1].sign == "0"


def test_periods_to_go_to() -> None:
    found = shown(pipeline(), "2025-06")
    assert (found.previous, found.next) == ("2025-05", "2025-07")
    assert found.choices == tuple(f"2025-{n:02d}" for n in range(12, 0, -1))
    assert shown(pipeline(), "2025-01").previous is None
    assert shown(pipeline(), "2025-12").next is None


@pytest.mark.parametrize("name", ["2025-13", "x", "", None, "<script>", "9999-99", "0001-01", "9999-12"])
def test_what_is_no_period_is_the_present_one(name: str | None) -> None:
    assert shown(pipeline(), name).period.value == "2025-12"


def test_every_state_says_what_it_means_and_what_to_do() -> None:
    from tidegate.board.pages.calendar import SIGNS

    assert set(SIGNS) == set(MEANINGS)
    assert all(m.means and m.todo for m in MEANINGS.values())
    loud = [SIGNS[s] for s in MEANINGS if s not in (window_map.PUBLISHED, window_map.OPEN)]
    assert len(set(loud)) == len(loud), "a sign besides the colour, another for each state"
