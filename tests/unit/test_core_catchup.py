"""Which windows one process publishes one after the other, and what it says meanwhile."""

from __future__ import annotations

import pytest

from tidegate.core import catchup as rules
from tidegate.core.catchup import Tally
from tidegate.core.errors import AskedWrong
from tidegate.core.layout import HOUR_MS
from tidegate.core.offsets import Interval
from tidegate.core.window import WindowKey


def hours(*numbers: int) -> list[WindowKey]:
    return [WindowKey(n * HOUR_MS, (n + 1) * HOUR_MS) for n in numbers]


def test_few_windows_get_runs_of_their_own() -> None:
    assert not rules.worth_it([])
    assert not rules.worth_it(hours(*range(rules.FEWEST - 1)))
    assert rules.worth_it(hours(*range(rules.FEWEST)))


def test_a_range_that_somebody_asked_for_is_caught_up_with_to_its_last_window() -> None:
    part = Interval(5 * HOUR_MS, 7 * HOUR_MS)
    assert rules.worth_it(hours(6), part)
    assert not rules.worth_it(hours(4, 7), part)


def test_oldest_first_and_what_was_asked_for_before_all_others() -> None:
    assert rules.in_turn(hours(3, 1, 2)) == hours(1, 2, 3)
    assert rules.in_turn(hours(*range(9)), Interval(5 * HOUR_MS, 7 * HOUR_MS), 4) == hours(5, 6, 0, 1)
    assert len(rules.in_turn(hours(*range(500)))) == rules.MOST


def test_the_conf_of_a_run_names_a_part_of_time() -> None:
    part = Interval(5 * HOUR_MS, 7 * HOUR_MS)
    assert rules.asked_part(rules.conf_of(part)) == part
    for conf in (None, {}, rules.conf_of(None), {"why": "by hand"}, 7):
        assert rules.asked_part(conf) is None


@pytest.mark.parametrize(
    "conf", [{"from": "2013-01-05"}, {"from": 7, "until": "2013-01-05"}, {"from": "2013-01-06", "until": "2013-01-05"}]
)
def test_a_conf_that_names_no_part_is_refused(conf: object) -> None:
    with pytest.raises(AskedWrong):
        rules.asked_part(conf)


@pytest.mark.parametrize(
    ("tally", "seconds", "words"),
    [
        (Tally(1450, 640), 295.4, "1,450 windows: 640 published, 130 a minute, about 6 minutes left"),
        (Tally(1450, 1450), 60, "1,450 windows: 1,450 published, 24 a second"),
        (Tally(30, 1), 240, "30 windows: 1 published, 15 an hour, about 116 minutes left"),
        (Tally(30, 10, 3, 2), 10, "30 windows: 10 published, 3 wait for a batch to land, 2 left to runs of their own, "
         "60 a minute, about a minute left"),
        (Tally(30), 10, "30 windows: 0 published"),
    ],
)  # fmt: skip
def test_progress_in_words(tally: Tally, seconds: float, words: str) -> None:
    assert tally.words(seconds) == words
