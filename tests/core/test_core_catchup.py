"""Which windows one process publishes one after the other, and what it says meanwhile."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tidegate.core.base.errors import AskedWrong
from tidegate.core.base.instants import HOUR_MS
from tidegate.core.base.offsets import Interval
from tidegate.core.publish import catchup as rules
from tidegate.core.publish.catchup import Tally
from tidegate.core.window.states import WindowKey


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


def test_a_run_that_goes_on_ends_what_was_begun_however_little_is_left() -> None:
    following = rules.next_run(hours(6)[0])
    assert following == "catch_up_from_1970-01-01T06:00Z"
    assert rules.worth_it(hours(6), None, following)
    assert not rules.worth_it([], None, following)
    assert not rules.worth_it(hours(6), None, "scheduled__1970-01-01T06:00:00+00:00")


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


def test_what_is_wrong_with_a_conf_is_named() -> None:
    for conf, words, advice in (
        ({"from": "x", "until": "2013-01-05"}, "^`from` is no instant", AskedWrong.advice),
        ({"from": "2013-01-05", "until": "x"}, "^`until` is no instant", AskedWrong.advice),
        ({"from": "2013-01-05", "until": "2013-01-05"}, "`from` is not before", "trigger it with the first one first"),
    ):
        with pytest.raises(AskedWrong, match=words) as wrong:
            rules.asked_part(conf)
        assert wrong.value.advice == advice


@pytest.mark.parametrize(
    ("tally", "seconds", "words"),
    [
        (Tally(1450, 640), 295.4, "1,450 windows: 640 published, 130 a minute, about 6 minutes left; goes on in the "
         "next run"),
        (Tally(200, 100), 100, "200 windows: 100 published, 60 a minute, about 2 minutes left"),
        (Tally(201, 100), 100, "201 windows: 100 published, 60 a minute, about 2 minutes left; goes on in the next "
         "run"),
        (Tally(200, 100), 170, "200 windows: 100 published, 35 a minute, about 3 minutes left; goes on in the next "
         "run"),
        (Tally(1450, 1450), 60, "1,450 windows: 1,450 published, 24 a second"),
        (Tally(30, 1), 240, "30 windows: 1 published, 15 an hour, about 116 minutes left; goes on in the next run"),
        (Tally(30, 10, 3, 2), 10, "30 windows: 10 published, 3 wait for a batch to land, 2 left to runs of their own, "
         "60 a minute, about a minute left"),
    ],
)  # fmt: skip
def test_progress_in_words(tally: Tally, seconds: float, words: str) -> None:
    assert rules.Progress(tally, 1000.0, min(tally.ready, rules.MOST)).line(1000.0 + seconds) == words


def told(seconds_each: float, most: int = 200) -> list[tuple[float, str]]:
    """What a run of windows says that take so long each, and when."""
    tally, now, lines = Tally(most), 0.0, []
    progress = rules.Progress(tally, 0.0, most)
    for _ in range(most):
        now, tally.published = now + seconds_each, tally.published + 1
        if line := progress.line(now):
            lines.append((now, line))
    return lines


@pytest.mark.parametrize("seconds_each", [0.01, 1.3, 7.0, 12.0, 20.0])
def test_lines_come_by_time_the_first_after_the_first_window(seconds_each: float) -> None:
    at = [when for when, _ in told(seconds_each)]
    assert at[0] == seconds_each
    assert all(10 <= b - a <= 30 for a, b in pairwise(at))
    assert (len(at) == 1) == (seconds_each * 200 < 10)


def test_the_pace_is_that_of_the_last_minutes() -> None:
    tally = Tally(100)
    progress, lines = rules.Progress(tally, 0.0, 100), list[str]()
    for n in range(1, 91):  # the first forty take three seconds each, the others one
        tally.published = n
        lines.append(progress.line(3.0 * n if n <= 40 else 120.0 + n - 40))
    assert [line.partition(" published, ")[2] for line in lines[:40] if line][-1] == "20 a minute, about 3 minutes left"
    assert progress.last(170.0).startswith("100 windows: 90 published, 36 a minute, about a minute left")


def test_what_is_left_at_the_end_goes_on_where_anything_was_published() -> None:
    assert rules.Progress(Tally(9, 5), 0.0, 9).last(60.0).endswith("left; goes on in the next run")
    assert rules.Progress(Tally(901, 900), 0.0, 901).last(600.0).endswith("left; goes on in the next run"), (
        "however soon"
    )
    assert rules.Progress(Tally(9, 9), 0.0, 9).last(60.0) == "9 windows: 9 published, 9 a minute"
    assert rules.Progress(Tally(9, 0, 9), 0.0, 9).last(60.0) == "9 windows: 0 published, 9 wait for a batch to land"


@pytest.mark.parametrize(
    ("published", "remain", "seconds", "words"),
    [
        (0, 9, 60.0, ""),
        (9, 9, 0.0, ""),
        (9, 0, 0.5, ", 18 a second"),
        (600, 0, 60.0, ", 10 a second"),
        (599, 0, 60.0, ", 599 a minute"),
        (6000, 0, 60.0, ", 100 a second"),
        (1, 0, 60.0, ", 1 a minute"),
        (1, 0, 120.0, ", 30 an hour"),
        (59, 0, 3600.0, ", 59 an hour"),
        (60, 50, 60.0, ", 60 a minute, about a minute left"),
        (60, 60, 60.0, ", 60 a minute, about 1 minute left"),
        (60, 119 * 60, 60.0, ", 60 a minute, about 119 minutes left"),
        (60, 120 * 60, 60.0, ", 60 a minute, about 2 hours left"),
        (60, 150 * 60, 60.0, ", 60 a minute, about 2 hours left"),
        (60, 60 * 60 * 7, 60.0, ", 60 a minute, about 7 hours left"),
        (60, 60 * 60 * 50, 60.0, ", 60 a minute, about 50 hours left"),
    ],
)
def test_a_pace_in_words(published: int, remain: int, seconds: float, words: str) -> None:
    assert rules.pace(published, remain, seconds) == words


def test_a_line_comes_every_so_often() -> None:
    tally = Tally(100)
    progress = rules.Progress(tally, 0.0, 100)
    assert progress.line(1.0) == "", "nothing was looked at yet"
    tally.published = 1
    assert progress.line(2.0) != ""
    assert progress.line(2.0 + rules.SAY_S - 0.1) == ""
    assert progress.line(2.0 + rules.SAY_S) != ""


def test_what_is_older_than_the_pace_is_forgotten() -> None:
    progress = rules.Progress(Tally(1000), 0.0, 1000)
    for seconds, published in ((10.0, 10), (20.0, 40)):
        progress.tally.published = published
        progress.line(seconds)
    progress.tally.published = 130
    assert f", {(130 - 10) // 2} a minute" in progress.last(10.0 + rules.PACE_S)
    assert f", {(130 - 40) // 2} a minute" in progress.last(20.0 + rules.PACE_S)
