"""Windows that are due, for people: since when, why nothing comes, and the command that fills them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.base.instants import DAY_MS
from tidegate.core.base.offsets import Interval
from tidegate.core.look import overdue
from tidegate.core.look.overdue import MAINTAINED_MS, PUBLISHING, Concern, Since
from tidegate.core.window.due import ArchiveNote, Due
from tidegate.core.window.states import ARCHIVE, HEAL, REPLAY, WindowKey

SLA = 2 * HOUR
SPEC = replace(PIPELINE, name="p", archive=replace(PIPELINE.archive, sla_ms=SLA))
NOW = T0 + 100 * HOUR
NOTE = ArchiveNote(paused=False, noted_ms=NOW - MAINTAINED_MS)
LONG_AGO = Since(NOW - SLA - 1)


def due(*parts: tuple[int, int]) -> Due:
    return Due(SPEC.windows, tuple(Interval(T0 + a * HOUR, T0 + b * HOUR) for a, b in parts))


def at(*hours: int) -> tuple[int, ...]:
    return tuple(T0 + hour * HOUR for hour in hours)


def key(hour: int) -> WindowKey:
    return WindowKey(T0 + hour * HOUR, T0 + (hour + 1) * HOUR)


def found(what: Due, free: Due | None = None, since: Since | None = LONG_AGO, note: ArchiveNote | None = NOTE) -> list:
    return overdue.concerns(SPEC, what, what if free is None else free, since, note, NOW)


def test_windows_are_late_once_the_sla_is_over() -> None:
    assert found(due((0, 3)), since=Since(NOW - SLA)) == found(due((0, 3)), since=None) == []
    (late,) = found(due((0, 3), (5, 6)), due((1, 3)))
    assert late.kind == "late_window"
    assert late.what == (
        "2 windows are ready and not published, the oldest (2013-01-05T01:00Z) for 2.0 h: 2013-01-05T01:00Z .. 02:00Z"
    )
    assert (
        found(due((0, 1)), since=replace(LONG_AGO, exact=False))[0]
        .what.split("(")[1]
        .startswith("2013-01-05T00:00Z) for more than 2.0 h: ")
    )
    for windows in (2, 3):
        follows = Due(replace(SPEC.windows, follows=True), due((0, windows)).parts)
        assert found(follows)[0].what.endswith("; each waits for the one before it")
    assert overdue.in_turn(Due(follows.windows, due((0, 1)).parts)) == overdue.in_turn(due((0, 3))) == ""


BACKFILL = "airflow dags backfill p.archive -s 2013-01-05T00:00Z -e 2013-01-05T02:00Z"


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (replace(NOTE, paused=True), f"p.archive was paused when last looked at: unpause it, or run: {BACKFILL}"),
        (NOTE, "p.archive is not paused: its runs have failed"),
        (replace(NOTE, noted_ms=NOTE.noted_ms - 1), "p.maintain, which makes the missing runs, has not looked"),
        (replace(NOTE, noted_ms=0), "p.maintain, which makes the missing runs, has not looked"),
        (None, "p.maintain, which makes the missing runs, has not looked"),
    ],
)
def test_what_to_do_goes_by_what_maintenance_has_seen(note: ArchiveNote | None, words: str) -> None:
    (late,) = found(due((0, 3)), note=note)
    assert late.advice.startswith(words)
    assert late.advice.endswith(f"or run: {BACKFILL}")


def test_runs_that_have_ended_are_told_at_once() -> None:
    over = replace(NOTE, ended=at(1, 7))
    (ended,) = found(due((0, 3)), since=None, note=over)
    assert ended == Concern(
        "the archive run of a window has ended without a publication: 2013-01-05T01:00Z",
        "look at the log of the failed task and fix what it says, then: "
        "airflow tasks clear p.archive --yes -s 2013-01-05T01:00Z -e 2013-01-05T01:00Z",
        "late_window",
    )
    both = found(due((0, 3)), note=over)
    assert [c.kind for c in both] == ["late_window"] * 2
    assert both[0] == ended
    assert "backfill --rerun-failed-tasks p.archive" in both[1].advice
    all_over = replace(NOTE, ended=at(0, 1, 2))
    assert len(found(due((0, 3)), note=all_over)) == 1, "nothing waits but for those"
    assert found(due((0, 3)), note=replace(NOTE, ended=at(9)))[0].what.startswith("3 windows are ready")


def test_several_ranges_of_ended_runs_are_cleared_one_by_one() -> None:
    (many,) = found(due((0, 20)), since=None, note=replace(NOTE, ended=at(0, 1, 5, 7)))
    assert many.what == (
        "the archive runs of 4 windows have ended without a publication: "
        "2013-01-05T00:00Z, 2013-01-05T01:00Z, 2013-01-05T05:00Z, ..."
    )
    assert many.advice.endswith(
        ", and likewise for the 2 other ranges: "
        "airflow tasks clear p.archive --yes -s 2013-01-05T00:00Z -e 2013-01-05T01:00Z"
    )
    (two,) = found(due((0, 20)), since=None, note=replace(NOTE, ended=at(0, 1)))
    assert two.what.startswith("the archive runs of 2 windows have ended")
    (three,) = found(due((0, 20)), since=None, note=replace(NOTE, ended=at(0, 1, 5)))
    assert three.what.endswith("2013-01-05T05:00Z")
    assert "the 1 other range: " in three.advice


def test_rows_that_no_run_publishes_are_told_whatever_is_due() -> None:
    (one,) = found(due(), due(), None, replace(NOTE, stranded=at(5), published=(Interval(T0, NOW),)))
    assert (one.kind, one.subject) == ("late_window", f"stranded {T0 + 5 * HOUR}")
    assert one.what.startswith("landed rows of window 2013-01-05T05:00Z will never be published: it counts as")
    assert "backfill --reset-dagruns -y p.archive -s 2013-01-05T05:00Z" in one.advice
    (more,) = found(due(), due(), None, replace(NOTE, stranded=(T0 + 1, T0 + 2, T0 + 3)))
    assert "of window 2013-01-05T00:00:00.001Z and 2 other windows will never" in more.what
    (two,) = found(due(), due(), None, replace(NOTE, stranded=(T0 + 1, T0 + 2)))
    assert "and 1 other window will never" in two.what
    assert found(due(), due(), None, replace(NOTE, stranded=at(5))) == [], "a run comes for it"
    assert found(due(), due(), None, replace(NOTE, stranded=(*at(5), T0 + 1)))[0].subject == f"stranded {T0 + 1}"


# ---------------------------------------------------------------- commands


def test_one_window_is_published_by_its_run() -> None:
    command = "airflow dags backfill p.archive -s 2013-01-05T01:00Z -e 2013-01-05T01:00Z"
    assert overdue.run("p", None, key(1)) == overdue.run("p", NOTE, key(1)) == command
    paused = replace(NOTE, paused=True)
    assert overdue.run("p", paused, key(1)).endswith(f"unpause it, or run: {command}")
    failed = overdue.run("p", replace(paused, ended=at(1)), key(1))
    assert failed.endswith("then: airflow tasks clear p.archive --yes -s 2013-01-05T01:00Z -e 2013-01-05T01:00Z")
    assert overdue.run("p", replace(NOTE, ended=at(2)), key(1)) == command


def test_a_backfill_covers_what_has_no_run_that_ended() -> None:
    assert overdue.filling("p", due((0, 3), (6, 8)), ()) == (
        "airflow dags backfill p.archive -s 2013-01-05T00:00Z -e 2013-01-05T07:00Z"
    )
    assert overdue.filling("p", due((0, 3)), at(0), at(2)) == (
        "airflow dags backfill p.archive -s 2013-01-05T01:00Z -e 2013-01-05T01:00Z"
    )
    assert overdue.filling("p", due((0, 2)), at(0), at(1)) == ""
    again = overdue.filling("p", due((0, 3)), at(1))
    assert again == ("airflow dags backfill --rerun-failed-tasks p.archive -s 2013-01-05T00:00Z -e 2013-01-05T02:00Z")
    named = overdue.filling("a backfill ", due((0, 3)), at(1))
    assert named.count("--rerun-failed-tasks") == 1


def test_what_is_being_published_is_left_alone() -> None:
    assert overdue.to_fill("p", due((0, 3)), (), (), PUBLISHING - 1) == f"to fill: {BACKFILL}"
    assert overdue.to_fill("p", due((0, 3)), (), (), 1200) == "being published: 1,200 in the last 3 minutes"
    assert overdue.to_fill("p", due((0, 3)), (), (), PUBLISHING).startswith("being published")
    assert overdue.to_fill("p", due((0, 3)), at(0), (), PUBLISHING).startswith("to fill: ")
    soon = overdue.to_fill("p", due((0, 3)), (), (), 0, just_now=True)
    assert soon == f"nothing yet, runs begin by themselves; if none has in 3 minutes, to fill: {BACKFILL}"
    assert overdue.to_fill("p", due((0, 3)), at(0), (), 0, just_now=True).startswith("to fill: "), "a run has ended"
    assert [overdue.just_now(at_ms, None, 600_000) for at_ms in (None, 0, 420_000, 420_001)] == [False] * 3 + [True]
    assert not overdue.just_now(600_000, ArchiveNote(paused=True, noted_ms=1), 600_000)
    assert overdue.to_fill("p", due((0, 3)), (), at(0, 1, 2), 0) == "", "something else holds them"
    assert overdue.to_fill("p", due((0, 1)), at(0), (), 9) == overdue.to_fill("p", due(), (), at(0), 9) == ""


def test_who_began_a_generation_finishes_it() -> None:
    assert overdue.finishing("p", T0, REPLAY) == "tidegate replay p 2013-01-05T00:00Z"
    cleared = "airflow tasks clear p.archive --yes -s 2013-01-05T00:00Z -e 2013-01-05T00:00Z"
    assert overdue.finishing("p", T0, HEAL) == overdue.finishing("p", T0, ARCHIVE) == cleared


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([(4, 16)], "2013-01-05T04:00Z .. 15:00Z"),
        ([(4, 5)], "2013-01-05T04:00Z"),
        ([(20, 30)], "2013-01-05T20:00Z .. 2013-01-06T05:00Z"),
        ([(1, 2), (4, 6)], "2013-01-05T01:00Z, 2013-01-05T04:00Z .. 05:00Z"),
        ([(0, 1), (2, 3), (4, 5)], "2013-01-05T00:00Z, 2013-01-05T02:00Z, 2013-01-05T04:00Z"),
        (
            [(0, 1), (2, 3), (4, 5), (6, 8)],
            "2013-01-05T00:00Z, 2013-01-05T02:00Z, 2013-01-05T04:00Z, and 1 more range, the last "
            "2013-01-05T06:00Z .. 07:00Z",
        ),
    ],
)
def test_ranges_are_short(parts: list[tuple[int, int]], words: str) -> None:
    assert overdue.ranges(due(*parts)) == words


def test_ranges_of_days_as_json_has_them() -> None:
    days = Due(replace(SPEC.windows, size_ms=DAY_MS), (Interval(T0, T0 + 3 * DAY_MS),))
    assert overdue.plain(days) == [{"first_ms": T0, "last_ms": T0 + 2 * DAY_MS, "windows": 3}]
    hours = overdue.plain(due((0, 1), (2, 4)))
    assert [(one["first_ms"], one["last_ms"], one["windows"]) for one in hours] == [
        (T0, T0, 1), (T0 + 2 * HOUR, T0 + 3 * HOUR, 2),
    ]  # fmt: skip
    assert (overdue.count(due((0, 1))), overdue.count(days)) == ("1 window is", "3 windows are")
