"""What a plan pins of a zone, and where two hosts' zone data disagree."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pytest

from tidegate.core.base.instants import DAY_MS, HOUR_MS
from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import dumps, from_plain, loads, to_plain
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window import zonedata
from tidegate.core.window.stranded import stranded
from tidegate.core.window.zonedata import ZoneData, around, disagreement, known_here, pinned


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


DAYS = Windows(size_ms=DAY_MS, timezone="Europe/Berlin", start_ms=ms("2019-12-31T23:00"), watermark_delay_ms=HOUR_MS)
SUMMER, WINTER = ms("2020-03-29T01:00"), ms("2020-10-25T01:00")
AUGUST = ms("2020-08-01T00:00")


def berlin(until: str = "2021-01-10T00:00") -> ZoneData:
    found = pinned(DAYS, ms(until))
    assert found is not None
    return found


def test_pinned_are_the_changes_from_before_the_first_window_up_to_the_horizon() -> None:
    found = berlin()
    assert (found.first_ms, found.last_ms) == (ms("2019-12-29T00:00"), ms("2021-01-10T00:00"))
    assert (found.offset_ms, found.changes) == (HOUR_MS, ((SUMMER, 2 * HOUR_MS), (WINTER, HOUR_MS)))
    assert found.version.startswith("tzdata ")
    assert berlin("2020-03-29T00:59").changes == ()
    assert berlin("2020-03-29T01:00").changes == ((SUMMER, 2 * HOUR_MS),)
    assert [found.offset(at) // HOUR_MS for at in (SUMMER - 1, SUMMER, WINTER - 1, WINTER)] == [1, 2, 2, 1]


def test_a_first_window_that_is_still_to_come_is_pinned_too() -> None:
    found = pinned(DAYS, ms("2010-01-01T00:00"))
    assert found is not None
    assert found.first_ms == found.last_ms == ms("2019-12-29T00:00")


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "Etc/GMT+5"])
def test_where_clocks_never_change_nothing_is_pinned(zone: str) -> None:
    assert pinned(replace(DAYS, timezone=zone), AUGUST) is None
    assert disagreement(None) is None


def test_a_host_agrees_with_itself_whatever_its_release_is_called() -> None:
    found = berlin()
    assert known_here("Europe/Berlin", found.first_ms, found.last_ms) == found
    assert disagreement(replace(found, version="tzdata of another name")) is None
    assert loads(ZoneData, dumps(found)) == found
    assert from_plain(ZoneData, to_plain(found)) == found


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        (((SUMMER, 2 * HOUR_MS),), WINTER),
        ((), SUMMER),
        (((SUMMER + HOUR_MS, 2 * HOUR_MS), (WINTER, HOUR_MS)), SUMMER),
        (((SUMMER - HOUR_MS, 2 * HOUR_MS), (WINTER, HOUR_MS)), SUMMER - HOUR_MS),
        (((SUMMER, 3 * HOUR_MS), (WINTER, HOUR_MS)), SUMMER),
        (((SUMMER, 2 * HOUR_MS), (AUGUST, HOUR_MS), (AUGUST + 1000, 2 * HOUR_MS), (WINTER, HOUR_MS)), AUGUST),
    ],
)
def test_the_first_instant_at_which_offsets_differ_is_named(changes: tuple[tuple[int, int], ...], at: int) -> None:
    found = disagreement(replace(berlin(), changes=changes, version="tzdata 2019a"))
    assert found is not None
    assert found.at_ms == at
    assert "by the plan (tzdata 2019a), UTC+0" in found.text("the plan", "mine")


def test_other_zone_data_from_the_beginning_are_noticed() -> None:
    found = disagreement(replace(berlin(), offset_ms=0))
    assert found is not None
    assert found.at_ms == berlin().first_ms
    assert "UTC+00:00 by the plan" in found.text("the plan", "mine")


@pytest.mark.parametrize(
    ("offset_s", "clock"),
    [
        (0, "+00:00"),
        (-1, "-00:00:01"),
        (3208, "+00:53:28"),
        (-19_800, "-05:30"),
        (45_900, "+12:45"),
        (-59, "-00:00:59"),
    ],
)
def test_offsets_are_named_as_clocks_show_them(offset_s: int, clock: str) -> None:
    found = disagreement(replace(berlin(), offset_ms=offset_s * 1000, version=""))
    assert found is not None
    assert found.text("the plan", "this host") == (
        f"zone data of Europe/Berlin disagree from 2019-12-29T00:00Z on: UTC{clock} by the plan (unknown tzdata), "
        f"UTC+01:00 by this host ({berlin().version})"
    )


def test_changes_of_later_years_are_known_too() -> None:
    """However the years between are cut."""
    found = known_here("Europe/Berlin", ms("2019-12-29T00:00"), ms("2059-12-31T00:00"))
    assert len(found.changes) == 80
    assert {offset for _, offset in found.changes[::2]} == {2 * HOUR_MS}
    ends = [SUMMER, WINTER, ms("2020-12-31T12:00"), *(n * zonedata._YEAR_MS for n in (51, 52))]
    for last_ms in (at + step for at in ends for step in (-1, 0, 1)):
        part = known_here("Europe/Berlin", ms("2019-12-29T00:00"), last_ms)
        assert part.changes == tuple(c for c in found.changes if c[0] <= last_ms)


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"tzdata.zi": "# version 2025b\n# more\n"}, "2025b"),
        ({"+VERSION": "2024a\n"}, "2024a"),
        ({"tzdata.zi": "# version 2025b\n", "+VERSION": "2024a\n"}, "2025b"),
        ({"tzdata.zi": "\n"}, "of unknown version"),
        ({}, "of unknown version"),
    ],
)
def test_a_systems_zone_data_say_their_release(
    files: dict[str, str], version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe/Berlin").touch()
    monkeypatch.setattr("zoneinfo.TZPATH", (str(tmp_path / "none"), str(tmp_path)))
    assert zonedata.version_of.__wrapped__("Europe/Berlin") == f"tzdata {version} ({tmp_path})"
    packaged = zonedata.version_of.__wrapped__("Europe/Oslo")
    assert packaged == f"tzdata {metadata.version('tzdata')} (Python package)", "where the system has none"


def test_only_what_matters_is_compared() -> None:
    """A rule that differs in another part of time than the windows concerned is no reason to stop."""
    there = replace(berlin(), changes=((SUMMER, 2 * HOUR_MS),))
    assert disagreement(there, [Interval(0, WINTER)]) is None
    assert disagreement(there, [around(AUGUST, AUGUST + DAY_MS)]) is None
    assert disagreement(there, []) is None
    for parts in ([Interval(WINTER, WINTER + 1)], [Interval(0, 1), Interval(AUGUST, 2**62)]):
        found = disagreement(there, parts)
        assert found is not None
        assert found.at_ms == WINTER
    assert disagreement(there, [Interval(WINTER + DAY_MS, 2**62)]) is not None, "no change lies there, offsets differ"
    assert disagreement(there, [Interval(there.last_ms + 1, 2**62)]) is None, "nothing is pinned there"
    assert disagreement(replace(there, last_ms=WINTER)) is not None, "the last instant that is pinned counts"
    assert disagreement(replace(there, last_ms=WINTER - 1)) is None


def test_the_day_before_a_change_is_concerned_by_it() -> None:
    assert around(AUGUST, AUGUST + HOUR_MS) == Interval(AUGUST - DAY_MS, AUGUST + HOUR_MS + DAY_MS)
    there = replace(berlin(), changes=((SUMMER, 2 * HOUR_MS),))
    day = ms("2020-10-23T22:00")  # the 24th; the 25th has 25 hours
    assert disagreement(there, [around(day - DAY_MS, day)]) is None
    assert disagreement(there, [around(day, day + DAY_MS)]) is not None


def test_rows_that_no_run_comes_for() -> None:
    day = ms("2020-06-30T22:00")
    assert stranded("p", DAYS, day, ()) is None
    assert stranded("p", DAYS, day, [Interval(0, day), Interval(day + DAY_MS, 2**62)]) is None
    found = stranded("p", DAYS, day + HOUR_MS, ())
    assert found is not None
    assert "the schedule has no such window: by the zone data of this host (Europe/Berlin, tzdata " in found.why
    assert found.why.endswith("[2020-06-30T22:00Z, 2020-07-01T22:00Z)")
    assert (found.start_ms, found.advice != "") == (day + HOUR_MS, True)
    assert "tzdata" in found.advice
    early = stranded("p", DAYS, DAYS.start_ms - DAY_MS, ())
    assert early is not None
    assert early.start_ms == DAYS.start_ms - DAY_MS
    assert (early.why, early.advice) == (
        "it ends before windows.start", "move windows.start back to 2019-12-30T23:00Z",
    )  # fmt: skip
    forgotten = stranded("p", DAYS, day, [Interval(0, day + 1)])
    assert forgotten is not None
    assert forgotten.why == "it counts as published, but no generation of it is in force"
    assert forgotten.start_ms == day
    command = "airflow dags backfill --reset-dagruns -y p.archive -s 2020-06-30T22:00Z -e 2020-06-30T22:00Z"
    assert forgotten.advice == f"publish it: {command}"  # its run has succeeded, and a backfill leaves it so
