"""Sixty windows are published by one call; what one of them, or everything, does when it fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hooks import catalogue_of
from tests.world import World, record, window
from tidegate.core.base.errors import CatalogueError, CatchUpStopped, SpecError, StillClosing
from tidegate.core.look import overdue
from tidegate.core.publish import catchup as rules
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Published
from tidegate.workflow.look.status import status
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive, catchup

HOURS = 60


class Runs:
    """Implements `workflow.publish.catchup.Runs`."""

    def __init__(self, taken: tuple[int, ...] = ()) -> None:
        self.taken = {window(hour).start_ms for hour in taken}
        self.made: list[WindowKey] = []
        self.left: list[WindowKey] = []
        self.urgent_after = 1000

    def free(self, key: WindowKey) -> bool:
        return key.start_ms not in self.taken

    def published(self, key: WindowKey, certificate: Certificate, published: Published) -> None:
        assert certificate.ready
        assert published.new
        self.made.append(key)

    def leave(self, key: WindowKey) -> bool:
        self.left.append(key)
        return True

    def yields(self) -> bool:
        return len(self.made) >= self.urgent_after


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """HOURS windows are ready, a row in each third."""
    world = World(tmp_path)
    world.produce(*(record(f"r{hour}", hour + 0.5) for hour in range(0, HOURS, 3)))
    world.produce(*(record("later", HOURS + 3.0) for _ in range(2)), partition=0)
    world.produce(record("later", HOURS + 3.0), partition=1)
    world.ingest("r/1")
    with contextlib.closing(world):
        yield world


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception, *hours: int) -> None:
    publish, bad = archive.publish, {window(hour) for hour in hours}

    def failing(ctx: Any, key: WindowKey) -> Published:
        if key in bad:
            raise error
        return publish(ctx, key)

    monkeypatch.setattr(archive, "publish", failing)


def test_sixty_windows_by_one_process_and_one_that_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        fail(patch, CatalogueError("Hive says no"), 7)
        ctx = world.context()
        due = list(reconcile.due(ctx))[:HOURS]
        assert due == [window(hour) for hour in range(HOURS)]
        ticks = iter(range(0, 100_000, 10))
        runs = Runs(taken=(10,))
        tally = catchup.catch_up(ctx, due, len(due), runs, lambda: next(ticks) / 10)
    assert runs.made == [key for key in due if key not in (window(7), window(10))]
    assert runs.left == [window(7)]
    assert (tally.published, tally.left, tally.remain) == (len(due) - 2, 2, 0)
    assert list(reconcile.due(ctx))[:3] == [window(7), window(10), window(HOURS)]
    assert "NOT published: Hive says no" in "".join(world.said)
    lines = [line for line in world.said if " windows: " in line]
    assert lines[0] == "60 windows: 1 published, 60 a minute, about a minute left"
    assert len(lines) == 1 + 3 + 1, "the first window's, one each 15 seconds, the last"
    world.archive(7)
    assert len(world.table()) == HOURS / 3


def test_what_fails_three_times_in_a_row_is_no_fault_of_the_windows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, CatalogueError("Hive is down"), *range(2, HOURS + 9))
    runs, ctx = Runs(), world.context()
    with pytest.raises(CatchUpStopped, match="3 windows in a row .*: Hive is down"):
        catchup.catch_up(ctx, list(reconcile.due(ctx)), HOURS, runs)
    assert (len(runs.made), runs.left) == (2, [])  # the next try finds them, and no failed run holds them


def test_what_concerns_all_windows_ends_it_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, SpecError("another table"), 1)
    runs, ctx = Runs(), world.context()
    with pytest.raises(SpecError):
        catchup.catch_up(ctx, list(reconcile.due(ctx)), HOURS, runs)
    assert (len(runs.made), runs.left) == (1, [])


def test_windows_that_wait_for_a_batch_stay_for_a_later_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, StillClosing("batch 7 must land"), *range(5))
    runs, ctx = Runs(), world.context()
    tally = catchup.catch_up(ctx, [window(hour) for hour in range(7)], 7, runs)
    assert (tally.published, tally.closing, tally.remain, runs.left) == (2, 5, 5, [])


def test_it_ends_when_its_time_is_up_or_somebody_more_urgent_waits(world: World) -> None:
    runs, ctx = Runs(), world.context()
    runs.urgent_after = 2
    assert catchup.catch_up(ctx, list(reconcile.due(ctx)), HOURS, runs).published == 2
    ticks = iter((0.0, rules.LONGEST_S, rules.LONGEST_S + 1))
    tally = catchup.catch_up(ctx, list(reconcile.due(ctx)), HOURS, Runs(), lambda: next(ticks))
    assert (tally.published, tally.remain) == (1, HOURS - 1)
    assert world.said[-1].endswith("goes on in the next run")


def test_the_table_is_compared_once_and_again_after_a_refusal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx, compared, refuse = world.context(), list[str](), {window(3)}
    ensure, add = catalogue_of(ctx).ensure_table, catalogue_of(ctx).add_partitions
    monkeypatch.setattr(catalogue_of(ctx), "ensure_table", lambda table: compared.append(table.name) or ensure(table))

    def adding(table: str, locations: Any) -> None:
        if refuse and window(3).start_ms in {archive_start(place) for place in locations.values()}:
            refuse.clear()
            raise CatalogueError("no such table")
        add(table, locations)

    def archive_start(place: str) -> int:
        return next((window(h).start_ms for h in range(24) if f"hour={h:02}" in place), 0)

    monkeypatch.setattr(catalogue_of(ctx), "add_partitions", adding)
    tally = catchup.catch_up(ctx, [window(hour) for hour in range(8)], 8, Runs())
    assert (tally.published, tally.left) == (7, 1)
    assert compared == ["lake.readings"] * 2


def test_nobody_is_told_to_publish_what_is_being_published(world: World) -> None:
    ctx, runs = world.context(), Runs()

    def said(over: tuple[int, ...] = ()) -> str:
        found = status(ctx, ctx.ledger.reads, None)
        assert found.survey is not None
        return overdue.to_fill(ctx.name, found.due, over, [], found.survey.lately)

    due = list(reconcile.due(ctx))
    catchup.catch_up(ctx, due[:2], 2, runs)
    assert said().startswith("to fill: "), "two may be the schedule's, long behind"
    catchup.catch_up(ctx, due[2:7], 5, runs)
    assert said() == "being published: 7 in the last 3 minutes"
    assert said((due[9].start_ms,)).startswith("to fill: "), "nobody publishes what has a run that has ended"
    world.clock.advance(3 * 60_000)
    assert said().startswith("to fill: ")
