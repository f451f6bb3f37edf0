"""Warm sessions with real Spark, broker and PostgreSQL: plans in turn, a death between two, a zombie that wakes."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg2
import pytest
from confluent_kafka.admin import NewTopic

from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.spark import recommended_conf
from dev.stack.topics import create_topic
from tests.soak import acknowledged
from tests.soak.compare import compare
from tests.soak.producer import Feed
from tests.soak.scene import NAME, Scene, python_path
from tidegate.core.base.errors import JobFailed
from tidegate.core.batch.states import LandedBatch
from tidegate.core.target.paths import RECEIPT
from tidegate.ledger.migrate import migrate
from tidegate.spark.launcher import submit_command
from tidegate.spark.warm_session import Patience, WarmLauncher, end_sessions
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest

HELD = Path(__file__).parents[1] / "soak" / "held"
BATCHES, RECORDS = 4, 150
WAIT_S = 240.0


class Host:
    """Tasks of a scene whose jobs run in warm sessions below `folder`."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self.scene, self.held = scene, folder / "held"
        self.sessions = Path(tempfile.mkdtemp(prefix="tg"))  # names of sockets are short
        self.held.mkdir()
        self.said: list[str] = []
        self.contexts: list[Context] = []

    def task(self, held: bool = False) -> Context:
        """A new task's process, in effect. `held`: its session waits before it writes a receipt."""
        env = {
            "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": f"{self.scene.root}/spark", "PYTHONPATH": python_path(),
        }  # fmt: skip
        if held:
            env |= {"TIDEGATE_HELD": str(self.held), "PYTHONPATH": os.pathsep.join([str(HELD), python_path()])}
        submit = submit_command(
            str(Path(sys.executable).with_name("spark-submit")), "local[2]", recommended_conf(Places.of_checkout())
        )
        patience = Patience(silence=WAIT_S, busy=WAIT_S)
        ctx = self.scene.context(self.said.append, "test")
        ctx.launcher = WarmLauncher(self.said.append, submit, _NoJobs(), self.sessions, env, patience=patience)
        self.contexts.append(ctx)
        return ctx

    def batch(self, run: str) -> tuple[int, int]:
        """JVM and Python driver of the session that wrote this run's batch."""
        ctx = self.task()
        ingest.plan(ctx, run)
        ingest.write(ctx, run)
        ingest.land(ctx, run)
        return tuple(ctx.launcher._pids)  # type: ignore[attr-defined]

    def processes(self) -> list[psutil.Process]:
        """Of all sessions, what they have started included."""
        found: dict[psutil.Process, None] = {}
        for process in psutil.process_iter():
            try:
                if str(self.sessions) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                    found |= dict.fromkeys([process, *process.children(recursive=True)])
            except psutil.Error:
                continue
        return list(found)

    def close(self) -> None:
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass
        for ctx in self.contexts:
            ctx.ledger.close()


class _NoJobs:
    def run(self, plan_path: str) -> None:
        raise AssertionError(f"a job of its own was started for {plan_path}")


@pytest.fixture
def host(kafka, postgres, tmp_path: Path) -> Iterator[Host]:
    name = f"warm_{uuid.uuid4().hex[:12]}"
    create_topic({"bootstrap.servers": kafka.kafka_bootstrap}, NewTopic(name, 2, 1))
    connection = psycopg2.connect(postgres.ledger_url)
    connection.autocommit = True
    connection.cursor().execute(f"CREATE DATABASE {name}")
    connection.close()
    url = postgres.ledger_url.rpartition("/")[0] + f"/{name}"
    migrate(url)
    scene = Scene(str(tmp_path), kafka.kafka_bootstrap, url, topic=name, max_records=RECORDS)
    Feed(scene, tmp_path / "acknowledged").send(BATCHES * RECORDS)
    made = Host(scene, tmp_path)
    yield made
    made.close()


def test_sessions_that_serve_die_and_freeze_land_every_record_once(host: Host, tmp_path: Path) -> None:
    first = host.batch("run-1")
    assert host.batch("run-2") == first
    for pid in first:
        os.kill(pid, signal.SIGKILL)  # between two plans: the next finds nobody and starts another

    task = host.task(held=True)
    ingest.plan(task, "run-3")
    errors: list[BaseException] = []
    thread = threading.Thread(target=lambda: _noting(errors, lambda: ingest.write(task, "run-3")), daemon=True)
    thread.start()
    until(lambda: list(host.held.glob("*.waiting")) or errors)
    assert not errors
    zombie = task.launcher._pids  # type: ignore[attr-defined]
    task.launcher._patience = Patience(silence=3.0)  # type: ignore[attr-defined]
    for pid in zombie:
        os.kill(pid, signal.SIGSTOP)  # its data files are there, the receipt is not
    thread.join(WAIT_S)
    assert [type(e) for e in errors] == [JobFailed]
    assert "silent" in str(errors[0])

    third = host.batch("run-3")  # the task's next try
    assert not {*third} & {*first, *zombie}
    (waiting,) = host.held.glob("*.waiting")
    assert waiting.stem.startswith("3.1-")
    landed = task.ledger.batches.get(NAME, 3)
    assert isinstance(landed, LandedBatch)
    assert landed.epoch == 2

    stale = host.scene.workdir / "tmp" / waiting.stem / RECEIPT
    assert not stale.exists()
    waiting.with_suffix(".go").touch()
    for pid in zombie:
        os.kill(pid, signal.SIGCONT)
    until(stale.exists)  # it finishes its plan, where nobody looks
    until(lambda: not any(p.pid in zombie for p in host.processes()))  # it sees that its place was given away
    assert task.ledger.batches.get(NAME, 3) == landed
    assert host.batch("run-4") == third
    found = compare(host.scene, acknowledged.read(tmp_path / "acknowledged"))
    assert found.exact
    assert (found.acknowledged, found.found) == (BATCHES * RECORDS, BATCHES * RECORDS)

    assert end_sessions(host.sessions) == 1
    until(lambda: not host.processes())


def _noting(errors: list[BaseException], do: Callable[[], object]) -> None:
    try:
        do()
    except BaseException as e:
        errors.append(e)


def until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.02)
