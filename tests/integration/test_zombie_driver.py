"""SIGKILL of the spark-submit JVM leaves the job's Python driver alive: what it does later must not matter.

Real spark-submit, broker and PostgreSQL. Each driver waits before it writes its receipt (`tests/soak/held`), its JVM
is killed meanwhile, and it goes on when the test says so.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg2
import pytest
from confluent_kafka.admin import NewTopic

from dev.stack.processes import Identity
from dev.stack.topics import create_topic
from tests.soak import acknowledged, victims
from tests.soak.compare import compare
from tests.soak.producer import Feed
from tests.soak.scene import NAME, Scene, python_path
from tidegate.core.base.errors import JobKilled, LostComparison
from tidegate.core.batch.states import LandedBatch, SealedBatch, WritingBatch
from tidegate.core.target.paths import RECEIPT
from tidegate.ledger.migrate import migrate
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest, sealing

HELD = Path(__file__).parents[1] / "soak" / "held"
RECORDS = 600
WAIT_S = 240.0


@pytest.fixture
def scene(kafka, postgres, tmp_path: Path) -> Scene:
    name = f"zombies_{uuid.uuid4().hex[:12]}"
    create_topic({"bootstrap.servers": kafka.kafka_bootstrap}, NewTopic(name, 2, 1))
    connection = psycopg2.connect(postgres.ledger_url)
    connection.autocommit = True
    connection.cursor().execute(f"CREATE DATABASE {name}")
    connection.close()
    url = postgres.ledger_url.rpartition("/")[0] + f"/{name}"
    migrate(url)
    made = Scene(str(tmp_path), kafka.kafka_bootstrap, url, topic=name)
    Feed(made, tmp_path / "acknowledged").send(RECORDS)
    return made


class Zombies:
    """Attempts whose JVM was killed while their driver was about to write the receipt; ended with the test."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self._scene, self._folder = scene, folder
        self._drivers: list[Identity] = []
        self.contexts: list[Context] = []

    def context(self) -> Context:
        """A new task's process, in effect."""
        ctx = self._scene.context(print, "test")
        path = os.pathsep.join([str(HELD), python_path()])
        ctx.launcher = self._scene.launcher(print, {"TIDEGATE_HELD": str(self._folder), "PYTHONPATH": path})
        self.contexts.append(ctx)
        return ctx

    def make(self, run: str, epoch: int) -> str:
        """Run the write task until its driver waits, kill the JVM below it; the attempt's name."""
        ctx, errors = self.context(), []

        def write() -> None:
            try:
                ingest.write(ctx, run)
            except BaseException as e:
                errors.append(e)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        waiting = until(lambda: list(self._folder.glob(f"*.{epoch}-*.waiting")) or not thread.is_alive())
        assert isinstance(waiting, list), errors
        (driver,), (jvm,) = self._below(victims.DRIVER), self._below(victims.JVM)
        self._drivers.append(driver)
        jvm.signal(signal.SIGKILL)
        thread.join(WAIT_S)
        assert [type(e) for e in errors] == [JobKilled]
        assert driver.alive
        assert psutil.Process(driver.pid).status() != psutil.STATUS_ZOMBIE
        return waiting[0].stem

    def awake(self, attempt: str) -> Path:
        """It goes on, writes its receipt and ends; the receipt's path."""
        receipt = self._scene.workdir / "tmp" / attempt / RECEIPT
        assert not receipt.exists()
        (self._folder / f"{attempt}.go").touch()
        until(receipt.exists)
        until(lambda: not any(d.alive for d in self._drivers if attempt in _arguments(d)))
        return receipt

    def _below(self, kind: str) -> list[Identity]:
        """Of this scene only: the test run may have other Spark processes, such as a Thrift server."""
        found = victims.below(Identity.of(os.getpid())).get(kind, [])
        return [p for p in found if str(self._scene.workdir) in _arguments(p)]

    def close(self) -> None:
        for process in (*self._below(victims.JVM), *self._below(victims.DRIVER)):
            process.signal(signal.SIGKILL)
        for driver in self._drivers:
            driver.signal(signal.SIGKILL)
        for ctx in self.contexts:
            ctx.ledger.close()


@pytest.fixture
def zombies(scene: Scene, tmp_path: Path) -> Iterator[Zombies]:
    folder = tmp_path / "held"
    folder.mkdir()
    made = Zombies(scene, folder)
    yield made
    made.close()


def test_a_driver_that_outlives_its_jvm_does_no_harm(scene: Scene, zombies: Zombies, tmp_path: Path) -> None:
    """The first zombie is overtaken: its receipt is complete when its successor writes, and nobody looks at it.

    The second finishes before its retry, while the epoch is still its own: the retry seals its work."""
    assert ingest.plan(zombies.context(), "run-1") == 1
    first = zombies.make("run-1", 1)
    second = zombies.make("run-1", 2)
    ctx = zombies.context()
    overtaken, own = _attempt(ctx, first), _attempt(ctx, second)
    stale = zombies.awake(first)
    assert sealing.seal_if_complete(ctx, own) is None
    with pytest.raises(LostComparison):
        sealing.seal(ctx, overtaken)  # what its task would do, had it lived
    assert ctx.ledger.batches.get(NAME, 1) == own

    finished = zombies.awake(second)
    retry = zombies.context()
    retry.launcher = _NoMoreJobs()
    ingest.write(retry, "run-1")
    sealed = ctx.ledger.batches.get(NAME, 1)
    assert isinstance(sealed, SealedBatch)
    assert (sealed.epoch, sealed.nonce) == (own.epoch, own.nonce)
    ingest.land(retry, "run-1")
    assert not finished.exists()  # renamed with its directory
    landed = ctx.ledger.batches.get(NAME, 1)
    assert isinstance(landed, LandedBatch)
    for step in (ingest.write, ingest.land):
        step(retry, "run-1")
    assert sealing.seal(retry, overtaken) is None  # it learns that the batch has landed
    assert ctx.ledger.batches.get(NAME, 1) == landed
    assert stale.exists()
    found = compare(scene, acknowledged.read(tmp_path / "acknowledged"))
    assert found.exact
    assert (found.acknowledged, found.found) == (RECORDS, RECORDS)


class _NoMoreJobs:
    def run(self, plan_path: str) -> None:
        raise AssertionError(f"a job was started for {plan_path}")


def _attempt(ctx: Context, name: str) -> WritingBatch:
    """The batch as the task of that attempt knew it."""
    batch = ctx.ledger.batches.get(NAME, 1)
    epoch, _, nonce = name.partition(".")[2].partition("-")
    return WritingBatch(batch.plan, int(epoch), nonce)


def _arguments(process: Identity) -> str:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_text()
    except OSError:
        return ""


def until(look: Callable[[], object]) -> object:
    deadline = time.monotonic() + WAIT_S
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found
