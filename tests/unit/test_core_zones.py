"""Windows where clocks change: a sample of what `python -m tests.zone_windows` goes over in full."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests import zone_windows
from tests.zone_windows import SINCE, SIZES, ZONES, Place, changes_of, places, problems
from tidegate.core.layout import DAY_MS, HOUR_MS, MINUTE_MS, shared_directory, time_values, window_end, window_named
from tidegate.core.pipeline import Windows
from tidegate.core.zones import changes, day_start, times_that_go_back

ODD = (
    "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/Asuncion", "America/Caracas", "America/Havana",
    "America/Moncton", "America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Asia/Beirut", "Asia/Colombo",
    "Asia/Kathmandu", "Asia/Pyongyang", "Atlantic/Azores", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Chatham",
    "Pacific/Kwajalein",
)  # fmt: skip
"""Changes by half an hour, by two hours, over midnight, over the date line; within an hour; without a rule."""


def ms(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp() * 1000)


def of(zone: str, size_ms: int, *start: int) -> Windows:
    return Windows(size_ms, zone, ms(*(start or (1975, 1, 1))), 0)


def drawn(rng: random.Random, zones: int, of_each: int) -> list[Place]:
    """Places of different zones, changes, sizes and cuts."""
    found: list[Place] = []
    for zone in rng.sample(ZONES, zones):
        since = [c for c in changes_of(zone) if c.at_ms >= SINCE]
        for _ in range(of_each if since else 0):
            found.append(rng.choice(list(places(zone, rng.choice(since), rng.choice(SIZES)))))
    return found


@pytest.mark.parametrize("zone", ODD)
def test_windows_tile_and_keep_apart_in_odd_zones(zone: str, rng: random.Random) -> None:
    wrong: list[str] = []
    for change in rng.sample(changes_of(zone), min(4, len(changes_of(zone)))):
        for size in (DAY_MS, HOUR_MS, *rng.sample(SIZES[12:], 2)):
            for place in places(zone, change, size):
                wrong += problems(place)
    assert wrong == []


def test_windows_tile_and_keep_apart_in_every_zone(rng: random.Random) -> None:
    assert [what for place in drawn(rng, 20, 10) for what in problems(place)] == []


def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colombo's two hours are refused by the spec; were they not, the same check would find them."""
    change = next(c for c in changes_of("Asia/Colombo") if c.at_ms > ms(2006, 1, 1))
    monkeypatch.setattr(zone_windows, "shared_directory", lambda *_: None)
    (what,) = problems(Place("Asia/Colombo", HOUR_MS, ms(2000, 1, 1), change.at_ms, change.back_ms))[:1]
    assert "date=2006-04-15/hour=00 is the directory of" in what


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
    assert window_end(begins, windows) == ends
    assert problems(Place("America/St_Johns", DAY_MS, windows.start_ms, ms(2010, 11, 7, 2, 31), HOUR_MS)) == []


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


@pytest.mark.parametrize("text", ["2024-13-01", "yesterday", ""])
def test_what_is_no_date_names_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        window_named((("date", text),), of("UTC", DAY_MS))


def test_quarters_tell_apart_what_hours_cannot() -> None:
    colombo = of("Asia/Colombo", HOUR_MS, 2000, 1, 1)
    assert shared_directory(colombo, ("date", "hour")) == (ms(2006, 4, 14, 18), ms(2006, 4, 14, 19))
    assert shared_directory(of("Asia/Colombo", HOUR_MS, 2006, 4, 14, 19), ("date", "hour")) is None
    assert shared_directory(colombo, ("date", "hour", "minute")) is None
    assert shared_directory(of("Asia/Colombo", 2 * HOUR_MS), ("date", "hour")) is None
    assert shared_directory(of("Asia/Colombo", 15 * MINUTE_MS), ("date", "hour", "minute")) is None
