"""Windows that wait in the triggerer for another system's count: off the loop, and only where the spec names one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pytest
from airflow.exceptions import TaskDeferred
from sqlalchemy import create_engine, delete

from tests.world import HOUR, T0, World, record, window
from tidegate.adapters.connections import ConnectionMissing
from tidegate.airflow import counts, sensors
from tidegate.core.base.errors import LedgerError, TidegateError, WrongRevision
from tidegate.core.base.plain import dumps
from tidegate.core.spec.pipeline import Completeness
from tidegate.core.window.waits import Answer
from tidegate.ledger import schema
from tidegate.workflow.completeness import ask
from tidegate.workflow.publish import archive

SETTINGS = Completeness(source="topic", conn_id="kafka", topic="audit", poll_ms=1)
PASSED = Answer(True, "the watermark has passed")
LONG = 10**15


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Hour 0 has two rows and its watermark has passed."""
    world = World(tmp_path)
    world.change_spec(completeness=SETTINGS)
    world.produce(record("a", 0.1), record("b", 0.2), record("c", 3.0))
    world.ingest("r1")
    monkeypatch.setattr(counts, "ledger", lambda: world.context().ledger)
    monkeypatch.setattr(counts, "parts", lambda pipeline: (world.pipeline, world.truth))
    return world


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 30))


def waits(world: World, deadline_ms: int = LONG, said: list[str] | None = None) -> Coroutine[Any, Any, Answer]:
    say = (said if said is not None else []).append
    return counts.until_let_through(dumps(world.pipeline), window(0), PASSED, deadline_ms, 0.001, say)


def test_a_pipeline_without_another_system_asks_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.change_spec(completeness=None)
    monkeypatch.setattr(counts, "look", lambda *_: pytest.fail("looked"))
    assert run(waits(world)) is PASSED


def test_a_complete_window_goes_on(world: World) -> None:
    world.truth.counts[T0] = 2
    answer = run(waits(world))
    assert answer.done
    assert "complete: 2 of 2 by audit" in answer.text
    assert archive.ready(world.context(), window(0)).ready


def test_a_window_that_is_short_waits_until_it_is_complete(world: World) -> None:
    world.truth.counts[T0] = 3
    said: list[str] = []

    async def play() -> Answer:
        waiting = asyncio.create_task(waits(world, said=said))
        while not said:
            await asyncio.sleep(0.001)
        world.truth.counts[T0] = 2
        return await waiting

    assert run(play()).done
    assert ["short: 2 of 3" in said[0], "complete: 2 of 2" in said[-1], len(said)] == [True, True, 2]


def test_an_acceptance_ends_the_wait(world: World) -> None:
    world.truth.counts[T0] = 3
    world.change_spec(completeness=replace(SETTINGS, poll_ms=10 * HOUR))
    said: list[str] = []

    async def play() -> Answer:
        world_pipeline = replace(world.pipeline, completeness=replace(SETTINGS, poll_ms=1))  # how often it looks
        waiting = asyncio.create_task(
            counts.until_let_through(dumps(world_pipeline), window(0), PASSED, LONG, 0.001, said.append)
        )
        while not said:
            await asyncio.sleep(0.001)
        ctx = world.context()
        _, shown = ctx.ledger.truths.known("readings", window(0), ("data",))
        assert shown is not None
        ask.accept(ctx, window(0), shown, "lost at the source")
        return await waiting

    assert "accepted: lost at the source" in run(play()).text


def test_its_time_is_up(world: World) -> None:
    world.truth.problem = "HTTP 503"
    answer = run(waits(world, deadline_ms=int(time.time() * 1000) + 50))
    assert not answer.done
    assert "unknown: audit: HTTP 503" in answer.text


def test_a_window_that_somebody_published_meanwhile(world: World) -> None:
    world.truth.counts[T0] = 2
    world.archive(0)
    world.truth.counts[T0] = 99
    assert run(waits(world)).done
    assert len(world.truth.asked) == 1


def test_a_window_that_was_adopted_from_storage_is_not_asked_about(world: World) -> None:
    """The ledger knows no more by what answer it was closed."""
    world.truth.counts[T0] = 2
    world.archive(0)
    engine = create_engine(f"sqlite:///{world.database}")
    with engine.begin() as c:
        for table in (schema.certificates, schema.truths):
            c.execute(delete(table))
    engine.dispose()
    world.truth.counts[T0] = 99
    assert archive.ready(world.context(), window(0)).ready
    assert run(waits(world)).done
    assert len(world.truth.asked) == 1


def test_a_ledger_that_is_away_is_waited_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.truth.counts[T0] = 2
    troubles = [LedgerError("away"), LedgerError("away")]
    real, said = counts.ledger, []

    def ledger() -> Any:
        if troubles:
            raise troubles.pop()
        return real()

    monkeypatch.setattr(counts, "ledger", ledger)
    assert run(waits(world, said=said)).done
    assert said[0] == "away"


@pytest.mark.parametrize("trouble", [WrongRevision("another revision"), ConnectionMissing("no tidegate_ledger")])
def test_what_no_retry_mends_is_the_ledgers_trouble_and_no_windows(
    world: World, monkeypatch: pytest.MonkeyPatch, trouble: TidegateError
) -> None:
    """As for waits for the watermark: else an upgrade fails every window that waits for its count for good."""
    world.truth.counts[T0] = 2
    troubles, real, said = [trouble], counts.ledger, list[str]()

    def ledger() -> Any:
        if troubles:
            raise troubles.pop()
        return real()

    monkeypatch.setattr(counts, "ledger", ledger)
    assert run(waits(world, said=said)).done
    assert said[0].startswith(str(trouble))
    troubles.append(trouble)
    ended = run(waits(world, deadline_ms=0))
    assert (ended.done, ended.text) == (False, str(trouble))


def test_the_loop_goes_on_while_the_other_system_is_slow(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more than a few ask at a time."""
    at_work, most, go, lock = 0, 0, threading.Event(), threading.Lock()

    def slow(pipeline: str, key: object) -> Any:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        assert go.wait(30)
        with lock:
            at_work -= 1
        raise LedgerError("slow")

    monkeypatch.setattr(counts, "look", slow)
    ticks = 0

    async def play() -> None:
        nonlocal ticks
        deadline = int(time.time() * 1000) + 100
        waiting = [asyncio.create_task(waits(world, deadline)) for _ in range(12)]
        while not all(w.done() for w in waiting):
            ticks += at_work > 1
            if ticks > 20:
                go.set()
            await asyncio.sleep(0.001)

    run(play())
    assert 1 < most <= counts.AT_ONCE


def test_the_trigger_goes_on_with_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Passed:
        async def wait(self, *_: object) -> Answer:
            return PASSED

    async def first(deadline_ms: int) -> Any:
        key = window(0)
        trigger = sensors.WindowReadyTrigger(dumps(world.pipeline), key.start_ms, key.end_ms, deadline_ms, 0.001)
        return (await anext(trigger.run())).payload

    monkeypatch.setattr("tidegate.airflow.hub.hub", Passed)
    world.truth.counts[T0] = 3
    event = run(first(int(time.time() * 1000)))
    assert (event["outcome"], "short: 2 of 3 by audit" in event["text"]) == ("late", True)
    world.truth.counts[T0] = 2
    assert run(first(LONG))["outcome"] == "ready"


@pytest.mark.parametrize(
    ("settings", "more_ms"),
    [
        (None, 0),
        (replace(SETTINGS, policy="warn"), 0),
        (replace(SETTINGS, patience_ms=5 * HOUR), 5 * HOUR),
        (SETTINGS, HOUR),
    ],
)
def test_patience_comes_on_top_of_the_deadline(world: World, settings: Completeness | None, more_ms: int) -> None:
    """Else the task fails while its window only waits."""
    world.change_spec(completeness=settings)
    sensor = sensors.WindowReadySensor(task_id="ready", pipeline=world.pipeline, poll_s=1.0)
    before = int(time.time() * 1000)
    with pytest.raises(TaskDeferred) as deferred:
        sensor._wait(window(0))
    wait_ms = deferred.value.trigger.deadline_ms - world.pipeline.archive.sla_ms - before
    assert more_ms <= wait_ms < more_ms + 60_000
