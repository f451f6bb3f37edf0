"""The demo's producer: order, event time, keys."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from dev.demo import flights

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    return flights.read_january()


def row(**changed: str) -> dict[str, str]:
    base = {
        "year": "2013", "month": "1", "day": "1", "dep_time": "517", "sched_dep_time": "515", "dep_delay": "2",
        "arr_time": "830", "sched_arr_time": "819", "arr_delay": "11", "carrier": "UA", "flight": "1545",
        "tailnum": "N14228", "origin": "EWR", "dest": "IAH", "air_time": "227", "distance": "1400",
    }  # fmt: skip
    return base | changed


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def test_a_flight_is_reported_when_it_has_landed():
    one = flights.report(row())
    assert one.departed_ms == ms("2013-01-01T10:17:00Z")
    assert one.reported_ms == ms("2013-01-01T14:04:00Z")
    assert one.key == "N14228"
    assert one.event["air"] == {"minutes": 227, "miles": 1400}
    assert json.loads(json.dumps(one.event)) == one.event


def test_a_departure_after_midnight_belongs_to_the_next_day():
    one = flights.report(row(sched_dep_time="2359", dep_time="41", dep_delay="42"))
    assert one.departed_ms == ms("2013-01-02T05:41:00Z")


def test_a_cancelled_flight_is_reported_at_its_scheduled_time_and_may_have_no_key():
    nothing = dict.fromkeys(("dep_time", "dep_delay", "arr_time", "arr_delay", "tailnum", "air_time"), "NA")
    one = flights.report(row(**nothing))
    assert one.event["cancelled"]
    assert one.departed_ms == one.reported_ms == ms("2013-01-01T10:15:00Z")
    assert one.key is None
    assert one.event["delays"] == {"dep": None, "arr": None}


def test_a_diverted_flight_is_reported_when_it_leaves():
    one = flights.report(row(air_time="NA", arr_time="NA", arr_delay="NA"))
    assert not one.event["cancelled"]
    assert one.reported_ms == one.departed_ms == ms("2013-01-01T10:17:00Z")


def test_every_scheduled_hour_agrees_with_the_one_that_the_csv_gives_in_utc(rows):
    for r in rows:
        scheduled = datetime.fromisoformat(r["time_hour"]) + timedelta(minutes=int(r["minute"]))
        departed = scheduled + timedelta(minutes=int(r["dep_delay"].replace("NA", "0")))
        assert flights.report(r).departed_ms == int(departed.timestamp() * 1000), r


def test_january_in_order_of_reporting(rows):
    told = flights.reports(rows)
    assert len(told) == flights.JANUARY_FLIGHTS == 27_004
    assert [r.reported_ms for r in told] == sorted(r.reported_ms for r in told)
    assert sum(r.key is None for r in told) == 155
    honolulu = [r for r in told if r.event["dest"] == "HNL" and not r.event["cancelled"]]
    assert min(r.reported_ms - r.departed_ms for r in honolulu) > 9 * HOUR_MS
    assert datetime.fromtimestamp(told[-1].reported_ms / 1000, UTC) == datetime(2013, 2, 1, 8, 30, tzinfo=UTC)


def test_a_package_without_its_csv_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(flights.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(flights.DemoInputError, match="make setup"):
        flights.csv_archive()
