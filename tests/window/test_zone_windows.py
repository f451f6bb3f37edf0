"""Windows where clocks change: a sample of what `python -m tests.zone_windows` goes over in full."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from tests import zone_windows
from tests.zone_windows import SINCE, SIZES, ZONES, Place, changes_of, places, problems
from tidegate.core.base.instants import DAY_MS, HOUR_MS
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end

ODD = (
    "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/Asuncion", "America/Caracas", "America/Havana",
    "America/Moncton", "America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Asia/Beirut", "Asia/Colombo",
    "Asia/Kathmandu", "Asia/Pyongyang", "Atlantic/Azores", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Chatham",
    "Pacific/Kwajalein",
)  # fmt: skip
"""Changes by half an hour, by two hours, over midnight, over the date line; within an hour; without a rule."""


def ms(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp() * 1000)


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
    assert [what for place in drawn(rng, 12, 12) for what in problems(place)] == []


def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colombo's two hours are refused by the spec; were they not, the same check would find them."""
    change = next(c for c in changes_of("Asia/Colombo") if c.at_ms > ms(2006, 1, 1))
    monkeypatch.setattr(zone_windows, "shared_directory", lambda *_: None)
    (what,) = problems(Place("Asia/Colombo", HOUR_MS, ms(2000, 1, 1), change.at_ms, change.back_ms))[:1]
    assert "date=2006-04-15/hour=00 is the directory of" in what


def test_an_evening_that_comes_twice_belongs_to_the_day_that_has_begun() -> None:
    windows = Windows(size_ms=DAY_MS, timezone="America/St_Johns", start_ms=ms(1975, 1, 1, 3, 30), watermark_delay_ms=0)
    begins, ends = ms(2010, 11, 7, 2, 30), ms(2010, 11, 8, 3, 30)
    assert window_end(begins, windows) == ends
    assert problems(Place("America/St_Johns", DAY_MS, windows.start_ms, ms(2010, 11, 7, 2, 31), HOUR_MS)) == []
