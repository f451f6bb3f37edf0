"""The schedule of windows: every run's data interval is one window, and windows tile time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import airflow_home  # noqa: F401  (before airflow)
import pendulum
import pytest
from airflow.serialization.serialized_objects import decode_timetable, encode_timetable
from airflow.timetables.base import DataInterval, TimeRestriction
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.core.layout import DAY_MS, HOUR_MS, MINUTE_MS
from tidegate.orchestration import timetable as module
from tidegate.orchestration.timetable import BackfillOnlyTimetable, WindowTimetable, from_ms, to_ms

BERLIN = "Europe/Berlin"
ZONES = [BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
START = int(datetime(2013, 1, 1, tzinfo=UTC).timestamp() * 1000)


def at(text: str, zone: str = "UTC") -> pendulum.DateTime:
    return pendulum.parse(text, tz=zone)


def hours() -> WindowTimetable:
    return WindowTimetable(HOUR_MS, "UTC", START)


def catching_up(earliest: str | None, latest: str | None = None) -> TimeRestriction:
    return TimeRestriction(earliest and at(earliest), latest and at(latest), catchup=True)


def walk(timetable: WindowTimetable, restriction: TimeRestriction, most: int = 10_000) -> list[DataInterval]:
    found: list[DataInterval] = []
    last = None
    while len(found) < most:
        info = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        if info is None:
            return found
        assert info.run_after == info.data_interval.end
        assert info.logical_date == info.data_interval.start
        last = info.data_interval
        found.append(last)
    return found


sizes = st.sampled_from([5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS])
instants = st.datetimes(datetime(2012, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))


@given(sizes, st.sampled_from(ZONES), instants)
@example(5 * MINUTE_MS, BERLIN, datetime(2012, 1, 1, 0, 0, 0, 1, tzinfo=UTC))
def test_consecutive_windows_tile_time(size_ms: int, zone: str, when: datetime) -> None:
    timetable = WindowTimetable(size_ms, zone, START)
    intervals = walk(timetable, TimeRestriction(pendulum.instance(when), None, True), most=60)
    assert intervals[0].start >= when
    assert all(a.end == b.start for a, b in pairwise(intervals))
    assert all(i.start < i.end for i in intervals)


@given(sizes, st.sampled_from(ZONES), instants)
def test_a_manual_run_means_the_window_that_holds_its_logical_date(size_ms: int, zone: str, when: datetime) -> None:
    timetable = WindowTimetable(size_ms, zone, START)
    interval = timetable.infer_manual_data_interval(run_after=pendulum.instance(when))
    assert interval.start <= when < interval.end
    # and the schedule agrees about where that window lies
    scheduled = timetable.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(interval.start, None, True)
    )
    assert scheduled is not None
    assert scheduled.data_interval == interval


@pytest.mark.parametrize(("day", "hours_long"), [("2024-03-31", 23), ("2024-10-27", 25), ("2024-06-01", 24)])
def test_local_days_have_23_24_or_25_hours(day: str, hours_long: int) -> None:
    timetable = WindowTimetable(DAY_MS, BERLIN, to_ms(at("2024-01-01", BERLIN)))
    interval = timetable.infer_manual_data_interval(run_after=at(f"{day}T12:00", BERLIN))
    assert interval.start == datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(BERLIN))
    assert interval.end - interval.start == timedelta(hours=hours_long)


def test_a_range_includes_both_ends_by_window_start() -> None:
    found = walk(hours(), catching_up("2013-01-05T00:00", "2013-01-05T03:00"))
    assert [i.start.hour for i in found] == [0, 1, 2, 3]


def test_a_range_that_begins_inside_a_window_begins_with_the_next_one() -> None:
    assert walk(hours(), catching_up("2013-01-05T00:20", "2013-01-05T01:59"))[0].start == at("2013-01-05T01:00")


def test_the_quarters_of_both_repeated_hours_are_scheduled() -> None:
    quarters = WindowTimetable(15 * MINUTE_MS, BERLIN, to_ms(at("2024-10-26", BERLIN)))
    found = walk(quarters, catching_up("2024-10-26T22:00", "2024-10-27T22:59"))
    assert len(found) == 100  # the local day of 25 hours, in quarters


def test_without_catchup_only_the_last_window_that_ended_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.timezone, "utcnow", lambda: at("2026-05-01T10:20"))
    info = hours().next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(at("2013-01-01"), None, catchup=False)
    )
    assert info is not None
    assert info.data_interval == DataInterval(at("2026-05-01T09:00"), at("2026-05-01T10:00"))


def test_after_a_change_of_size_the_schedule_goes_on_at_a_window() -> None:
    day = DataInterval(at("2013-01-05T00:20"), at("2013-01-05T00:50"))
    info = hours().next_dagrun_info(last_automated_data_interval=day, restriction=catching_up("2013-01-01"))
    assert info is not None
    assert info.data_interval.start == at("2013-01-05T00:00")


def test_the_first_run_is_not_before_the_start_date() -> None:
    assert walk(hours(), catching_up("2013-01-01T00:00"), most=1)[0].start == at("2013-01-01T00:00")
    nothing = hours().next_dagrun_info(last_automated_data_interval=None, restriction=catching_up(None))
    assert nothing is None


def test_millions_of_windows_since_the_start_cost_nothing() -> None:
    minutes = WindowTimetable(MINUTE_MS, BERLIN, to_ms(at("1990-01-01")))
    began = time.perf_counter()
    for _ in range(200):
        minutes.next_dagrun_info(
            last_automated_data_interval=DataInterval(at("1990-01-01T00:00"), at("1990-01-01T00:01")),
            restriction=TimeRestriction(at("1990-01-01"), None, catchup=False),
        )
    assert time.perf_counter() - began < 0.2


def test_the_scheduler_gets_nothing_of_a_backfill_only_schedule_and_backfill_everything() -> None:
    timetable = BackfillOnlyTimetable(HOUR_MS, "UTC", START)
    assert walk(timetable, TimeRestriction(at("2013-01-01"), None, catchup=False)) == []
    assert len(walk(timetable, catching_up("2013-01-05T00:00", "2013-01-05T23:00"))) == 24
    assert timetable.infer_manual_data_interval(run_after=at("2013-01-05T04:30")).start == at("2013-01-05T04:00")


@pytest.mark.parametrize("kind", [WindowTimetable, BackfillOnlyTimetable])
def test_it_survives_serialisation(kind: type[WindowTimetable]) -> None:
    timetable = kind(15 * MINUTE_MS, BERLIN, START)
    again = decode_timetable(encode_timetable(timetable))
    assert type(again) is kind
    assert again.serialize() == timetable.serialize()
    assert again.summary == timetable.summary


@given(st.integers(0, 4_000_000_000_000))
def test_milliseconds_survive_the_way_through_airflow(ms: int) -> None:
    assert to_ms(from_ms(ms)) == ms
