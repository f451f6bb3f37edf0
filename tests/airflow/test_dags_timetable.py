"""The schedule of windows: every run's data interval is one window, and windows tile time."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import airflow_home  # noqa: F401  (before airflow)
import pendulum
import pytest
from airflow.models.dag import DAG
from airflow.models.dagrun import DagRun
from airflow.serialization.serialized_objects import decode_timetable, encode_timetable
from airflow.timetables.base import DataInterval, TimeRestriction
from hypothesis import example, given
from hypothesis import strategies as st

from tests import zone_windows
from tests.world import make_pipeline
from tidegate.airflow import timetable as module
from tidegate.airflow.task import window_of
from tidegate.airflow.timetable import BackfillOnlyTimetable, WindowTimetable, from_ms, to_ms
from tidegate.core.base.errors import SpecError
from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_start

BERLIN = "Europe/Berlin"
ZONES = [BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
PIPELINE = make_pipeline("file:///lake/readings")
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
    def cpu_s(start: str, calls: int = 200) -> float:
        minutes = WindowTimetable(MINUTE_MS, BERLIN, to_ms(at(start)))
        first = DataInterval(at(start), at(start).add(minutes=1))
        began = time.thread_time()  # not the clock's: the machine may be busy
        for _ in range(calls):
            minutes.next_dagrun_info(
                last_automated_data_interval=first, restriction=TimeRestriction(at(start), None, catchup=False)
            )
        return time.thread_time() - began

    cpu_s("2013-01-01")
    few, many = cpu_s(pendulum.now("UTC").start_of("day").to_datetime_string()), cpu_s("1990-01-01")
    assert many < 20 * few, "each window since the start is walked through"


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


# ---------------------------------------------------------------- Airflow's own ways of asking


def a_dag(timetable: WindowTimetable, start_ms: int) -> DAG:
    catchup = not isinstance(timetable, BackfillOnlyTimetable)
    return DAG("ticks.archive", schedule=timetable, start_date=from_ms(start_ms), catchup=catchup)


def windows_between(spec: Windows, first_ms: int, last_ms: int) -> list[DataInterval]:
    """The core's windows that begin in `[first_ms, last_ms]`."""
    found, start = [], window_start(first_ms, spec)
    while start <= last_ms:
        end = window_end(start, spec)
        if start >= first_ms:
            found.append(DataInterval(from_ms(start), from_ms(end)))
        start = end
    return found


@pytest.mark.parametrize("kind", [WindowTimetable, BackfillOnlyTimetable])
@pytest.mark.parametrize("zone", [BERLIN, "Australia/Lord_Howe", "America/St_Johns", "Africa/Cairo", "Pacific/Apia"])
def test_every_way_of_asking_gives_the_cores_windows(
    zone: str, kind: type[WindowTimetable], rng: random.Random
) -> None:
    """Backfill, a run by hand, a cleared run and the schedule, around a change of clocks, for a drawn size."""
    size = rng.choice([15 * MINUTE_MS, 45 * MINUTE_MS, 90 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, 8 * HOUR_MS, DAY_MS])
    change = rng.choice([c for c in zone_windows.changes_of(zone) if c.at_ms > zone_windows.SINCE])
    place = rng.choice(list(zone_windows.places(zone, change, size)))
    spec, dag = place.windows, a_dag(kind.of(place.windows), place.start_ms)
    first, last = change.at_ms - 2 * DAY_MS, change.at_ms + 2 * DAY_MS
    # `airflow dags backfill -s first -e last`
    given = (pendulum.from_timestamp(ms / 1000, tz=zone) for ms in (first, last))
    backfilled = [info.data_interval for info in dag.iter_dagrun_infos_between(*given)]
    wanted = windows_between(spec, first, last)
    assert backfilled == wanted, place
    for interval in wanted:
        assert all((i.start, i.end) == (interval.start, interval.end) for i in (
            kind.of(spec).infer_manual_data_interval(run_after=pendulum.instance(interval.start)),
            kind.of(spec).infer_manual_data_interval(run_after=pendulum.instance(interval.end).subtract(microseconds=1)),
        ))  # fmt: skip
        # what Clear hands to the task again
        run = DagRun("ticks.archive", "r", execution_date=interval.start, run_type="manual", data_interval=interval)
        assert dag.get_run_data_interval(run) == interval
    following = dag.next_dagrun_info(wanted[0])
    assert (following and following.data_interval) == (wanted[1] if kind is WindowTimetable else None)


@pytest.mark.parametrize(
    ("first", "last", "count"),
    [
        ("2024-10-27T00:00", "2024-10-27T23:59", 25),
        ("2024-03-31T00:00", "2024-03-31T23:59", 23),
        ("2024-06-01T00:00", "2024-06-01T23:59", 24),
        ("2024-10-27T02:00+02:00", "2024-10-27T02:00+01:00", 2),  # both hours called 02:00
    ],
)
def test_a_backfill_of_a_local_day_has_its_hours(first: str, last: str, count: int) -> None:
    start = to_ms(at("2024-01-01", BERLIN))
    dag = a_dag(WindowTimetable(HOUR_MS, BERLIN, start), start)
    found = [i.data_interval for i in dag.iter_dagrun_infos_between(at(first, BERLIN), at(last, BERLIN))]
    assert len(found) == count
    assert all(a.end == b.start for a, b in pairwise(found))


def test_a_task_is_given_exactly_its_window() -> None:
    """`window_of` takes what the schedule gives and nothing else, on a day of 25 hours too."""
    spec = replace(
        PIPELINE,
        windows=Windows(
            size_ms=DAY_MS, timezone=BERLIN, start_ms=to_ms(at("2024-01-01", BERLIN)), watermark_delay_ms=0
        ),
    )
    interval = WindowTimetable.of(spec.windows).infer_manual_data_interval(run_after=at("2024-10-27T12:00", BERLIN))
    context = {"data_interval_start": interval.start, "data_interval_end": interval.end}
    key = window_of(spec, context)  # type: ignore[arg-type]
    assert (key.end_ms - key.start_ms) // HOUR_MS == 25
    with pytest.raises(SpecError, match="is not a window"):
        window_of(spec, context | {"data_interval_end": interval.end.subtract(hours=1)})  # type: ignore[arg-type]
