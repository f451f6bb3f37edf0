"""Paths as whole strings, and how partition values and windows are spelled."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from core_values import PIPELINE
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.base import partition_values
from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS
from tidegate.core.spec.pipeline import Windows
from tidegate.core.target.paths import Assembly, Layout, join, parse_assembly, usual_workdir
from tidegate.core.window import cut

JAN_5_4H = 1_357_358_400_000  # 2013-01-05T04:00Z
PATHS = Layout("file:///lake/t", "file:///lake/t/_tidegate")


def test_every_path_as_a_whole() -> None:
    w = "file:///lake/t/_tidegate"
    assert PATHS.plan(12, 2, "ab") == f"{w}/plans/12.2-ab.json"
    assert PATHS.attempt(12, 2, "ab") == f"{w}/tmp/12.2-ab"
    assert PATHS.replay_attempt(JAN_5_4H, 2, 1, "ab") == f"{w}/tmp/20130105T040000Z.2.1-ab"
    assert PATHS.landed(12) == f"{w}/landed/12"
    assert PATHS.high_water_mark(12) == f"{w}/hwm/12"
    assert PATHS.side_staging(12, "late") == f"{w}/side/12.late"
    assert PATHS.side(12, "dirty") == f"{w}/dirty/_batch=12"
    assert PATHS.redriven(12) == f"{w}/redriven/12"
    assert PATHS.reopened(12, JAN_5_4H) == f"{w}/reopened/12/20130105T040000Z"
    assert PATHS.rehearsal_name(JAN_5_4H, "run-7", "ab") == "20130105T040000Z.dry-run-7.ab"
    assert PATHS.assembly(JAN_5_4H, 1, 3) == f"{w}/publish/20130105T040000Z.1.3"
    assert PATHS.generation(JAN_5_4H, 2, 1) == f"{w}/generations/20130105T040000Z.2.1"
    assert PATHS.quarantine("x") == f"{w}/quarantine/x"
    time = cut.time_values(JAN_5_4H, ("date", "hour"), "UTC")
    assert PATHS.window(time) == "file:///lake/t/date=2013-01-05/hour=04"
    assert PATHS.redrive_rehearsal_name("ab") == "redrive.dry-ab"
    assert PATHS.replay_plan(JAN_5_4H, 2, 1, "ab") == f"{w}/plans/20130105T040000Z.2.1-ab.json"
    assert PATHS.merge_plan(JAN_5_4H, 2, 1, "ab") == f"{w}/plans/20130105T040000Z.2.1-ab.merge.json"
    assert PATHS.merge_attempt(JAN_5_4H, 2, 1, "ab") == f"{w}/tmp/20130105T040000Z.2.1-ab.merge"
    day = PATHS.day_name(JAN_5_4H, 2, 1, "ab")
    assert (PATHS.day_plan(day), PATHS.day_attempt(day)) == (f"{w}/plans/{day}.json", f"{w}/tmp/{day}")
    assert day == "20130105T040000Z.2.1-ab.day"
    assert (PATHS.copied("3.1-ab"), PATHS.copy_plan("3.1-ab")) == (f"{w}/copies/3.1-ab", f"{w}/copies/3.1-ab.json")
    assert (PATHS.apply("1-4.1-ab"), PATHS.apply_plan("1-4.1-ab")) == (
        f"{w}/apply/1-4.1-ab",
        f"{w}/apply/1-4.1-ab.json",
    )
    assert PATHS.failover(2) == f"{w}/failovers/2"
    assert PATHS.publication_mark(JAN_5_4H + DAY_MS, JAN_5_4H, 2, 1) == (
        f"{w}/hwm/published/2013-01-06/20130105T040000Z.2.1"
    ), "the day of the publication, and not that of the window"
    assert PATHS.success_draft(JAN_5_4H, 2) == f"{w}/publish/20130105T040000Z.2.success"
    assert PATHS.empty() == f"{w}/empty"
    assert PATHS.side_table("late") == f"{w}/late"


def test_the_work_directory_is_below_the_table_unless_the_yaml_names_another() -> None:
    assert usual_workdir("s3://lake/t/") == "s3://lake/t/_tidegate"
    elsewhere = replace(PIPELINE.sink, location="hdfs://a/t", workdir="hdfs://a/work")
    assert Layout.of(replace(PIPELINE, sink=elsewhere)) == Layout("hdfs://a/t", "hdfs://a/work")


def test_where_nothing_can_be_renamed_a_generation_is_put_together_in_its_place() -> None:
    objects = Layout("s3://lake/t", "s3://lake/t/_tidegate")
    assert (objects.in_place, PATHS.in_place) == (True, False)
    assert objects.assembly(JAN_5_4H, 1, 3) == objects.generation(JAN_5_4H, 1, 3)


def test_whose_a_file_is() -> None:
    """A generation's manifest names files of attempts and of earlier generations by their URIs."""
    w = PATHS.workdir
    written, published = f"{w}/tmp/12.2-ab/data/x", f"{w}/generations/20130105T040000Z.2.1/rows/x"
    assert PATHS.holder_of(written) == PATHS.attempt_of(written) == (f"{w}/tmp/12.2-ab", "data/x")
    assert PATHS.holder_of(published) == (f"{w}/generations/20130105T040000Z.2.1", "rows/x")
    assert PATHS.generation_of(published) == PATHS.holder_of(published)
    assert (PATHS.generation_of(written), PATHS.attempt_of(published)) == (None, None)
    assert PATHS.holder_of(f"{w}/tmp/12.2-ab") is None, "the directory itself"
    assert PATHS.holder_of(f"{w}/tmp/12.2-ab/") is None
    assert PATHS.holder_of(f"{w}/other/tmp/12.2-ab/data/x") is None


def test_a_file_that_is_named_by_its_uri_lies_there() -> None:
    assert join("file:///a/", "/b/", "c") == "file:///a/b/c"
    assert join("file:///a", "hdfs://other/x") == "hdfs://other/x"
    assert join("file:///a") == "file:///a"


def test_names_of_assemblies() -> None:
    assert parse_assembly("20130105T040000Z.2.1") == Assembly(JAN_5_4H, 2, 1)
    odd = ("20130105T040000Z.2", "20130105T040000Z.2.1.3", "20130105T040000Z.x.1", "20130105T040000Z.1.x", "today.2.1")
    for name in odd:
        assert parse_assembly(name) is None, name


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_escaped_values_come_back_and_are_single_names(value: str) -> None:
    name = partition_values.escape(value)
    assert "/" not in name and name not in ("", ".", "..")  # noqa: PT018
    assert partition_values.unescape(name) == (value or None) or value == partition_values.HIVE_NULL


def test_values_that_no_directory_can_have() -> None:
    assert partition_values.fits("a" * 247, "carrier")
    assert not partition_values.fits("a" * 248, "carrier")
    assert not partition_values.fits("é" * 124, "carrier")
    assert not partition_values.fits("a\x00b", "carrier")
    assert partition_values.fits(None, "carrier")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kolkata"])
@pytest.mark.parametrize("size", [15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS])
def test_windows_tile_a_year_and_no_two_share_a_directory(zone: str, size: int) -> None:
    local = ZoneInfo(zone)
    start = int(datetime(2026, 1, 1, tzinfo=local).timestamp() * 1000)
    spec = Windows(size_ms=size, timezone=zone, start_ms=start, watermark_delay_ms=0)
    names = ("date", "hour", "minute") if size < HOUR_MS or "Lord" in zone else ("date", "hour")
    seen: dict[object, int] = {}
    at = cut.window_start(start, spec)
    assert at == start
    while at < start + 366 * DAY_MS:
        end = cut.window_end(at, spec)
        for instant in (at, at + 1, end - 1):
            assert cut.window_start(instant, spec) == at
        values = cut.time_values(at, ("date",) if size == DAY_MS else names, zone)
        assert seen.setdefault(values, at) == at, f"{values} names two windows"
        at = end


def test_the_second_one_oclock_of_autumn_has_a_name_of_its_own() -> None:
    first = int(datetime(2026, 10, 25, 0, tzinfo=UTC).timestamp() * 1000)
    hours = [dict(cut.time_values(first + h * HOUR_MS, ("hour",), "Europe/Berlin"))["hour"] for h in range(3)]
    assert hours == ["02", "02-fold", "03"]


@pytest.mark.parametrize(
    "zone", ["America/Sao_Paulo", "Africa/Cairo", "Asia/Beirut", "America/Havana", "Europe/Berlin"]
)
def test_days_tile_where_clocks_change_at_midnight(zone: str) -> None:
    start = int(datetime(2012, 1, 1, tzinfo=ZoneInfo(zone)).timestamp() * 1000)
    spec = Windows(size_ms=DAY_MS, timezone=zone, start_ms=start, watermark_delay_ms=0)
    dates, at = set(), start
    while at < start + 3000 * DAY_MS:
        end = cut.window_end(at, spec)
        assert {cut.window_start(i, spec) for i in (at, at + HOUR_MS, end - 1)} == {at}
        (value,) = cut.time_values(at, ("date",), zone)
        assert value not in dates
        dates.add(value)
        at = end


@given(st.integers(-(10**13), 10**13))
@pytest.mark.parametrize("size", [HOUR_MS, DAY_MS])
def test_events_before_the_start_have_windows_too(size: int, event_ms: int) -> None:
    spec = Windows(size_ms=size, timezone="UTC", start_ms=JAN_5_4H, watermark_delay_ms=0)
    start = cut.window_start(event_ms, spec)
    assert start <= event_ms < cut.window_end(start, spec)


def test_the_end_of_a_day_that_is_read_twice_belongs_to_the_day_that_has_begun() -> None:
    """In St. John's clocks went from 00:01 back to 23:01 of the day before."""
    spec = Windows(size_ms=DAY_MS, timezone="America/St_Johns", start_ms=JAN_5_4H, watermark_delay_ms=0)
    midnight = int(datetime(2010, 11, 7, tzinfo=ZoneInfo("America/St_Johns")).timestamp() * 1000)
    again = midnight + MINUTE_MS
    assert datetime.fromtimestamp(again / 1000, ZoneInfo("America/St_Johns")).day == 6
    for event_ms in (midnight, again - 1, again, again + 59 * MINUTE_MS, midnight + 24 * HOUR_MS):
        assert cut.window_start(event_ms, spec) == midnight
    assert cut.window_start(midnight - 1, spec) < midnight
    assert cut.window_end(midnight, spec) == midnight + 25 * HOUR_MS


def test_window_ids_round_trip() -> None:
    assert cut.window_id(JAN_5_4H) == "20130105T040000Z"
    assert cut.parse_window_id("20130105T040000Z") == JAN_5_4H
