"""Airflow's own database is away for two minutes while everything is under way; the ledger is there all the time.

Nobody does anything but what a service manager does: a service that has ended is started again when the database is
back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack.ports import LOOPBACK, choose_ports
from dev.stack.postgres import USER
from dev.stack.secrets import Secrets
from dev.stack.state import State
from tests.operators import kills
from tests.operators.harness import Lane, Rig
from tests.operators.kills import PUBLISH, SCHEDULER, TRIGGERER, WRITE
from tests.operators.lines import Line

FULL = os.environ.get("TIDEGATE_OPERATORS") == "all"
AWAY_S = float(os.environ.get("TIDEGATE_AWAY_S", 120))


@pytest.fixture
def apart(stack_roots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rig, Line]]:
    """A stack whose Airflow reaches its database over a line of its own; the ledger has another way to the server."""
    root = stack_roots / "airflow-apart"
    port = choose_ports(["postgres"], {}, {})["postgres"]
    line = Line(LOOPBACK, port)
    password = Secrets.of_root(root).postgres_password
    database = f"postgresql+psycopg2://{USER}:{password}@{LOOPBACK}:{line.port}/airflow"
    folder = tmp_path_factory.mktemp("apart")
    rig = Rig(root, folder, {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database}, ports={"postgres": port})
    try:
        yield rig.up(), line
    finally:
        line.mend()
        rig.down()
        line.close()


@pytest.mark.skipif(not FULL, reason="make test-operators")
def test_two_minutes_without_airflows_database(apart: tuple[Rig, Line]) -> None:
    """Tasks that end meanwhile cannot say so, others go on afterwards, and a window waits for what comes meanwhile."""
    rig, database = apart
    topic = rig.topic("away", 2)
    names = ("twin", PUBLISH, WRITE, "ready", "later")
    twin, publishing, writing, waiting, later = rig.add(*(Lane(f"a_{n}", topic, retries=6) for n in names))
    for lane in (twin, publishing, later):
        lane.land(2)
    twin.publish(0)
    waiting.land(1)
    rig.api.pause(waiting.archive, False)
    rig.wait_task(waiting.archive, waiting.scheduled(0), "ready", "deferred")
    staying = kills.hold(rig, later, PUBLISH)
    ending = [kills.hold(rig, lane, n) for lane, n in ((publishing, PUBLISH), (writing, WRITE))]

    database.cut()
    for one in ending:
        one.line.release()
    waiting.land(1)
    time.sleep(AWAY_S)  # the outage itself
    dead = [name for name in (SCHEDULER, TRIGGERER) if f"airflow-{name}" not in State.load(rig.stack.root).alive()]
    print(f"ended by the outage: {dead}")
    database.mend()
    for name in dead:
        kills.start_service(rig, name)
    staying.line.release()

    for one in (*ending, staying, kills.Held(rig, waiting, waiting.archive, waiting.scheduled(0), "ready")):
        _ends_well(rig, one)
    events = dict(rig.airflow("SELECT source_dag_id, count(*) FROM dataset_event GROUP BY 1"))
    assert events == {lane.archive: 1 for lane in (publishing, waiting, later)}, "each window is told of once"
    rig.wait_run(writing.ingest, "backlog_after_batch_1", "success")
    rig.api.pause(writing.ingest, True)
    writing.publish(0)
    for lane in (publishing, writing, waiting, later):
        rig.api.pause(lane.archive, True)
        assert rig.digest(lane) == rig.digest(twin), (rig.content(lane), rig.content(twin))
        rig.check_settled(lane)


def _ends_well(rig: Rig, held: kills.Held) -> None:
    deadline = time.monotonic() + 1200
    while rig.run(held.dag_id, held.run_id) in ("running", "queued") and time.monotonic() < deadline:
        time.sleep(2)
    print(f"{held.dag_id} {held.task_id}: {rig.task(held.dag_id, held.run_id, held.task_id)}")
    assert rig.run(held.dag_id, held.run_id) == "success", rig.story(held.dag_id, held.run_id)
