"""The short form of the kill soak: one aimed kill at every state of both protocols, on a real broker and PostgreSQL.

Tasks are processes of their own. They stop themselves at a port's call, so that each kill meets the state that it is
meant for; the ledger is asked for that state before the kill. Spark's own processes are killed in the batch that has
Spark; the other batches run the engine in the task.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.soak import acknowledged, task, victims
from tests.soak.compare import compare
from tests.soak.processes import Nursery, Task
from tests.soak.producer import Feed
from tests.soak.scene import HOUR, NAME, T0, Scene
from tests.soak.servers import KAFKA, POSTGRES, Servers
from tests.soak.states import BATCH, WINDOW, States
from tidegate.adapters.footers import FooterProcess
from tidegate.core.base.errors import TidegateError
from tidegate.core.batch.states import LandedBatch
from tidegate.core.window.states import PublishedGeneration, WindowKey
from tidegate.ledger import SqlLedger
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.maintain import reconcile

TOPIC = "kills"
STEP = HOUR // 500
WAIT_S = 240.0
HELPED = (task.DONE, task.AGAIN)
"""What a task may say whose servers were killed under it."""


class Play:
    """Starts tasks, kills them at the state asked for, and counts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.servers = Servers(root, print)
        self.servers.up(TOPIC, 2)
        self.scene = Scene(
            str(root), self.servers.bootstrap, self.servers.ledger_url, step_ms=STEP, topic=TOPIC, engine="here"
        )
        self._nursery = Nursery(self.scene.save(), root / "tasks", f"kills-{root.parent.name}")
        self.feed = Feed(self.scene, root / "acknowledged")
        self.states = States(self.servers)
        self.kills: Counter[tuple[str, str]] = Counter()

    def start(self, what: str, subject: str | int = "", stop_at: str = "") -> Task:
        return self._nursery.start(what, str(subject), stop_at)

    def run(self, what: str, subject: str | int = "") -> None:
        """As the scheduler does: again until it is done."""
        for _ in range(8):
            started = self.start(what, subject)
            code = started.wait(WAIT_S)
            if code in (task.DONE, task.NOTHING):
                return
            assert code == task.AGAIN, (code, started.words)
        raise AssertionError(started.words)

    def stopped(self, what: str, subject: str | int, stop_at: str, state: str) -> Task:
        """A task that has stopped itself at `stop_at`, the ledger being in `state`."""
        started = self.start(what, subject, stop_at)
        started.wait_stopped()
        assert self.state(what, subject) == state, started.words
        return started

    def state(self, what: str, subject: str | int) -> str:
        """As soon as PostgreSQL answers: none of its servers is killed meanwhile."""
        deadline = time.monotonic() + WAIT_S
        while True:
            found = self.states.window(int(subject)) if what in ("publish", "replay") else self.states.batch()
            if found is not None:
                return found
            assert time.monotonic() < deadline, "PostgreSQL does not answer"

    def kill(self, what: str, subject: str | int, stop_at: str, state: str) -> None:
        self.stopped(what, subject, stop_at, state).kill()
        self.count(state, victims.TASK)

    def kill_under(self, what: str, subject: str | int, stop_at: str, state: str, server: str) -> None:
        """The server is killed while the task stands still; the task then goes on and says how it fared."""
        started = self.stopped(what, subject, stop_at, state)
        self.servers.kill(server)
        self.count(state, server)
        self.goes_on(started)
        self.servers.wait_up(server)

    def goes_on(self, stopped: Task) -> None:
        """A zombie awakes: whatever it finds, it neither fails in an unknown way nor raises an alarm."""
        stopped.signal(signal.SIGCONT)
        code = stopped.wait(WAIT_S)
        assert code in HELPED, (code, stopped.words)

    def count(self, state: str, victim: str) -> None:
        self.kills[state, victim] += 1

    def use(self, engine: str) -> None:
        self.scene = replace(self.scene, engine=engine)
        self.scene.save()

    def ledger(self) -> SqlLedger:
        return SqlLedger(self.scene.ledger_url, "test")

    def attempts(self, batch_id: int) -> list[str]:
        return sorted(p.name for p in (self.scene.workdir / "plans").glob(f"{batch_id}.*"))

    def close(self) -> None:
        self._nursery.close()
        self.states.close()
        self.servers.down()


@pytest.fixture
def play(stack_roots: Path) -> Iterator[Play]:
    made = Play(stack_roots / "kills")
    try:
        yield made
    finally:
        made.close()


@contextmanager
def audited(play: Play) -> Iterator[None]:
    """Meanwhile deep audits, one after the other. Each may find the ledger or the broker killed, but nothing wrong."""
    over, found, looks = threading.Event(), list[str](), Counter[str]()

    def look() -> None:
        while not over.is_set():
            try:
                ctx = play.scene.context(lambda line: None, "auditor")
            except TidegateError:
                looks["no answer"] += 1
                over.wait(0.5)  # the ledger is being started again
                continue
            try:
                report = audit(ctx, ctx.ledger.reads, FooterProcess())
                looks["balanced" if report.balanced else "not"] += 1
                found.extend(f"{p.subject}: {p.what}" for p in report.problems)
            except TidegateError:
                looks["no answer"] += 1
            finally:
                ctx.ledger.close()

    auditor = threading.Thread(target=look)
    auditor.start()
    try:
        yield
    finally:
        over.set()
        auditor.join(WAIT_S)
    print(f"audits: {dict(looks)}")
    assert found == []
    assert looks["balanced"] > 0


def test_every_protocol_state_survives_a_kill(play: Play) -> None:
    with audited(play):
        batches_die(play)
        zombies_meet_their_successor(play)
        spark_dies(play)
        windows_die(play)
    a_file_is_lost(play)
    with audited(play):
        drain(play)
    by_state = Counter[str]()
    for (state, _), kills in play.kills.items():
        by_state[state] += kills
    print(f"kills by state: {dict(by_state)}")
    assert [state for state in (*BATCH, *WINDOW) if not by_state[state]] == []
    found = compare(play.scene, acknowledged.read(play.root / "acknowledged"))
    print(found)
    assert found.exact, found
    assert found.acknowledged == found.found
    ctx = play.scene.context(print, "test")
    report = audit(ctx, ctx.ledger.reads, FooterProcess())
    ctx.ledger.close()
    assert report.balanced, report.problems
    the_judge_is_awake(play)


def batches_die(play: Play) -> None:
    """NONE, PLANNED, WRITING, SEALED, LANDED with its side files still owed; with PostgreSQL and the broker as well."""
    play.feed.send(1200)
    play.kill("plan", "run-1", "batches.insert_plan:before", "NONE")
    play.kill("plan", "run-1", "batches.insert_plan:after", "PLANNED")
    play.run("plan", "run-1")
    play.kill_under("write", "run-1", "batches.take:before", "PLANNED", POSTGRES)
    play.kill("write", "run-1", "launcher.run:before", "WRITING")
    play.kill_under("write", "run-1", "launcher.run:before", "WRITING", KAFKA)
    play.run("write", "run-1")
    play.kill("land", "run-1", "storage.rename_no_replace:before", "SEALED")
    play.kill("land", "run-1", "storage.rename_no_replace:after", "SEALED")
    backend_dies(play)
    play.kill("land", "run-1", "batches.land:after", "LANDED")
    play.kill("maintain", "", "catalogue.add_partitions:after", "LANDED")
    play.run("land", "run-1")
    assert play.state("land", "run-1") == "NONE"


def backend_dies(play: Play) -> None:
    """PostgreSQL restarts by itself when one of its processes is killed; the commit's answer is lost."""
    started = play.stopped("land", "run-1", "batches.land:before", "SEALED")
    for backend in play.servers.backends():
        backend.signal(signal.SIGKILL)
    play.count("SEALED", victims.BACKEND)
    play.goes_on(started)
    play.servers.wait_up(POSTGRES)


def zombies_meet_their_successor(play: Play) -> None:
    """Tasks that were stopped before their job, their seal and their rename go on when a successor has landed."""
    play.feed.send(1000)
    play.run("plan", "run-2")
    first = play.stopped("write", "run-2", "launcher.run:before", "WRITING")
    second = play.stopped("write", "run-2", "batches.seal:before", "WRITING")
    play.run("write", "run-2")
    third = play.stopped("land", "run-2", "storage.rename_no_replace:before", "SEALED")
    play.run("land", "run-2")
    ledger = play.ledger()
    landed = ledger.batches.get(NAME, 2)
    for zombie in (second, third, first):
        play.goes_on(zombie)
        assert ledger.batches.get(NAME, 2) == landed
    ledger.close()
    assert isinstance(landed, LandedBatch)
    assert landed.epoch == 2  # the second attempt was complete: its retry sealed it without another job
    assert len(play.attempts(2)) == 2


def spark_dies(play: Play) -> None:
    """The driver's JVM is killed with real Spark at work, and its retry does the batch."""
    play.feed.send(800)
    play.run("plan", "run-3")
    play.use("spark")
    started = play.start("write", "run-3")
    jvm = None
    while jvm is None and not started.ended:
        found = victims.below(started.identity)
        jvm = found[victims.JVM][0] if victims.DRIVER in found and victims.JVM in found else None
    assert jvm is not None, started.words
    assert play.state("write", "run-3") == "WRITING"
    jvm.signal(signal.SIGKILL)
    play.count("WRITING", victims.JVM)
    assert started.wait(WAIT_S) == task.AGAIN, started.words
    play.run("write", "run-3")
    play.run("land", "run-3")
    play.use("here")


def windows_die(play: Play) -> None:
    """OPEN, CLOSING, BUILDING, BUILT, SWAPPING, CURRENT; zombies of two states go on after their successor."""
    hour = T0
    play.kill("publish", hour, "windows.begin_close:before", "OPEN")
    play.kill("publish", hour, "windows.begin_close:after", "CLOSING")
    play.kill("publish", hour, "windows.take:after", "BUILDING")
    moving = play.stopped("publish", hour, "storage.rename_no_replace:after:2", "BUILDING")
    play.count("BUILDING", victims.TASK)
    play.kill("publish", hour, "windows.built:after", "BUILT")
    play.kill("publish", hour, "windows.begin_swap:after", "SWAPPING")
    adding = play.stopped("publish", hour, "catalogue.add_partitions:before", "SWAPPING")
    play.kill_under("publish", hour, "windows.publish:before", "SWAPPING", POSTGRES)
    play.run("publish", hour)
    for zombie in (moving, adding):
        play.goes_on(zombie)
    play.kill("publish", hour + HOUR, "catalogue.add_partitions:after", "SWAPPING")
    play.kill("publish", hour + HOUR, "windows.publish:after", "CURRENT")
    play.kill("publish", hour + HOUR, "windows.announced:before", "CURRENT")
    play.run("publish", hour + HOUR)


def a_file_is_lost(play: Play) -> None:
    hour = T0
    lose_a_file(play, hour)
    play.kill("publish", hour, "catalogue.set_location:after", "SWAPPING")
    play.run("publish", hour)


def lose_a_file(play: Play, hour: int) -> None:
    ledger = play.ledger()
    current = ledger.windows.generation(NAME, WindowKey(hour, hour + HOUR), 1)
    ledger.close()
    assert isinstance(current, PublishedGeneration)
    (Path(current.location.removeprefix("file://")) / current.files[0].path).unlink()


def drain(play: Play) -> None:
    """The rest of the records, every window that can be, every duty."""
    play.run("ingest", "run-4")
    ctx = play.scene.context(print, "test")
    for due in reconcile.due(ctx):
        play.run("publish", due.start_ms)
    ctx.ledger.close()
    play.run("maintain")


def the_judge_is_awake(play: Play) -> None:
    """A file that is there twice, then not at all, is what the comparison exists for."""
    acked = acknowledged.read(play.root / "acknowledged")
    (location, *_) = play.scene.catalogue().partitions("lake.readings").values()
    file = next(f for f in Path(location.removeprefix("file://")).iterdir() if not f.name.startswith(("_", ".")))
    rows = pq.read_metadata(file).num_rows
    again = file.with_name(f"again-{file.name}")
    shutil.copy(file, again)
    found = compare(play.scene, acked)
    assert (found.missing, found.double) == (0, rows)
    again.unlink()
    file.unlink()
    found = compare(play.scene, acked)
    assert (found.missing, found.double) == (rows, 0)
