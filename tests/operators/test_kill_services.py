"""Scheduler and triggerer die while everything is under way, and start again: nobody has to do anything else.

With the scheduler its tasks die, as when a machine goes. Outages of a real five minutes are for `make test-operators`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack.ports import LOOPBACK, choose_ports
from dev.stack.postgres import USER
from dev.stack.secrets import Secrets
from tests.operators import kills
from tests.operators.harness import Lane, Rig
from tests.operators.kills import PLAN, PUBLISH, SCHEDULER, TRIGGERER, WRITE
from tests.operators.lines import Line
from tidegate.core.base import patience

FULL = os.environ.get("TIDEGATE_OPERATORS") == "all"
OUTAGE_S = float(os.environ.get("TIDEGATE_OUTAGE_S", patience.OUTAGE_S))
only_in_full = pytest.mark.skipif(not FULL, reason="make test-operators")


@pytest.fixture(scope="module")
def lanes(rig: Rig) -> tuple[Lane, ...]:
    """A twin, and four that are where the services die."""
    topic = rig.topic("services", 2)
    twin, *others = rig.add(*(Lane(f"s_{n}", topic, retries=4) for n in ("twin", PUBLISH, WRITE, "ready", "later")))
    twin.land(2)
    twin.publish(0)
    return twin, *others


def test_a_scheduler_that_dies_with_its_tasks(rig: Rig, lanes: tuple[Lane, ...]) -> None:
    twin, publishing, writing, *_ = lanes
    publishing.land(2)
    held = [kills.hold(rig, publishing, PUBLISH), kills.hold(rig, writing, WRITE)]
    processes = [one.process() for one in held]
    kills.kill_service(rig, SCHEDULER)
    rig.eventually("its tasks are dead", lambda: not any(p.is_running() for p in processes))
    kills.start_service(rig, SCHEDULER)
    for one in held:
        one.line.release()
        rig.wait_run(one.dag_id, one.run_id, "success")
    rig.wait_run(writing.ingest, "backlog_after_batch_1", "success")
    for lane in (publishing, writing):
        rig.api.pause(lane.ingest, True)
        rig.api.pause(lane.archive, True)
    writing.publish(0)
    for lane in (publishing, writing):
        assert rig.digest(lane) == rig.digest(twin), (rig.content(lane), rig.content(twin))
        rig.check_settled(lane)


@only_in_full
def test_a_triggerer_that_dies_while_a_window_waits(rig: Rig, lanes: tuple[Lane, ...]) -> None:
    """What the window waits for comes while nobody looks."""
    twin, _, _, waiting, _ = lanes
    waiting.land(1)
    rig.api.pause(waiting.archive, False)
    rig.wait_task(waiting.archive, waiting.scheduled(0), "ready", "deferred")
    kills.kill_service(rig, TRIGGERER)
    waiting.land(1)
    kills.start_service(rig, TRIGGERER)
    rig.wait_run(waiting.archive, waiting.scheduled(0), "success")
    assert rig.task(waiting.archive, waiting.scheduled(0), "ready") == ("success", 1), "no try was used up"
    rig.api.pause(waiting.archive, True)
    assert rig.digest(waiting) == rig.digest(twin)
    rig.check_settled(waiting)


@only_in_full
def test_five_minutes_without_anybody(rig: Rig, lanes: tuple[Lane, ...]) -> None:
    """Broker and Hive are away for five minutes; the retries that a YAML has by default outlast it."""
    twin = lanes[0]
    topic = twin.topic
    planning, writing, publishing = rig.add(*(Lane(f"o_{n}", topic, retries=6) for n in (PLAN, WRITE, PUBLISH)))
    publishing.land(2)
    held = [kills.hold(rig, lane, n) for lane, n in ((planning, PLAN), (writing, WRITE), (publishing, PUBLISH))]
    for one in held:
        one.line.cut()
        one.line.release()
    time.sleep(OUTAGE_S)  # the outage itself
    for one in held:
        assert rig.run(one.dag_id, one.run_id) == "running", rig.story(one.dag_id, one.run_id)
        assert one.attempt >= 2, "a try met the outage"
        one.line.mend()
    for one in held:
        _wait_long(rig, one)
    for lane in (planning, writing):
        rig.wait_run(lane.ingest, "backlog_after_batch_1", "success")
        rig.api.pause(lane.ingest, True)
        lane.publish(0)
    rig.api.pause(publishing.archive, True)
    for lane in (planning, writing, publishing):
        assert rig.digest(lane) == rig.digest(twin), (rig.content(lane), rig.content(twin))
        rig.check_settled(lane)


def _wait_long(rig: Rig, held: kills.Held) -> None:
    """The next try may begin eight minutes after the outage's last one."""
    deadline = time.monotonic() + 1200
    while rig.run(held.dag_id, held.run_id) == "running" and time.monotonic() < deadline:
        time.sleep(2)
    assert rig.run(held.dag_id, held.run_id) == "success", rig.story(held.dag_id, held.run_id)


@pytest.fixture
def apart(stack_roots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rig, Line]]:
    """A stack whose tasks and triggers reach the ledger over a line of their own; Airflow's database stays."""
    root = stack_roots / "ledger-apart"
    port = choose_ports(["postgres"], {}, {})["postgres"]
    line = Line(LOOPBACK, port)
    password = Secrets.of_root(root).postgres_password
    folder = tmp_path_factory.mktemp("apart")
    ledger = f"postgresql://{USER}:{password}@{LOOPBACK}:{line.port}/tidegate"
    rig = Rig(root, folder, {"AIRFLOW_CONN_TIDEGATE_LEDGER": ledger}, ports={"postgres": port})
    try:
        yield rig.up(), line
    finally:
        rig.down()
        line.close()


@only_in_full
def test_five_minutes_without_the_ledger(apart: tuple[Rig, Line]) -> None:
    """A task at work, a window that waits and a run that begins: none needs a human when the ledger is back."""
    rig, ledger = apart
    topic = rig.topic("ledger", 2)
    twin, publishing, waiting, beginning = rig.add(
        *(Lane(f"l_{n}", topic, retries=6) for n in ("twin", PUBLISH, "ready", PLAN))
    )
    for lane in (twin, publishing):
        lane.land(2)
    twin.publish(0)
    waiting.land(1)
    rig.api.pause(waiting.archive, False)
    rig.wait_task(waiting.archive, waiting.scheduled(0), "ready", "deferred")
    held = kills.hold(rig, publishing, PUBLISH)
    ledger.cut()
    held.line.release()
    rig.api.pause(beginning.ingest, False)
    rig.trigger(beginning.ingest, "held")
    time.sleep(OUTAGE_S)  # the outage itself
    ledger.mend()
    waiting.land(1)
    _wait_long(rig, held)
    _wait_long(rig, kills.Held(rig, waiting, waiting.archive, waiting.scheduled(0), "ready"))
    _wait_long(rig, kills.Held(rig, beginning, beginning.ingest, "held", PLAN))
    assert rig.task(waiting.archive, waiting.scheduled(0), "ready") == ("success", 1), "waiting uses no try up"
    rig.wait_run(beginning.ingest, "backlog_after_batch_1", "success")
    rig.api.pause(beginning.ingest, True)
    beginning.publish(0)
    for lane in (publishing, waiting, beginning):
        rig.api.pause(lane.archive, True)
        assert rig.digest(lane) == rig.digest(twin), (rig.content(lane), rig.content(twin))
        rig.check_settled(lane)
