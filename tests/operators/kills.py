"""What can be killed while a task is at work, how a task is brought to a place where it can be, and the last words."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

import psutil

from dev.stack import keeper
from dev.stack.airflow_db import airflow_binary
from dev.stack.processes import Identity, Launcher, Program
from dev.stack.state import State
from tests.operators.harness import Lane, Rig
from tests.soak.victims import DRIVER, JVM, kind_of

MARKED, TASK, SUPERVISOR = "marked failed", "task process", "its supervisor"
BROKER, HIVE = "broker", "Hive"
SCHEDULER, TRIGGERER = "scheduler", "triggerer"
PLAN, WRITE, LAND, READY, PUBLISH, REPLAY, MAINTAIN = "plan", "write", "land", "ready", "publish", "replay", "maintain"
_FOLDED = "::group::Post task execution logs"
_PREFIX = re.compile(r"^\[[^]]+\] \{[^}]+\} (\w+) - ")


@dataclass(frozen=True)
class Held:
    """A task that stands at a call to Kafka or Hive until the line is released."""

    rig: Rig
    lane: Lane
    dag_id: str
    run_id: str
    task_id: str

    @property
    def line(self):
        """The line at which it stands."""
        return self.lane.hive if self.task_id == PUBLISH else self.lane.kafka

    @property
    def attempt(self) -> int:
        """Number of its present try."""
        return self.rig.task(self.dag_id, self.run_id, self.task_id)[1]

    def process(self) -> psutil.Process:
        """The task's own process, which runs the operator; its parent supervises it. Waits for the next try between
        two: a held request ends by its own time-out, which on a busy machine is soon."""
        found: list[psutil.Process] = []

        def look() -> bool:
            with contextlib.suppress(psutil.Error):
                found[:] = [self._present()]
            return bool(found)

        self.rig.eventually(
            f"{self.dag_id} {self.task_id} runs", look, lambda: self.rig.story(self.dag_id, self.run_id)
        )
        return found[0]

    def _present(self) -> psutil.Process:
        """Raises psutil.NoSuchProcess between two tries: no number at all would mean this process."""
        found = self.rig.airflow(
            "SELECT pid FROM task_instance WHERE dag_id = :d AND run_id = :r AND task_id = :t",
            d=self.dag_id, r=self.run_id, t=self.task_id,
        )  # fmt: skip
        if found[0][0] is None:
            raise psutil.NoSuchProcess(0, msg="no try is at work")
        return psutil.Process(found[0][0])

    def of_job(self, kind: str) -> psutil.Process:
        """The JVM or the Python driver of its Spark job, once it is there."""
        found: list[psutil.Process] = []

        def look() -> bool:
            try:
                below = self._present().children(recursive=True)
                found[:] = [p for p in below if kind_of(p.cmdline()) == kind]
            except psutil.Error:
                return False
            return bool(found)

        self.rig.eventually(f"{self.dag_id} has its {kind}", look, lambda: self.rig.story(self.dag_id, self.run_id))
        return found[0]

    def stands(self) -> None:
        """Wait until its request is under way and held."""
        self.rig.eventually(
            f"{self.dag_id} {self.task_id} stands at its line", lambda: self.line.waiting > 0,
            lambda: self.rig.story(self.dag_id, self.run_id),
        )  # fmt: skip

    def mark_failed(self) -> None:
        """As the button does."""
        form = {"dag_id": self.dag_id, "dag_run_id": self.run_id, "task_id": self.task_id, "confirmed": "true"}
        flags = dict.fromkeys(("past", "future", "upstream", "downstream"), "false")
        self.rig.browser.post("/failed", form | flags)


def hold(rig: Rig, lane: Lane, task_id: str) -> Held:
    """A run of the lane whose task `task_id` runs and stands. For publish, two batches must have landed; for replay
    the window must be published."""
    if task_id in (PLAN, WRITE, LAND):
        held = Held(rig, lane, lane.ingest, "held", task_id)
        if task_id == PLAN:
            lane.kafka.hold()
        elif task_id == LAND:
            lane.kafka.hold(topic_id(lane).encode())  # the mark that goes with the group's offsets
        rig.api.pause(lane.ingest, False)
        rig.trigger(lane.ingest, "held")
        if task_id == WRITE:
            rig.wait_task(lane.ingest, "held", PLAN, "success")
            lane.kafka.hold()
    elif task_id == PUBLISH:
        held = Held(rig, lane, lane.archive, lane.scheduled(0), task_id)
        lane.hive.hold(b"ADD")
        rig.api.pause(lane.archive, False)
    elif task_id == REPLAY:
        held = Held(rig, lane, lane.replay, "held", task_id)
        lane.kafka.hold()
        rig.api.pause(lane.replay, False)
        rig.trigger(lane.replay, "held", lane.hour(0))
    else:
        held = Held(rig, lane, lane.maintain, "held", task_id)
        lane.kafka.hold()
        rig.trigger(lane.maintain, "held")
        rig.api.pause(lane.maintain, False)
    rig.wait_task(held.dag_id, held.run_id, task_id, "running")
    held.stands()
    return held


def topic_id(lane: Lane) -> str:
    """As Kafka says it, in words."""
    with lane.context() as ctx:
        return ctx.source.look(lane.topic).topic_id


def kill(victim: str, held: Held) -> None:
    """SIGKILL to it; `marked failed` is what the button does."""
    if victim == MARKED:
        held.mark_failed()
    elif victim == TASK:
        held.process().kill()
    elif victim == SUPERVISOR:
        parent = held.process().parent()
        assert parent is not None
        parent.kill()
    elif victim in (JVM, DRIVER):
        held.of_job(victim).kill()
    else:
        raise AssertionError(f"{victim} is no process of one task")


def kill_service(rig: Rig, service: str) -> None:
    """SIGKILL to the scheduler or the triggerer; with the scheduler its tasks die, as when a machine goes."""
    guard = State.load(rig.stack.root).alive()[f"airflow-{service}"]
    os.kill(keeper.descendants(guard.pid)[0], signal.SIGKILL)
    rig.eventually(f"the {service} is gone", lambda: not guard.alive)


def start_service(rig: Rig, service: str) -> None:
    """Start it again; returns when it beats."""
    state = State.load(rig.stack.root)
    owner = Identity.parse(state.owner) if state.owner else None
    launcher = Launcher(run_id=state.run_id, logs=rig.stack.root / "logs", owner=owner, on_start=state.add)
    program = Program([airflow_binary(), service, "--skip-serve-logs"], rig.info.env, rig.stack.root / "airflow")
    kind = {"scheduler": "SchedulerJob", "triggerer": "TriggererJob"}[service]
    beat = "SELECT max(id) FROM job WHERE job_type = :k AND state = 'running'"
    before = rig.airflow(beat, k=kind)[0][0] or 0
    launcher.start(f"airflow-{service}", program)
    _kept.append(launcher)
    rig.eventually(f"the {service} beats", lambda: (rig.airflow(beat, k=kind)[0][0] or 0) > before)


_kept: list[Launcher] = []
"""Its children are this process's: held, or Python warns of their being lost."""


def last_words(log: str) -> tuple[str, str]:
    """Level and text of the last line that the UI shows unfolded."""
    shown = list(takewhile(lambda line: _FOLDED not in line, log.splitlines()))
    lines = [line for line in shown if _PREFIX.match(line)]
    assert lines, log[-2000:]
    found = _PREFIX.match(lines[-1])
    assert found
    return found[1], lines[-1][found.end() :]


def side_by_side(cases: dict[str, Callable[[], None]], workers: int) -> dict[str, BaseException | None]:
    """All of them, so many at a time; what each ended with."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        futures = {name: pool.submit(case) for name, case in cases.items()}
        return {name: future.exception() for name, future in futures.items()}
