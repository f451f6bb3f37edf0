"""What `tidegate status` says of windows that are due: ranges, since when, why nothing comes, what fills them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.world import HOUR, T0, World, make_pipeline, record, window
from tidegate.core.base.instants import DAY_MS
from tidegate.core.base.offsets import Interval
from tidegate.core.look import overdue
from tidegate.core.look.overdue import Concern, Since
from tidegate.core.window.due import ArchiveNote, Due
from tidegate.workflow.look.status import due_since
from tidegate.workflow.maintain import reconcile

PIPELINE = make_pipeline("file:///lake/readings")
NOW = T0 + 100 * HOUR


def due(*parts: tuple[int, int]) -> Due:
    return Due(PIPELINE.windows, tuple(Interval(T0 + a * HOUR, T0 + b * HOUR) for a, b in parts))


def concerns(what: Due, since_ms: int | None = T0, **note: Any) -> list[Concern]:
    noted = ArchiveNote(**({"paused": False, "noted_ms": NOW - 60_000} | note))
    return overdue.concerns(PIPELINE, what, what, None if since_ms is None else Since(since_ms), noted, NOW)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([(4, 16)], "2013-01-05T04:00Z .. 15:00Z"),
        ([(4, 5)], "2013-01-05T04:00Z"),
        ([(20, 30)], "2013-01-05T20:00Z .. 2013-01-06T05:00Z"),
        ([(1, 2), (4, 6)], "2013-01-05T01:00Z, 2013-01-05T04:00Z .. 05:00Z"),
        (
            [(n, n + 1) for n in range(0, 20, 2)],
            "2013-01-05T00:00Z, 2013-01-05T02:00Z, 2013-01-05T04:00Z, and 7 more ranges, the last 2013-01-05T18:00Z",
        ),
    ],
)
def test_ranges_are_short(parts: list[tuple[int, int]], words: str) -> None:
    assert overdue.ranges(due(*parts)) == words


def test_ranges_of_days_are_as_json_has_them() -> None:
    days = Due(replace(PIPELINE.windows, size_ms=DAY_MS), (Interval(T0, T0 + 3 * DAY_MS),))
    assert overdue.plain(days) == [{"first_ms": T0, "last_ms": T0 + 2 * DAY_MS, "windows": 3}]


def test_what_has_just_become_due_is_no_concern() -> None:
    assert concerns(due((0, 3)), since_ms=NOW - PIPELINE.archive.sla_ms) == []
    assert concerns(due((0, 3)), since_ms=None) == []


def test_what_is_overdue_is_named_with_the_command_that_fills_it() -> None:
    (found,) = concerns(due((4, 16)), since_ms=NOW - 3 * HOUR)
    assert found.what == (
        "12 windows are ready and not published, the oldest (2013-01-05T04:00Z) for 3.0 h: 2013-01-05T04:00Z .. 15:00Z"
    )
    fill = "airflow dags backfill readings.archive -s 2013-01-05T04:00Z -e 2013-01-05T15:00Z"
    assert found.advice.startswith("readings.archive is not paused: ")
    assert found.advice.endswith(f", or run: {fill}")


@pytest.mark.parametrize(
    ("note", "words"),
    [
        ({"paused": True}, "readings.archive was paused when last looked at: unpause it"),
        ({"noted_ms": NOW - 2 * HOUR}, "readings.maintain, which makes the missing runs, has not looked for an hour"),
        ({"noted_ms": 0, "paused": None}, "readings.maintain, which makes the missing runs, has not looked"),
    ],
)
def test_why_nothing_comes(note: dict[str, Any], words: str) -> None:
    (found,) = concerns(due((4, 16)), **note)
    assert words in found.advice


def test_a_run_that_has_ended_is_a_concern_at_once_and_is_cleared_by_a_person() -> None:
    seen = (T0 + HOUR, T0 + 2 * HOUR, T0 + 9 * HOUR)  # 09:00 has been published since
    (found,) = concerns(due((1, 3)), since_ms=NOW, ended=seen)
    assert found.what == (
        "the archive runs of 2 windows have ended without a publication: 2013-01-05T01:00Z, 2013-01-05T02:00Z"
    )
    assert found.advice.endswith(
        "fix what it says, then: airflow tasks clear readings.archive --yes -s 2013-01-05T01:00Z -e 2013-01-05T02:00Z"
    )


def test_only_what_has_ended_is_cleared_range_by_range() -> None:
    (found,) = concerns(due((1, 2), (8, 9)), since_ms=NOW, ended=(T0 + HOUR, T0 + 8 * HOUR))
    assert "then, and likewise for the 1 other range: airflow tasks clear" in found.advice
    assert found.advice.endswith("-s 2013-01-05T01:00Z -e 2013-01-05T01:00Z")


def test_what_has_ended_is_not_told_twice() -> None:
    assert len(concerns(due((1, 2)), ended=(T0 + HOUR,))) == 1
    assert len(concerns(due((1, 3)), ended=(T0 + HOUR,))) == 2


def test_the_command_that_fills_is_not_stopped_by_a_run_that_has_failed() -> None:
    """A backfill leaves it as it is, and begins nothing after it."""
    _, other = concerns(due((1, 4)), ended=(T0 + HOUR,))
    assert other.advice.endswith("airflow dags backfill readings.archive -s 2013-01-05T02:00Z -e 2013-01-05T03:00Z")
    _, around = concerns(due((1, 4)), ended=(T0 + 2 * HOUR,))
    assert around.advice.endswith(
        "airflow dags backfill --rerun-failed-tasks readings.archive -s 2013-01-05T01:00Z -e 2013-01-05T03:00Z"
    )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def test_since_when_the_oldest_could_have_been_published(world: World) -> None:
    """The batch that moved the watermark over its end, among many, and with an abandoned one between."""
    landed: dict[int, int] = {}
    for hour in range(9):
        world.clock.advance(60_000)
        landed[hour] = world.clock.now_ms()
        world.produce(record(f"r{hour}", hour + 1.5))
        world.ingest(f"to {hour}")
    for hour in (0, 1, 3):
        world.archive(hour)
    ctx = world.context()
    reads = ctx.ledger.reads  # type: ignore[attr-defined]
    found = reconcile.due(ctx)
    assert next(iter(found)) == window(2)
    # the watermark is one hour behind: the record of 04:30 carries it to 03:30
    assert due_since(reads, [(world.pipeline, found)]) == {"readings": landed[3]}
