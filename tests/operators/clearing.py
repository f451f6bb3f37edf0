"""One cell of Clear played on a lane of its own: bring the task into the state, clear it, let it end, look."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from tests.e2e.airflow_api import eventually
from tests.operators.cells import AFTER, FAILED, OWN, RUNNING, SUCCEEDED, WITHIN, Cell
from tests.operators.harness import LONG_S, Lane, Rig
from tests.operators.ways import REST, RUN, TASK
from tidegate.airflow.backfill.stranded_runs import HEARTBEAT_LIMIT

TWO_BATCHES, THREE_BATCHES = "clear-two", "clear-three"
TWINS = {"ingest": "twin_ingest", "archive": "twin_archive", "replay": "twin_replay", "maintain": "twin_replay"}
"""Lanes that nobody touches, by kind of DAG: what a lane's ledger must be like afterwards."""
FIRST, MOST_RUNS = 9, 8
"""The first window: two more are over, and another with each hour that the tests take; their runs wait for records and
never fill max_active_runs."""
OWN_JOB = {("write", RUNNING), ("replay", RUNNING), ("land", FAILED)}
"""Something happens while the Spark job runs, so it has a spark-submit of its own: a warm session is shared, and done
with such a job before anybody has seen it begin."""


def topics(rig: Rig) -> None:
    """What all lanes read, so that equal content has equal digests."""
    rig.topic(TWO_BATCHES, 2, FIRST)
    rig.topic(THREE_BATCHES, 3, FIRST)


def twins(rig: Rig) -> None:
    """By the workflow alone, without Airflow's tasks."""
    topics = {name: TWO_BATCHES if name == "twin_ingest" else THREE_BATCHES for name in TWINS.values()}
    made = {name: Lane(name, topic, first=FIRST) for name, topic in topics.items()}
    rig.add(*made.values())
    for name, batches, windows in (("twin_ingest", 2, 0), ("twin_archive", 3, 2), ("twin_replay", 2, 1)):
        made[name].land(batches)
        for n in range(windows):
            made[name].publish(FIRST + n)
        rig.check_settled(made[name])


def lane_of(cell: Cell) -> Lane:
    """Its pipeline, not yet added."""
    session = "per_batch" if (cell.task, cell.state) in OWN_JOB else "warm"
    topic = TWO_BATCHES if cell.kind == "ingest" else THREE_BATCHES
    # REST does not save the new state of a running task (2.11.2): it is taken for dead, and that costs it a try. What
    # holds a task lasts as long as Kafka's time-out, which a command's start may outlast.
    retries = 1 if cell.state == RUNNING else 0
    return Lane(f"c_{cell.name}", topic, retries=retries, session=session, first=FIRST, max_active_runs=MOST_RUNS)


@dataclass
class Play:
    """`run`: of the DAG that is cleared; `attempt`: of the task before it is cleared."""

    rig: Rig
    cell: Cell
    lane: Lane
    run: str = ""
    attempt: int = 0
    patient_until: float = 0.0
    plans: set[str] = field(default_factory=set)
    process: subprocess.Popen[bytes] | None = None
    output: IO[bytes] = field(default_factory=TemporaryFile)

    @property
    def dag(self) -> str:
        """Its id."""
        return f"{self.lane.name}.{self.cell.kind}"

    def go(self) -> None:
        """The whole cell. Raises AssertionError."""
        self.prepare()
        scene = SCENES.get((self.cell.kind, self.cell.task))
        assert scene, f"how {self.cell.task} of {self.cell.kind} fails and runs must be said in clearing.SCENES"
        bring = {SUCCEEDED: self.succeed, FAILED: lambda: self.fail(scene), RUNNING: lambda: self.be_running(scene)}
        bring[self.cell.state]()
        self.attempt = self.rig.task(self.dag, self.run, self.cell.task)[1]
        self.patient_until = time.monotonic() + HEARTBEAT_LIMIT.total_seconds() + 15
        self.rig.clear(self.cell.way, self.cell.scope, self.dag, self.run, self.cell.task)
        self.heal(scene)
        self.end()
        self.next_run()
        assert self.rig.content(self.lane) == self.rig.content(self.rig.lanes[TWINS[self.cell.kind]])
        self.rig.check_settled(self.lane)

    # ------------------------------------------------------------ before it is cleared

    def prepare(self) -> None:
        """What must be there before the DAG runs."""
        if self.cell.kind == "archive":
            waits = self.cell.task == "ready" and self.cell.state != SUCCEEDED
            self.lane.land(1 if waits else 2)
        elif self.cell.kind != "ingest":
            self.lane.land(2)
            self.lane.publish(FIRST)

    def succeed(self) -> None:
        """The run has ended well."""
        if self.cell.origin == OWN:
            self.start()
        else:
            self.backfill()
            assert self.process.wait(LONG_S) == 0, self.told()
            self.rig.api.pause(self.dag, False)
        self.rig.wait_run(self.dag, self.run, "success")

    def fail(self, scene: Scene) -> None:
        """The task has failed, and its run with it."""
        scene.before_failing(self)
        if self.cell.origin == OWN:
            self.start()
        else:
            self.backfill()
        scene.make_fail(self)
        self.rig.wait_task(self.dag, self.run, self.cell.task, "failed")
        # backfill may look again at a run that was marked: what follows is skipped there, so it ends it as succeeded
        marked = scene.make_fail is _mark_failed and self.process is not None
        self.rig.wait_run(self.dag, self.run, *(("failed", "success") if marked else ("failed",)))
        if self.process is not None:
            assert self.process.wait(LONG_S) != 0 or marked
            self.rig.api.pause(self.dag, False)
        scene.cure(self)

    def be_running(self, scene: Scene) -> None:
        """The task runs, and waits for a server that hangs (or for its window)."""
        if self.cell.origin == AFTER:
            if self.cell.task == "ready":  # a window that is ready never waits again
                self.fail(scene)
            else:
                self.succeed()
            attempt = self.rig.task(self.dag, self.run, self.cell.task)[1]
            scene.before_running(self)
            self.rig.clear(REST, TASK, self.dag, self.run, self.cell.task)
        else:
            attempt = 0
            scene.before_running(self)
            self.start() if self.cell.origin == OWN else self.backfill()
        scene.make_wait(self)
        runs = "deferred" if scene.line is None else "running"  # cleared shortly before, it is deferred all the same
        self.rig.wait_task(self.dag, self.run, self.cell.task, runs, after=attempt)
        if scene.line is not None:
            eventually(f"{self.dag}: its request hangs", lambda: scene.line(self.lane).waiting, LONG_S)

    def start(self) -> None:
        """By the schedule where it has one, else by hand."""
        self.rig.api.pause(self.dag, False)
        if self.cell.kind == "archive":
            self.run = self.lane.scheduled(FIRST)
        elif self.cell.kind == "maintain":
            every = "SELECT run_id FROM dag_run WHERE dag_id = :d ORDER BY 1"
            self.run = eventually("its schedule made a run", lambda: self.rig.airflow(every, d=self.dag), LONG_S)[0][0]
        else:
            date = self.lane.hour(FIRST) if self.cell.kind == "replay" else None
            self.run = self.rig.trigger(self.dag, "cell", date)

    def backfill(self) -> None:
        """`airflow dags backfill` of the window, begun. A pipe that nobody reads would hold it up once it is full."""
        self.run, at = self.lane.backfilled(FIRST), self.lane.hour(FIRST).isoformat()
        self.process = subprocess.Popen(
            ["airflow", "dags", "backfill", self.dag, "-s", at, "-e", at],
            env=self.rig.info.env, stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def told(self) -> str:
        """The last words of the backfill."""
        self.output.seek(0)
        return self.output.read().decode(errors="replace")[-3000:]

    # ------------------------------------------------------------ afterwards

    def heal(self, scene: Scene) -> None:
        """The task that was running is over; what it waited for comes."""
        if self.cell.state != RUNNING:
            return
        self.rig.eventually(
            f"{self.dag} {self.cell.task}: the try that was cleared is over",
            lambda: self.over(),
            lambda: self.rig.story(self.dag, self.run),
        )
        scene.go_on(self)

    def over(self) -> bool:
        """Whether the try that was cleared does nothing any more; maintenance sees to one that died as it was ended."""
        state, attempt = self.rig.task(self.dag, self.run, self.cell.task)
        if state == "restarting" and time.monotonic() > self.patient_until:
            self.patient_until = float("inf")
            self.rig.api.pause(self.lane.maintain, False)  # its schedule makes a run at once
        return attempt > self.attempt or state not in ("running", "restarting", "deferred")

    def end(self) -> None:
        """The run ends well, and the task has run again."""
        if self.cell.origin == WITHIN:
            if self.cell.scope == RUN:  # a backfill begins no task again that it has seen succeed: maintenance helps
                self.rig.api.pause(self.lane.maintain, False)  # its schedule makes a run at once
            self.rig.eventually(f"{self.dag}: the backfill ends", lambda: self.process.poll() is not None, self.told)
            self.rig.api.pause(self.dag, False)
        self.rig.wait_run(self.dag, self.run, "success")
        unheard = ("success", self.attempt)
        if self.cell.state == RUNNING and self.rig.task(self.dag, self.run, self.cell.task) == unheard:
            # Airflow may lose a Clear by REST of a task that is running, and that of one that ends in this moment, as
            # here, where what holds it ends by itself before a slow machine has started the command
            print(f"{self.cell.name}: the try that was cleared has done the work; cleared again")
            self.rig.clear(self.cell.way, self.cell.scope, self.dag, self.run, self.cell.task)
            self.rig.wait_run(self.dag, self.run, "success")
        state, attempt = self.rig.task(self.dag, self.run, self.cell.task)
        assert state == "success"
        assert attempt > self.attempt

    def next_run(self) -> None:
        """The DAG goes on: its next run starts and ends well."""
        if self.cell.kind == "ingest":
            run = "backlog_after_batch_1"
        elif self.cell.kind == "archive":
            self.lane.land(1)
            run = self.lane.scheduled(FIRST + 1)
        else:
            date = self.lane.hour(FIRST).replace(minute=1) if self.cell.kind == "replay" else None
            run = self.rig.trigger(self.dag, "next", date)
        self.rig.wait_run(self.dag, run, "success")


def _nothing(play: Play) -> None:
    pass


@dataclass(frozen=True)
class Scene:
    """How a task fails and how it is kept running: done before its run starts, or once it is under way."""

    before_failing: Callable[[Play], None] = _nothing
    make_fail: Callable[[Play], None] = _nothing
    cure: Callable[[Play], None] = _nothing
    before_running: Callable[[Play], None] = _nothing
    make_wait: Callable[[Play], None] = _nothing
    go_on: Callable[[Play], None] = _nothing
    line: Callable[[Lane], object] | None = None
    """Over which the running task waits; None where it is deferred."""


def _block(name: str) -> Callable[[Play], None]:
    """A file where `_tidegate/<name>` should be a directory: the storage answers with an error."""

    def block(play: Play) -> None:
        path = _place(play, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.rename(path.with_name(f"{name}.away"))
        path.write_text("in the way")

    return block


def _unblock(name: str) -> Callable[[Play], None]:
    def unblock(play: Play) -> None:
        path = _place(play, name)
        path.unlink()
        away = path.with_name(f"{name}.away")
        if away.exists():
            away.rename(path)

    return unblock


def _place(play: Play, name: str) -> Path:
    return play.lane.folder / "_tidegate" / name


def _batch_is(play: Play, state: str) -> None:
    asked = "SELECT 1 FROM batches WHERE pipeline = :p AND batch_id = 1 AND state = :s"
    what = f"{play.lane.name}: batch 1 is {state}"
    eventually(what, lambda: play.rig.ledger(asked, p=play.lane.name, s=state), LONG_S)


def _know_plans(play: Play) -> None:
    play.plans = _plans(play)


def _job_begins_then_hold(play: Play) -> None:
    """A job that has its plan will ask Kafka in a second or more; the task itself has done so before."""
    eventually(f"{play.lane.name}: a job begins", lambda: _plans(play) - play.plans, LONG_S)
    play.lane.kafka.hold()


def _plans(play: Play) -> set[str]:
    folder = _place(play, "plans")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def _sealed_then_hold(play: Play) -> None:
    _batch_is(play, "SEALED")
    play.lane.kafka.hold()


def _block_landing(play: Play) -> None:
    """While the job runs: the tasks before `land` look into that directory too."""
    _job_begins_then_hold(play)
    eventually(f"{play.lane.name}: its job runs", lambda: play.lane.kafka.waiting, LONG_S)
    _block("landed")(play)
    play.lane.kafka.release()


def _mark_failed(play: Play) -> None:
    play.rig.wait_task(play.dag, play.run, "ready", "deferred")
    play.rig.api.fail_run(play.dag, play.run)


def _hold_kafka(play: Play) -> None:
    play.lane.kafka.hold()


def _hold_hive(play: Play) -> None:
    play.lane.hive.hold(b"ADD" if play.cell.origin != AFTER else b"")


def _kafka(lane: Lane) -> object:
    return lane.kafka


def _hive(lane: Lane) -> object:
    return lane.hive


def _land_one(play: Play) -> None:
    play.lane.land(1)


def _cure_ready(play: Play) -> None:
    """For a cell that is to be running afterwards the window stays unready."""
    if play.cell.state == FAILED:
        play.lane.land(1)


def _release(play: Play) -> None:
    play.lane.kafka.release(), play.lane.hive.release()


def _cut_hive(play: Play) -> None:
    play.lane.hive.cut()


def _mend_hive(play: Play) -> None:
    play.lane.hive.mend()


def _cut_kafka(play: Play) -> None:
    play.lane.kafka.cut()


def _mend_kafka(play: Play) -> None:
    play.lane.kafka.mend()


SCENES = {
    ("ingest", "plan"): Scene(
        before_failing=_cut_kafka, cure=_mend_kafka, before_running=_hold_kafka, go_on=_release, line=_kafka
    ),
    ("ingest", "write"): Scene(
        before_failing=_block("tmp"), cure=_unblock("tmp"), make_wait=_job_begins_then_hold, go_on=_release, line=_kafka
    ),
    ("ingest", "land"): Scene(
        make_fail=_block_landing, cure=_unblock("landed"), make_wait=_sealed_then_hold, go_on=_release, line=_kafka
    ),
    ("archive", "ready"): Scene(make_fail=_mark_failed, cure=_cure_ready, go_on=_land_one),
    ("archive", "publish"): Scene(
        before_failing=_cut_hive, cure=_mend_hive, before_running=_hold_hive, go_on=_release, line=_hive
    ),
    ("replay", "replay"): Scene(
        before_failing=_cut_hive,
        cure=_mend_hive,
        before_running=_know_plans,
        make_wait=_job_begins_then_hold,
        go_on=_release,
        line=_kafka,
    ),
    ("maintain", "maintain"): Scene(
        before_failing=_block("landed"),
        cure=_unblock("landed"),
        before_running=_hold_kafka,
        go_on=_release,
        line=_kafka,
    ),
}
