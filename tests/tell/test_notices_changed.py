"""What has changed before anybody was told."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.tell.test_notices import Channel, Lost, late, shown, told, world
from tests.world import HOUR, World
from tidegate.core.base.errors import BatchRefused
from tidegate.core.spec.pipeline import DirtyLimits, Notify
from tidegate.core.tell.notices import (
    RAISED,
    RESOLVED,
)
from tidegate.workflow.batch import ingest
from tidegate.workflow.dirty import redrive
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.tell import notices
from tidegate.workflow.tell.notices import deliver, failed_task

__all__ = ["world"]  # fixtures


# ---------------------------------------------------------------- what has changed before anybody was told


def test_what_was_not_delivered_is_told_as_it_is_by_then(world: World) -> None:
    """An hour that was published while the receiver was down is no news any more."""
    late(world)
    world.clock.advance(HOUR)
    lost = Lost()
    told(world, lost)
    assert "2 windows are ready and not published" in lost.got[0]["what"]
    world.archive(0)
    people = Channel()
    told(world, people)
    (message,) = people.got
    assert message["what"].startswith("1 window is ready and not published, the oldest (2013-01-05T01:00Z)")
    assert message["advice"].endswith("-s 2013-01-05T01:00Z -e 2013-01-05T01:00Z")
    assert message["id"] == lost.got[0]["id"]


def test_a_failed_task_tells_of_itself_only_and_of_no_condition_that_nobody_has_looked_at(world: World) -> None:
    late(world)
    world.clock.advance(HOUR)
    told(world, Lost())
    for hour in (0, 1):
        world.archive(hour)
    ctx, people = world.context(), Channel()
    notices.happened(ctx, failed_task("d.t", "r", 1, "broke", ""))
    deliver(ctx, [people])
    assert people.take() == [("task_failed", RAISED)]
    told(world, people)
    assert people.take() == [], "what was over before anybody was told of it"


def test_a_batch_that_was_given_up_is_not_said_to_be_on_its_way(world: World) -> None:
    world.change_spec(dirty=DirtyLimits(0, None))
    world.produce(b"no json")
    ctx, people = world.context(), Channel()
    ingest.plan(ctx, "r1")
    told(world, people)
    with suppress(BatchRefused):
        ingest.write(world.context(), "r1")
    told(world, people)
    assert people.take() == [("dirty_limit", RAISED)]
    reconcile.abandon(world.context(), 1, "the test producer of today", force=True)
    told(world, people)
    found = {(m["kind"], m["status"]): m["title"] for m in people.got}
    assert found == {
        ("dirty_limit", RESOLVED): "readings: the batch is not refused any more",
        ("data_loss", RAISED): "readings: data loss",
    }


@pytest.mark.parametrize("kinds", [("alarm",), None])
def test_what_nobody_wants_to_hear_of_any_more_stands_nowhere(world: World, kinds: tuple[str, ...] | None) -> None:
    """Nobody would say that it is over: the board would show it, and the gauge count it, for ever."""
    late(world)
    world.clock.advance(HOUR)
    told(world, Lost())
    assert len(shown(world)) == 1
    world.change_spec(notify=Notify(kinds or ()))
    people = [] if kinds is None else [Channel()]
    assert told(world, *people) == []
    assert shown(world) == []
    assert world.context().ledger.notices.standing("readings") == {}
    world.change_spec(notify=Notify())
    again = Channel()
    told(world, again)
    assert again.take() == [("late_window", RAISED)]


def test_what_waits_outlives_a_connection_that_is_gone(world: World) -> None:
    world.change_spec(webhook_conn_id="alerts")
    late(world)
    world.clock.advance(HOUR)
    told(world, Lost())
    told(world)
    assert len(world.context().ledger.notices.standing("readings")) == 1


def test_a_redrive_that_was_given_up_has_lost_nothing(world: World) -> None:
    """Its rows are dirty as before."""
    world.produce(b"no json")
    world.ingest("r1")
    people = Channel()
    told(world, people)
    (found,) = redrive.all_of(world.context(), None, lambda error: pytest.fail(str(error)))
    assert found.refused
    told(world, people)
    assert people.take() == []
    redrive.plan(world.context(), "r2")
    reconcile.abandon(world.context(), 3, "not now", force=True)
    told(world, people)
    assert people.take() == []
