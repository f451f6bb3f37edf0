"""A database is asked for no more rows a second than `copy.rate` says."""

from __future__ import annotations

import pytest

from tidegate.databases import pace


class Clock:
    now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pace, "time", made)
    return made


def test_rows_come_no_faster_than_the_rate(clock: Clock) -> None:
    began = clock.now
    assert list(pace.paced(iter([b"12345", b"12345", b"12345"]), 10)) == [b"12345"] * 3
    assert clock.now - began == 1.5


def test_an_hour_in_which_nothing_was_asked_is_not_made_up_for(clock: Clock) -> None:
    """The mirror is summed between the two passes over the source."""
    mine = pace.Rate(10)
    mine.took(10)
    clock.now += 3_600
    began = clock.now
    for _ in range(6):
        mine.took(10)
    assert clock.now - began == 5, "the first may have been asked for in that time"


def test_without_a_rate_nobody_waits(clock: Clock) -> None:
    began = clock.now
    pace.Rate(None).took(10**9)
    assert clock.now == began
