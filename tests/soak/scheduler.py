"""What Airflow does in the product: one lane of ingest runs, one of windows; a task is tried again until it is done."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tests.soak import task
from tests.soak.processes import GIVEN_UP, KILLED, Nursery, Task
from tests.soak.scene import HOUR, NAME, Scene
from tidegate.core.base.errors import LedgerError
from tidegate.core.window.states import PublishedGeneration, WindowKey
from tidegate.ledger import SqlLedger
from tidegate.workflow.base.context import Context
from tidegate.workflow.maintain import reconcile

TASK_TIMEOUT_S = 150.0
"""Airflow's execution_timeout; what is older is given up, as if its host had been lost."""
MAX_REFUSALS = 6
_PAUSE_S = 0.5
Say = Callable[[str], None]


class Stopped(Exception):
    """The soak ends: start nothing more."""


@dataclass(frozen=True)
class Crew:
    """Who runs the jobs: real Spark, or for a share of the tasks the engine in the task's own process."""

    spark_share: float
    rng: random.Random

    def engine(self) -> str:
        return "spark" if self.rng.random() < self.spark_share else "here"


class Lane:
    """Starts one kind of task after another. `live` is the one that runs; those given up live on as `zombies`."""

    def __init__(self, name: str, scene: Scene, nursery: Nursery, say: Say, findings: list[str], crew: Crew) -> None:
        self.name, self.scene, self._nursery, self._say, self._findings = name, scene, nursery, say, findings
        self._crew = crew
        self.job_s = 10.0  # how long the last job took that nobody disturbed
        self.tries = 0  # of the present task
        self.live: Task | None = None
        self.aim: tuple[str, str] | None = None  # what, and where the next task of that kind shall stop itself
        self.zombies: list[Task] = []
        self.steps = 0  # tasks that were brought to their end: whoever waits for a successor watches this
        self.outcomes: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._draining, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def drain(self) -> None:
        """Do what is there to be done, then end."""
        self._draining.set()

    def stop(self) -> None:
        self._stop.set()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return self.ended

    def round(self) -> bool:
        """One round of work; False when there is nothing to do."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    busy = self.round()
                except LedgerError:
                    busy = True  # PostgreSQL is away: its supervisor brings it back
                if not busy and self._draining.is_set():
                    return
                self._stop.wait(0 if busy else _PAUSE_S)
        except Stopped:
            return
        except BaseException as e:
            self.failure = e
            raise

    def _done(self, what: str, subject: str = "") -> int:
        """Try until it is done; DONE or NOTHING. Raises Stopped, RuntimeError after too many refusals."""
        refusals, engine = 0, self._crew.engine()
        while True:
            if self._stop.is_set():
                raise Stopped
            began, self.tries = time.monotonic(), self.tries + 1
            self.live = started = self._nursery.start(what, subject, self._take_aim(what), engine)
            code = started.wait(TASK_TIMEOUT_S)
            self.live = None
            self.outcomes[OUTCOMES.get(code, str(code))] += 1
            if code in (task.DONE, task.NOTHING):
                self.steps, self.tries = self.steps + 1, 0
                if what == "write" and engine == "spark":
                    self.job_s = time.monotonic() - began
                started.log.unlink(missing_ok=True)
                return code
            if code == GIVEN_UP:
                self.zombies.append(started)
            elif code in (task.HUMAN, task.BROKEN):
                refusals += 1
                self.report(started)
                if refusals >= MAX_REFUSALS:
                    raise RuntimeError(f"no try of {what} {subject} succeeds any more: {started.words}")
            self._stop.wait(_PAUSE_S)

    def _take_aim(self, what: str) -> str:
        aim = self.aim
        if aim is None or aim[0] != what:
            return ""
        self.aim = None
        return aim[1]

    def report(self, ended: Task) -> None:
        """No task may ever ask for a human, or fail with what is not an error of ours."""
        self._findings.append(ended.words)
        self._say(f"FINDING: {ended.words}")


OUTCOMES = {
    task.DONE: "done", task.AGAIN: "failed, tried again", task.HUMAN: "asked for a human",
    task.NOTHING: "nothing to do", task.BROKEN: "failed in an unknown way", GIVEN_UP: "given up", KILLED: "killed",
}  # fmt: skip


class Ingest(Lane):
    """plan, write, land: one batch a run; now and then the maintenance task."""

    def __init__(self, *args: object, first_run: int = 1) -> None:
        super().__init__("ingest", *args)  # type: ignore[arg-type]
        self.runs = first_run

    def round(self) -> bool:
        run = f"run-{self.runs}"
        if self._done("plan", run) == task.NOTHING:
            return False
        self._done("write", run)
        self._done("land", run)
        self.runs += 1
        if self.runs % 3 == 0:
            self._done("maintain")
        return True


class Archive(Lane):
    """Windows that are due, oldest first; some are cleared, replayed, or lose a file that a rebuild must bring back."""

    def __init__(self, *args: object, rng: random.Random) -> None:
        super().__init__("archive", *args)  # type: ignore[arg-type]
        self._rng = rng
        self._context: Context | None = None
        self.window: int | None = None
        self.published = self.cleared = self.replayed = self.lost_files = 0

    def round(self) -> bool:
        if self._context is None:
            self._context = self.scene.context(lambda line: None, "soak")
        due = list(islice(reconcile.due(self._context), 1))
        if not due:
            return False
        self.window = start = due[0].start_ms
        self._done("publish", str(start))
        self.published += 1
        if not self._draining.is_set():
            self._disturb(start)
        self.window = None
        return True

    def _disturb(self, start: int) -> None:
        """What operators and accidents do to a published window."""
        dice = self._rng.random()
        if dice < 0.2 and self._lose_a_file(start):
            self.lost_files += 1
            self._done("publish", str(start))
        elif dice < 0.3:
            self.replayed += 1
            self._done("replay", str(start))
        elif dice < 0.6:
            self.cleared += 1
            self._done("publish", str(start))

    def _lose_a_file(self, start: int) -> bool:
        """Only while nobody lives who was given up: he might be half-way in reading it."""
        if any(not z.ended for z in self.zombies):
            return False
        ledger = SqlLedger(self.scene.ledger_url, "soak")
        try:
            key = WindowKey(start, start + HOUR)
            window = ledger.windows.get(NAME, key)
            current = ledger.windows.generation(NAME, key, window.newest)
        finally:
            ledger.close()
        if not isinstance(current, PublishedGeneration) or not current.files:
            return False
        lost = self._rng.choice(current.files).path
        (Path(current.location.removeprefix("file://")) / lost).unlink()
        return True


def wait_for_zombies(lanes: list[Lane], timeout_s: float) -> list[Task]:
    """Those that still live after that time. What the others said counts: no zombie may raise an alarm either."""
    deadline = time.monotonic() + timeout_s
    while any(not z.ended for lane in lanes for z in lane.zombies) and time.monotonic() < deadline:
        for lane in lanes:
            for zombie in lane.zombies:
                zombie.signal(signal.SIGCONT)  # it may have stopped itself
        time.sleep(0.1)
    for lane in lanes:
        for zombie in lane.zombies:
            if zombie.code in (task.HUMAN, task.BROKEN):
                lane.report(zombie)
    return [z for lane in lanes for z in lane.zombies if not z.ended]
