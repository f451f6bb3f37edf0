"""A day of a mirror is let through to `publish` once the day before is published: the sensor's first look and its wait,
`explain`, `where`, status and the catch-up say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.look.row_readers import InProcessRows
from tests.mirror.days import DailyWorld, day, event
from tests.publish.test_catchup import Runs
from tests.world import World, record, window
from tidegate.airflow.sensors import WindowReadyTrigger
from tidegate.core.base.errors import CatalogueError, NotReady
from tidegate.core.base.plain import dumps
from tidegate.core.look import overdue
from tidegate.core.window.states import OPEN
from tidegate.ledger.waits import SqlWaits
from tidegate.workflow.look.explanation import explain
from tidegate.workflow.look.status import status
from tidegate.workflow.look.where import where
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive, catchup

WAITS = "follows from 2013-01-06T00:00Z, which is not published yet"


@pytest.fixture
def world(tmp_path: Path) -> DailyWorld:
    """The watermark has passed five days; none is published."""
    world = DailyWorld(tmp_path)
    world.land(event(1, "a", 10, 0.1), event(1, "b", 11, 1.1), event(1, "c", 12, 2.1), event(9, "z", 99, 5.5))
    return world


def waited(world: World, n: int) -> tuple[bool, str]:
    """What the sensor's wait makes of a look, in the triggerer, which has the trigger's arguments alone."""
    key = day(n)
    trigger = WindowReadyTrigger(dumps(world.pipeline), key.start_ms, key.end_ms, 0, 1.0)
    wait = WindowReadyTrigger(**trigger.serialize()[1]).wait()
    waits = SqlWaits(f"sqlite:///{world.database}")
    answer, _ = wait.decide(waits.look({wait.pipeline}, wait.refs()), world.clock.now_ms())
    waits.close()
    return answer.done, answer.text


def fate(world: World, offset: int) -> str:
    """What `tidegate where` says of the record."""
    ctx = world.context()
    (only,) = where(ctx, ctx.ledger.reads, InProcessRows(), 0, offset).fates
    return only.words


def explained(world: World, n: int) -> tuple[str, str]:
    ctx = world.context()
    found = explain(ctx, ctx.ledger.reads, day(n))
    return found.summary, found.next_step


def test_all_say_the_same_of_a_day_that_waits(world: DailyWorld) -> None:
    ctx = world.context()
    certificate = archive.ready(ctx, day(2))
    assert (certificate.ready, certificate.reason) == (False, WAITS)
    assert waited(world, 2) == (False, certificate.text())
    oldest = "`tidegate explain readings 2013-01-05T00:00Z` says what that waits for"
    assert explained(world, 2) == (f"not ready: {WAITS}", oldest)
    assert fate(world, 2).endswith(f"waits for its window 2013-01-07T00:00Z: {WAITS}")
    assert fate(world, 0).endswith("has passed the window's end 2013-01-06T00:00Z; no run has published it")
    assert explained(world, 0)[0] == "ready, but no run has published it"
    due = status(ctx, ctx.ledger.reads, None).due
    assert overdue.ranges(due) + overdue.in_turn(due) == (
        "2013-01-05T00:00Z .. 2013-01-09T00:00Z; each waits for the one before it"
    )
    with pytest.raises(NotReady, match=WAITS):
        archive.publish(ctx, day(2))
    assert ctx.ledger.windows.get("readings", day(2)).state == OPEN, "so that its own late events count in it"


def test_it_is_let_through_once_the_day_before_is_published(world: DailyWorld) -> None:
    world.publish(0)
    assert waited(world, 1)[0]
    assert not waited(world, 2)[0]
    world.publish(1)
    assert waited(world, 2)[0]
    assert archive.ready(world.context(), day(2)).ready
    assert explained(world, 2)[0] == "ready, but no run has published it"
    world.publish(2)
    assert archive.ready(world.context(), day(2)).ready, "Clear"
    assert world.rows(2) == {1: "c"}


def test_a_day_that_was_closed_before_its_turn_waits(world: DailyWorld) -> None:
    """By an earlier release, or where the ledger has forgotten the day before."""
    ctx = world.context()
    certificate = archive.ready(ctx, day(0))
    ctx.ledger.windows.begin_close("readings", day(2), lambda _: certificate)
    assert archive.ready(ctx, day(2)).reason == WAITS
    assert waited(world, 2) == (False, f"readings 2013-01-07T00:00Z: CLOSING, but it {WAITS}")
    with pytest.raises(NotReady, match=WAITS):
        archive.publish(ctx, day(2))  # the second line: nothing is built
    for n in range(3):
        world.publish(n)
    assert world.rows(2) == {1: "c"}


def test_an_event_of_a_day_that_waits_counts_in_it(world: DailyWorld) -> None:
    with pytest.raises(NotReady):
        world.publish(2)
    world.land(event(2, "in time", 13, 2.9))
    for n in range(3):
        world.publish(n)
    assert world.rows(2) == {1: "c", 2: "in time"}


def test_a_catch_up_ends_at_the_first_day_that_fails(world: DailyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of their own for the days after it would fill all the room, and only wait."""
    publish = archive.publish

    def failing(ctx: Any, key: Any) -> Any:
        if key == day(1):
            raise CatalogueError("Hive says no")
        return publish(ctx, key)

    with monkeypatch.context() as patch:
        patch.setattr(archive, "publish", failing)
        runs, ctx = Runs(), world.context()
        tally = catchup.catch_up(ctx, list(reconcile.due(ctx)), 5, runs)
    assert (runs.made, runs.left, tally.remain) == ([day(0)], [day(1)], 3)
    runs = Runs()
    runs.taken = {day(1).start_ms}
    assert catchup.catch_up(ctx, list(reconcile.due(ctx)), 4, runs).published == 0
    assert runs.left == [day(2)], "the day before has its run, which this one waits for"
    runs = Runs()
    assert catchup.catch_up(ctx, list(reconcile.due(ctx)), 4, runs).published == 4


def test_hours_wait_for_no_other(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.produce(record("a", 0.5), record("b", 1.5), record("later", 9.0))
    world.produce(record("later", 9.0), partition=1)
    world.ingest("r/1")
    ctx = world.context()
    assert not world.pipeline.windows.follows
    assert archive.ready(ctx, window(1)).ready
    due = status(ctx, ctx.ledger.reads, None).due
    assert (due.count > 1, overdue.in_turn(due)) == (True, "")
    assert archive.publish(ctx, window(1)).new
    world.close()
