"""Two tasks at one window: who is overtaken waits for the other, and neither builds it again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.world import World, record, window
from tidegate.core.spec.pipeline import Column, Reopening
from tidegate.workflow.base import turn as turns
from tidegate.workflow.late import reopen
from tidegate.workflow.replay import replay as replays
from tidegate.workflow.replay import rollback

PATIENCE_S = 60.0
Do = Callable[[Any], Any]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Hour 0 is published, late rows of it wait, its columns have changed."""
    monkeypatch.setattr(turns, "TIMES", 1e6)
    made = World(tmp_path)
    made.produce(record("a", 0.1), record("b", 1.2), record("d", 3.9))
    made.produce(record("e", 4.5), partition=1)
    made.ingest("r1")
    made.archive(0)
    made.produce(record("late", 0.3))
    made.ingest("r2")
    columns = (*made.pipeline.columns[:2], Column(name="value", type="int", path="$.other"))
    made.change_spec(columns=columns, reopening=Reopening(age_ms=None))
    yield made
    made.close()


def two(world: World, do: Do) -> tuple[list[str], list[Any]]:
    """One begins, and another while the first one's job is at work; the other's job goes on once the first has been
    overtaken. Whose jobs there were, and what came of both."""
    jobs: list[str] = []
    at_work, came_back = threading.Event(), threading.Event()
    found: list[Future[Any]] = []

    def context(who: str) -> Any:
        ctx = world.context()
        launcher = world.launcher
        assert launcher is not None
        run = launcher.run

        def job(path: str) -> None:
            jobs.append(who)
            if jobs == ["first"]:
                found.append(pool.submit(do, other))
                assert at_work.wait(PATIENCE_S)
            elif jobs == ["first", "other"]:
                at_work.set()
                assert came_back.wait(PATIENCE_S)
            else:
                came_back.set()  # the first has taken the window back
            run(path)

        launcher.run = job  # type: ignore[method-assign]
        say = ctx.say

        def hear(line: str) -> None:
            say(line)
            if who == "first" and "it is waited for" in line:
                came_back.set()

        return replace(ctx, launcher=launcher, local_launcher=None, say=hear)

    with ThreadPoolExecutor(1) as pool:
        first, other = context("first"), context("other")
        mine = do(first)
        return jobs, [mine, found[0].result(PATIENCE_S)]


@pytest.mark.parametrize(
    "do",
    [
        lambda ctx: replays.replay(ctx, window(0)),
        lambda ctx: replays.replay_range(ctx, [window(0)], again=True)[0].published,
        lambda ctx: reopen.reopen(ctx, window(0), "why"),
    ],
    ids=["replay", "a range of one", "reopen"],
)
def test_each_builds_it_once(world: World, do: Do) -> None:
    jobs, found = two(world, do)
    assert jobs == ["first", "other"]
    assert {p.generation for p in found} == {2}


def test_a_rollback_too(world: World) -> None:
    world.replay(0)
    jobs, found = two(world, lambda ctx: rollback.rollback(ctx, window(0), 1, "why"))
    assert jobs == ["first", "other"]
    assert {p.generation for p in found} == {3}


def test_one_that_has_died_is_not_waited_for_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TIMES", 0.5)
    ctx = world.context()
    assert world.launcher is not None
    run, taken = world.launcher.run, []

    def job(path: str) -> None:
        if not taken:
            taken.append(ctx.ledger.windows.take("readings", window(0), 2, "dead"))
        run(path)

    world.launcher.run = job  # type: ignore[method-assign]
    assert replays.replay(ctx, window(0)).generation == 2
    assert any("another task has begun to build 2013-01-05T00:00Z again: it is waited for" in s for s in world.said)
