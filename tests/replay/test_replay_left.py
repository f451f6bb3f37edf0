"""A range replay that stopped on its way leaves windows that are being rebuilt: who says so, and what goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doctor.test_doctor import Setup, setup
from tests.hooks import Died, Hook, die
from tests.world import HOUR, T0, World, record, window
from tidegate.core.base.errors import SourceUnavailable
from tidegate.core.look.status import PipelineStatus
from tidegate.core.replay.abandoned import Unfinished
from tidegate.core.spec.pipeline import Column
from tidegate.core.window.states import QUIET_MS
from tidegate.workflow.look import explanation
from tidegate.workflow.look import status as looking
from tidegate.workflow.replay import replay, rollback

__all__ = ["setup"]  # a fixture


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.produce(*(record(str(hour), hour + 0.1) for hour in range(4)), record("far", 9.0))
    made.produce(record("far", 9.0), partition=1)
    made.ingest("r1")
    for hour in range(4):
        made.archive(hour)
    made.change_spec(columns=(*made.pipeline.columns[:2], Column(name="value", type="int", path="$.other")))
    yield made
    made.close()


def stopped(world: World) -> None:
    """Kafka goes away after hours 0, 1 and 3 were begun."""
    ctx = world.context()

    def gone(*_: object) -> None:
        raise SourceUnavailable("no broker answers")

    ctx.launcher = Hook(ctx.launcher, before={"run": gone})  # type: ignore[assignment]
    found = replay.replay_range(ctx, [window(h) for h in (0, 1, 3)])
    assert not any(o.well for o in found)
    world.close()


def status(world: World) -> PipelineStatus:
    ctx = world.context()
    found = looking.status(ctx, ctx.ledger.reads, None)  # type: ignore[attr-defined]
    world.close()
    return found


def left(world: World) -> tuple[Unfinished, ...]:
    survey = status(world).survey
    assert survey is not None
    return survey.replays


def told(world: World) -> list[tuple[str, str]]:
    return [(c.what, c.advice) for c in status(world).concerns if c.kind == "replay_left"]


def test_what_was_left_is_said_with_the_command_that_goes_on(world: World) -> None:
    stopped(world)
    assert [u.window_ms for u in left(world)] == [T0, T0 + HOUR, T0 + 3 * HOUR]
    assert told(world) == [], "somebody may be at work"
    world.clock.advance(QUIET_MS)
    ((what, advice),) = told(world)
    assert what.startswith("a replay of 3 windows from 2013-01-05T00:00Z on has stopped on its way")
    assert advice == (
        "to go on: tidegate replay readings -s 2013-01-05T00:00Z -e 2013-01-05T01:00Z; "
        "tidegate replay readings -s 2013-01-05T03:00Z -e 2013-01-05T03:00Z"
    )
    ctx = world.context()
    explained = explanation.explain(ctx, ctx.ledger.reads, window(1))  # type: ignore[attr-defined]
    assert "generation 2 (replay) is BUILDING" in explained.summary
    assert "tidegate replay readings 2013-01-05T01:00Z" in explained.next_step
    found = replay.replay_range(ctx, [window(h) for h in (0, 1, 3)])
    assert [o.what for o in found] == ["replayed"] * 3
    assert told(world) == []
    assert left(world) == ()


def test_a_rollback_that_died_too(world: World) -> None:
    world.replay(0)
    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, before={"run": die})  # type: ignore[assignment]
    with pytest.raises(Died):
        rollback.rollback(ctx, window(0), 1, "x")
    world.clock.advance(QUIET_MS)
    ((what, advice),) = told(world)
    assert what.startswith("a rollback of 2013-01-05T00:00Z has stopped")
    assert advice == "tidegate rollback readings 2013-01-05T00:00Z --why '...'"
    rollback.rollback(world.context(), window(0), 1, "x")
    assert told(world) == []


def test_the_doctor_says_so(world: World, setup: Setup) -> None:
    """Its ledger is the world's: both are in the test's own folder."""
    assert setup.ledger == world.database
    assert "replays" not in setup.findings()
    stopped(world)
    found = setup.wrong("replays", "warning")
    assert "a replay of 3 windows" in found["what"]
    assert "tidegate replay readings -s" in found["mend"]
