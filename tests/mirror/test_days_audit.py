"""`audit --deep` of a mirror by days: each day is made anew from its events and the day before, and what differs is
named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.mirror.audits import Change, Here, deep
from tests.mirror.days import DAY, YAML, DailyWorld, by_days, day, event, harm
from tests.mirror.planted import DAY_BUGS
from tests.mirror.test_audit_deep import doubled, only
from tests.mirror.test_days import LATER
from tests.mutants.planting import Planted
from tidegate.core.audit.scope import Part
from tidegate.core.base.errors import StorageError, TidegateError
from tidegate.core.base.offsets import Interval
from tidegate.workflow.audit import day_rows
from tidegate.workflow.audit.audit import Report
from tidegate.workflow.clean.duties import clean

OTHER = YAML.replace("name: word,", "name: word, from: $._source.file,")
FEW = OTHER + "archive: {{keep_generations: 1}}\n"


@pytest.fixture
def three(tmp_path: Path) -> Iterator[DailyWorld]:
    """Three published days, the last one without events; 3 is deleted on the second."""
    world = DailyWorld(tmp_path)
    world.land(event(1, "a", 10, 0.1), event(2, "b", 11, 0.2), event(3, "c", 12, 0.3))
    world.land(event(1, "a2", 20, 1.1), event(3, None, 21, 1.2), event(4, "d", 22, 1.5), LATER)
    for n in range(3):
        assert world.publish(n).new
    yield world
    world.close()


def harmed(world: DailyWorld, n: int, change: Change) -> None:
    place = world.place(n)
    assert place is not None
    harm(place, change)


def told(report: Report) -> list[tuple[str, str]]:
    return [(p.subject, p.what) for p in report.problems]


def compared(report: Report) -> int:
    assert report.recomputed is not None
    return report.recomputed.days


def skipped(report: Report) -> list[str]:
    return [note for note in report.notes if "could not be compared" in note]


# ---------------------------------------------------------------- unharmed


def test_unharmed_days_are_balanced(three: DailyWorld) -> None:
    found = deep(three)
    assert (found.problems, found.unsettled, found.balanced, skipped(found)) == ((), (), True, [])
    r = found.recomputed
    assert r is not None
    assert (r.days, r.buckets, r.rows, r.tombstones, r.events) == (3, 9, 9, 2, 6)
    assert deep(three, coordinates=False).recomputed is None


def test_a_range_is_of_days_and_a_sample_of_buckets(three: DailyWorld) -> None:
    within = Interval(day(1).start_ms, day(2).start_ms)
    assert compared(deep(three, part=Part(within))) == 1
    some = deep(three, part=Part(share=0.4, seed=2)).recomputed
    assert some is not None
    assert some.buckets < 9


def test_a_day_is_compared_with_what_it_was_built_on(three: DailyWorld) -> None:
    """And not with what has come into force since."""
    three.pipeline = by_days(three.folder, OTHER)
    assert three.replay_day(0).new
    found = deep(three)
    assert (found.problems, skipped(found), compared(found)) == ((), [], 3)


def test_a_ground_that_was_cleaned_is_told(three: DailyWorld) -> None:
    three.pipeline = by_days(three.folder, FEW)
    assert three.replay_day(0).new
    three.clock.advance(60 * DAY)
    clean(three.context())
    three.close()
    found = deep(three)
    assert (found.problems, found.unsettled, compared(found)) == ((), (), 2)
    (note,) = skipped(found)
    assert note.startswith("2013-01-06T00:00Z could not be compared with what they are made of: ")
    assert "is not there" in note


def test_a_ground_that_is_half_gone_is_told(three: DailyWorld) -> None:
    """A cleaning that stopped half-way, or a day that its owner has dropped."""
    three.pipeline = by_days(three.folder, OTHER)
    before = three.place(0)
    assert three.replay_day(0).new
    assert before is not None
    shutil.rmtree(before)
    found = deep(three)
    assert (found.problems, found.unsettled, compared(found)) == ((), (), 2)
    (note,) = skipped(found)
    assert "generation 1 of 2013-01-05T00:00Z, which it is built on: " in note


def test_a_column_that_went_and_came_back(three: DailyWorld) -> None:
    """The day in between has not asked for it."""
    three.pipeline = by_days(three.folder, YAML.replace("  - {{name: word, type: string}}\n", ""))
    three.land(event(5, "e", 30, 3.1), event(9, "z2", 100, 7.5))
    three.publish(3)
    three.pipeline = by_days(three.folder)
    three.publish(4)
    found = deep(three)
    assert (found.problems, skipped(found), compared(found)) == ((), [], 5)


# ---------------------------------------------------------------- harmed

HARMS: dict[str, tuple[Change, str]] = {
    "a changed cell": (
        only(k2={"word": "x"}),
        "1 key with another version: id=2 is a row word='x', u at",
    ),
    "a row too few": (only(k4=None), "1 key lacking: id=4 is not in the day, its events and the day before make a row"),
    "a tombstone too few": (only(k3=None), "1 key lacking: id=3 is not in the day, its events and the day before make"),
    "a row twice": (doubled, "1 key with several rows: id=4 is there 2 times in the day"),
}


@pytest.mark.parametrize("harm_", HARMS)
def test_what_another_writer_changes_is_named(three: DailyWorld, harm_: str) -> None:
    """In its day alone, and in the bucket alone; what is built on it is not compared there."""
    change, said = HARMS[harm_]
    harmed(three, 1, change)
    found = deep(three)
    ((subject, what),) = told(found)
    assert subject == "window 20130106T000000Z"
    assert f"is not what its events make of generation 1 of 2013-01-05T00:00Z: {said}" in what
    (note,) = skipped(found)
    assert "generation 1 of 2013-01-06T00:00Z, which it is built on, is not right in 1 bucket" in note
    assert found.recomputed is not None
    assert found.recomputed.buckets == 8


def test_a_row_too_many_of_the_first_day(three: DailyWorld) -> None:
    def more(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return rows + [r | {"id": 5, "word": "m"} for r in rows if r["id"] == 2]

    harmed(three, 0, more)
    what = told(deep(three))[0][1]
    assert "bucket 1 is not what its events make of no day before: 1 key without any event: id=5 is in the day" in what
    assert "neither its events nor the day before say so" in what


def test_the_advice_brings_a_day_back(three: DailyWorld) -> None:
    harmed(three, 1, only(k2={"word": "x"}))
    (problem,) = deep(three).problems
    assert "move rows/*-00001-* and tombstones/*-00001-* away from " in problem.advice
    assert "airflow dags backfill --reset-dagruns -y readings.archive -s 2013-01-06T00:00Z" in problem.advice
    place = three.place(1)
    assert place is not None
    for path in [*place.parent.glob("rows/*-00001-*"), *place.parent.glob("tombstones/*-00001-*")]:
        path.rename(three.folder / path.name)
    assert three.publish(1).new
    assert three.rows(1) == {1: "a2", 2: "b", 4: "d"}
    found = deep(three)
    assert (found.problems, found.balanced) == ((), True)


def test_a_file_that_cannot_be_read_is_named(three: DailyWorld) -> None:
    place = three.place(2)
    assert place is not None
    path = next(place.iterdir())
    path.write_bytes(b"x" * path.stat().st_size)
    ((subject, what),) = told(deep(three))
    assert subject == "window 20130107T000000Z"
    assert "cannot be compared: " in what


def test_lost_events_leave_nothing_to_compare(three: DailyWorld) -> None:
    place = three.place(1)
    assert place is not None
    next(place.parent.glob("*.parquet")).unlink()
    found = deep(three)
    assert all("lost" in what or "is not there" in what for _, what in told(found))
    assert compared(found) == 2
    assert len(skipped(found)) == 1


def test_no_space_for_the_events_is_no_verdict(three: DailyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("spark_jobs.handlers.mirror.hand_over", full)
    with pytest.raises(StorageError, match="its events cannot be read: OSError: no space left") as refused:
        deep(three)
    assert "TMPDIR" in refused.value.advice


# ---------------------------------------------------------------- at work meanwhile


class Meanwhile(Here):
    """Something happens once, as soon as the reader is asked `at` something of a day whose first batch is that one."""

    def __init__(self, first: int, at: str, happens: Callable[[], Any]) -> None:
        super().__init__()
        self._first, self._at, self._happens, self._done = first, at, happens, False

    def _ask(self, request: Any) -> dict[str, Any]:
        if "plan" in request:
            self._is_it = json.loads(request["plan"])["first"] == self._first
        if self._is_it and self._at in request and not self._done:
            self._done = True
            self._happens()
        return super()._ask(request)


@pytest.mark.parametrize("at", ["plan", "events", "bucket"])
@pytest.mark.parametrize("swap", ["pointer", "directory"])
@pytest.mark.parametrize("n", [0, 1])
def test_a_replay_meanwhile_is_no_problem(three: DailyWorld, n: int, swap: str, at: str) -> None:
    """Of the day, or of the day that it is built on: what is in force then is compared."""
    three.pipeline = by_days(three.folder, OTHER + f"archive: {{{{swap: {swap}}}}}\n")
    found = deep(three, Meanwhile(2, at, lambda: three.replay_day(n)))
    assert (found.problems, found.unsettled, skipped(found), compared(found)) == ((), (), [], 3)
    assert {p.name[:3] for p in (three.place(n) or Path()).glob("*.parquet")} == {"g2."}


def test_what_moves_at_each_look_is_unsettled(three: DailyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day_rows, "PAUSE_S", 0)
    monkeypatch.setattr("tidegate.workflow.generation.daily.is_moving", lambda *_: True)
    harmed(three, 2, only(k2={"word": "x"}))
    found = deep(three)
    assert (found.problems, found.balanced, compared(found)) == ((), False, 2)
    assert ["id=2 is a row word='x'" in p.what for p in found.unsettled] == [True]


# ---------------------------------------------------------------- planted bugs

FOUND_BY: dict[str, Callable[[DailyWorld], None]] = {
    "a day is compared with the day before that is in force": test_a_day_is_compared_with_what_it_was_built_on,
    "what moves meanwhile is believed": partial(
        test_a_replay_meanwhile_is_no_problem, n=1, swap="directory", at="plan"
    ),
    "each day has the columns of today": test_a_column_that_went_and_came_back,
    "days that were not compared are not told": test_a_ground_that_is_half_gone_is_told,
}


@pytest.mark.parametrize("name", DAY_BUGS)
def test_a_planted_comparison_is_found(three: DailyWorld, name: str) -> None:
    with Planted(DAY_BUGS[name]) as planted:
        with pytest.raises((AssertionError, ValueError, TidegateError)):
            FOUND_BY[name](three)
        assert planted.never_called() == []
