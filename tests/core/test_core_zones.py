"""Local days, changes of clocks, and which window a directory names."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS
from tidegate.core.base.zones import Change, changes, day_start, offset_at, times_that_go_back
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import shared_directory, time_values, window_end, window_named, window_start


def ms(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp() * 1000)


def of(zone: str, size_ms: int, *start: int) -> Windows:
    return Windows(size_ms=size_ms, timezone=zone, start_ms=ms(*(start or (1975, 1, 1))), watermark_delay_ms=0)


@pytest.mark.parametrize(
    ("zone", "first", "begins"),
    [
        ("America/St_Johns", date(2010, 11, 7), (2010, 11, 7, 2, 30)),  # at 00:01 clocks read 23:01 of the 6th again
        ("America/Sao_Paulo", date(2018, 11, 4), (2018, 11, 4, 3)),  # no midnight: 00:00 became 01:00
        ("America/Havana", date(2024, 11, 3), (2024, 11, 3, 4)),  # midnight comes twice: the first
        ("America/Toronto", date(1919, 3, 31), (1919, 3, 31, 4, 30)),  # 23:30 became 00:30
        ("Pacific/Apia", date(2011, 12, 30), (2011, 12, 30, 10)),  # no such day
        ("Pacific/Apia", date(2011, 12, 31), (2011, 12, 30, 10)),
    ],
)
def test_a_day_begins_when_clocks_first_read_it(zone: str, first: date, begins: tuple[int, ...]) -> None:
    start = day_start(first, ZoneInfo(zone))
    assert start == ms(*begins)
    local = ZoneInfo(zone)
    assert datetime.fromtimestamp(start / 1000, local).date() >= first
    assert datetime.fromtimestamp(start / 1000 - 1, local).date() < first


def test_an_evening_that_comes_twice_belongs_to_the_day_that_has_begun() -> None:
    windows = of("America/St_Johns", DAY_MS)
    begins, ends = ms(2010, 11, 7, 2, 30), ms(2010, 11, 8, 3, 30)
    assert (window_start(begins - 1, windows), window_end(ms(2010, 11, 6, 2, 30), windows)) == (
        ms(2010, 11, 6, 2, 30),
        begins,
    )
    assert {window_start(at, windows) for at in (begins, begins + 60_000, begins + HOUR_MS, ends - 1)} == {begins}
    assert window_end(begins, windows) == ends


@pytest.mark.parametrize(("day", "hours"), [((2024, 3, 31), 23), ((2024, 10, 27), 25), ((2024, 6, 1), 24)])
def test_days_of_23_24_and_25_hours(day: tuple[int, int, int], hours: int) -> None:
    start = day_start(date(*day), ZoneInfo("Europe/Berlin"))
    assert window_end(start, of("Europe/Berlin", DAY_MS)) - start == hours * HOUR_MS


def test_changes_are_those_that_hour_by_hour_shows() -> None:
    zone, first, last = "Africa/Cairo", ms(2010, 1, 1), ms(2015, 1, 1)  # four changes in some years
    local = ZoneInfo(zone)
    offsets = [datetime.fromtimestamp(t / 1000, local).utcoffset() for t in range(first, last + 1, HOUR_MS)]
    seen = [first + (i + 1) * HOUR_MS for i in range(len(offsets) - 1) if offsets[i] != offsets[i + 1]]
    found = list(changes(zone, first, last))
    assert [c.at_ms for c in found] == seen
    assert all(timedelta(milliseconds=c.after_ms) == offsets[(c.at_ms - first) // HOUR_MS] for c in found)
    assert times_that_go_back(zone, first)[: len(seen) // 2] == tuple(c for c in found if c.back_ms > 0)


@pytest.mark.parametrize(
    ("values", "start"),
    [
        ({"date": "2026-10-25", "hour": "02"}, (2026, 10, 25, 0)),
        ({"date": "2026-10-25", "hour": "02-fold"}, (2026, 10, 25, 1)),
        ({"date": "2026-10-25", "hour": "03"}, (2026, 10, 25, 2)),
        ({"date": "2026-03-29", "hour": "02"}, None),  # no such hour
        ({"date": "2026-03-29", "hour": "02-fold"}, None),
    ],
)
def test_a_directory_names_its_window(values: dict[str, str], start: tuple[int, ...] | None) -> None:
    assert window_named(tuple(values.items()), of("Europe/Berlin", HOUR_MS)) == (start and ms(*start))


def test_a_window_is_found_by_its_hour_wherever_in_the_hour_it_begins() -> None:
    windows = of("Australia/Lord_Howe", HOUR_MS, 2024, 1, 1, 13)  # at full hours in summer, at half hours in winter
    values = time_values(ms(2024, 7, 1, 3), ("date", "hour"), "Australia/Lord_Howe")
    assert values == (("date", "2024-07-01"), ("hour", "13"))
    assert window_named(values, windows) == ms(2024, 7, 1, 3)


def test_an_hour_that_is_read_again_two_hours_later_is_found() -> None:
    windows = of("Antarctica/Troll", HOUR_MS)
    found = {h: dict(time_values(ms(2024, 10, 27, h), ("date", "hour"), "Antarctica/Troll")) for h in range(4)}
    assert [found[h]["hour"] for h in range(4)] == ["02", "01-fold", "02-fold", "03"]
    for hour, values in found.items():
        assert window_named(tuple(values.items()), windows) == ms(2024, 10, 27, hour)


def test_a_directory_names_a_quarter_by_its_minute() -> None:
    windows = of("Europe/Berlin", 15 * MINUTE_MS)
    for minutes in range(0, 180, 15):
        start = ms(2026, 10, 25) + minutes * MINUTE_MS
        values = time_values(start, ("date", "hour", "minute"), "Europe/Berlin")
        assert window_named(values, windows) == start
    assert window_named((("date", "2026-10-25"), ("hour", "05"), ("minute", "07")), windows) is None


@pytest.mark.parametrize("text", ["2024-13-01", "yesterday", ""])
def test_what_is_no_date_names_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        window_named((("date", text),), of("UTC", DAY_MS))


def test_an_hour_alone_names_nothing() -> None:
    with pytest.raises(ValueError, match="0000000000T05:00"):
        window_named((("hour", "05"),), of("UTC", HOUR_MS))


def test_quarters_tell_apart_what_hours_cannot() -> None:
    colombo = of("Asia/Colombo", HOUR_MS, 2000, 1, 1)
    assert shared_directory(colombo, ("date", "hour")) == (ms(2006, 4, 14, 18), ms(2006, 4, 14, 19))
    assert shared_directory(of("Asia/Colombo", HOUR_MS, 2006, 4, 14, 19), ("date", "hour")) is None
    assert shared_directory(colombo, ("date", "hour", "minute")) is None
    assert shared_directory(of("Asia/Colombo", 2 * HOUR_MS), ("date", "hour")) is None
    assert shared_directory(of("Asia/Colombo", 15 * MINUTE_MS), ("date", "hour", "minute")) is None
    goose_bay = of("America/Goose_Bay", 90 * MINUTE_MS, 1971, 1, 2)  # at full hours for years, then at 00:01
    assert shared_directory(goose_bay, ("date", "hour")) == (ms(1987, 10, 25, 3), ms(1987, 10, 25, 3) + 90 * MINUTE_MS)


@pytest.mark.parametrize("before_s", [1, 2, 3, 5, 3600, 86_400])
def test_a_change_of_clocks_is_known_to_the_second(before_s: int) -> None:
    spring = ms(2024, 3, 31, 1)
    assert [offset_at("Europe/Berlin", at) for at in (spring - 1, spring, spring + 1)] == [
        HOUR_MS, 2 * HOUR_MS, 2 * HOUR_MS,
    ]  # fmt: skip
    first, change = spring - before_s * 1000, Change(spring, HOUR_MS, 2 * HOUR_MS)
    assert list(changes("Europe/Berlin", first, spring + 2000)) == [change]
    assert list(changes("Europe/Berlin", first, spring)) == [change], "up to the end, and with it"
    assert list(changes("Europe/Berlin", first, spring - 1000)) == []
    assert list(changes("Europe/Berlin", spring, spring + before_s * 1000)) == [], "not from the beginning on"
