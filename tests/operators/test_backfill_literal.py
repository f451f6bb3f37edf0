"""`airflow dags backfill`, the literal command, beside a live scheduler: each flag over hours in every state, and each
way to end it.

Afterwards no run is of type backfill, nothing is left running, every hour is published exactly once, and the schedule
goes on with the next hour."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass

import psutil
import pytest

from tests.e2e.airflow_api import eventually
from tests.operators.harness import LONG_S, Lane, Rig
from tests.operators.ways import REST, RUN

WHOLE = os.environ.get("TIDEGATE_OPERATORS") == "all"
HOURS = 5
"""Hour 0 is published, 1 has failed, 2 is being published by the scheduler, 3 and 4 have no run."""
DONE, FAILED, BUSY, NONE = 0, 1, 2, 3


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    text: str


def heed_ctrl_c() -> None:
    """In a child before it begins: a background job of a shell ignores SIGINT, and its children would too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Command:
    """`airflow dags backfill`, begun, in a process group of its own as a terminal's."""

    def __init__(self, rig: Rig, dag_id: str, lane: Lane, first: int, last: int, *flags: str) -> None:
        words = [
            "airflow",
            "dags",
            "backfill",
            dag_id,
            "-s",
            lane.hour(first).isoformat(),
            "-e",
            lane.hour(last).isoformat(),
        ]
        self._log = (rig.lake.parent / f"{dag_id}-{time.monotonic_ns()}.log").open("w+")
        self._process = subprocess.Popen(
            [*words, *flags], env=rig.info.env, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            start_new_session=True, preexec_fn=heed_ctrl_c,
        )  # fmt: skip

    def ended(self, timeout_s: float = LONG_S * 2) -> Ended:
        """When it has ended. Fails after the deadline."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"not ended after {timeout_s:.0f} s: {self.text()[-3000:]}") from None
        return Ended(code, self.text())

    def text(self) -> str:
        """What it has said so far."""
        self._log.flush()
        with open(self._log.name) as log:
            return log.read()

    def says(self, words: str) -> None:
        """Waits for it."""
        eventually(
            f"the backfill says {words!r}", lambda: words in self.text() or self._process.poll() is not None, LONG_S
        )
        assert words in self.text(), self.text()[-3000:]

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def terminate(self) -> None:
        """SIGTERM to it."""
        self._process.terminate()

    def interrupt(self) -> None:
        """As a terminal does: Ctrl-C goes to every process of the group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL to it and to its executor's workers."""
        family = [*psutil.Process(self._process.pid).children(recursive=True), psutil.Process(self._process.pid)]
        for process in family:
            if process.is_running():
                process.kill()
        self._process.wait()

    def kill_alone(self) -> None:
        """SIGKILL to the command; its executor's workers live on."""
        self._process.kill()
        self._process.wait()


def marker(lane: Lane, hour: int) -> bytes:
    """What a statement about this hour's partitions holds."""
    return f"hour={lane.hour(hour):%H}/".encode()


def prepare(rig: Rig, lane: Lane) -> None:
    """The hours as they are called above; the DAG is unpaused and the scheduler hangs in hour 2."""
    lane.land(HOURS + 1)
    assert Command(rig, lane.archive, lane, DONE, DONE).ended().code == 0
    lane.hive.cut()
    failed = Command(rig, lane.archive, lane, FAILED, FAILED).ended()
    lane.hive.mend()
    assert failed.code == 1, failed.text[-3000:]
    lane.hive.hold(marker(lane, BUSY))
    rig.api.pause(lane.archive, False)
    rig.wait_task(lane.archive, lane.scheduled(BUSY), "publish", "running")


def published(rig: Rig, lane: Lane) -> dict[int, int]:
    """Hours with a generation in force, and how many each has."""
    rows = rig.ledger(
        "SELECT window_ms, count(*) FROM generations WHERE pipeline = :p GROUP BY 1"
        " HAVING sum(CASE WHEN state = 'CURRENT' THEN 1 ELSE 0 END) = 1",
        p=lane.name,
    )
    return {(ms - lane.window(0).start_ms) // 3_600_000: count for ms, count in rows}


def check(rig: Rig, lane: Lane) -> None:
    """Every hour once; and the schedule goes on with the next."""
    rig.check_settled(lane)
    assert published(rig, lane) == dict.fromkeys(range(HOURS), 1)
    lane.land(1)
    rig.eventually("the next hour is published", lambda: HOURS in published(rig, lane))
    assert published(rig, lane) == dict.fromkeys(range(HOURS + 1), 1)


def lane_of(rig: Rig, name: str, max_active_runs: int) -> Lane:
    [lane] = rig.add(Lane(name, rig.topic(name, HOURS + 3), max_active_runs=max_active_runs))
    return lane


FLAGS = {
    "rerun": (("--rerun-failed-tasks",), 0, set()),
    "plain": ((), 1, {FAILED, 3, 4}),
    "continue": (("--continue-on-failures",), 1, {FAILED}),
    "reset": (("--reset-dagruns", "-y"), 0, set()),
    "reset_back": (("--reset-dagruns", "-y", "--run-backwards", "--continue-on-failures"), 0, set()),
    "backwards": (("--run-backwards",), 1, {FAILED}),
}
"""By name: flags, exit code, and the hours that are not published then."""


@pytest.mark.skipif(not WHOLE, reason="part of make test-operators")
@pytest.mark.parametrize("name", FLAGS)
def test_flags(rig: Rig, name: str) -> None:
    """Over hours in every state. What the scheduler is working on stays its own; then the range is filled for good."""
    flags, code, left = FLAGS[name]
    lane = lane_of(rig, f"bf_{name}", max_active_runs=1)
    prepare(rig, lane)
    command = Command(rig, lane.archive, lane, 0, HOURS - 1, *flags)
    if "--reset-dagruns" not in flags:
        command.says("left to it and waited for")
    lane.hive.release()
    ended = command.ended()
    assert ended.code == code, ended.text[-4000:]
    # beside it, the schedule goes on with what follows the newest run
    missing = set(range(HOURS)) - set(published(rig, lane))
    assert missing <= left, ended.text[-4000:]
    assert (FAILED in missing) is (FAILED in left)
    check_tries(rig, lane, name)
    if left:
        again = Command(rig, lane.archive, lane, 0, HOURS - 1, "--rerun-failed-tasks").ended()
        assert again.code == 0, again.text[-4000:]
    check(rig, lane)


def check_tries(rig: Rig, lane: Lane, name: str) -> None:
    """As the table in docs/scheduling.md says, of the hours that had a run before, and of the part after a failure."""
    reset, rerun = name.startswith("reset"), name == "rerun"
    tried = tries(rig, lane.archive)
    assert tried[lane.backfilled(DONE)] == dict.fromkeys(("ready", "publish"), 1 + reset)
    assert tried[lane.backfilled(FAILED)] == {"ready": 1 + reset, "publish": 1 + (reset or rerun)}
    busy = tried[lane.scheduled(BUSY)]
    assert busy["publish"] > 1 if reset else busy == {"ready": 1, "publish": 1}, busy
    if name == "plain":
        assert not {lane.backfilled(3), lane.backfilled(4)} & tried.keys(), "nothing after its part is begun"


def tries(rig: Rig, dag_id: str) -> dict[str, dict[str, int]]:
    """By run, of its tasks."""
    found: dict[str, dict[str, int]] = {}
    asked = "SELECT run_id, task_id, try_number FROM task_instance WHERE dag_id = :d"
    for run_id, task_id, number in rig.airflow(asked, d=dag_id):
        found.setdefault(run_id, {})[task_id] = number
    return found


def ctrl_c(command: Command, lane: Lane) -> None:
    """Its tasks end, then it does."""
    command.interrupt()
    command.says("Backfill terminated by user")
    lane.hive.release()
    assert command.ended().code == 1


def terminated(command: Command, lane: Lane) -> None:
    """SIGTERM to the command alone, as by a service manager."""
    command.terminate()
    command.says("Backfill terminated by user")
    lane.hive.release()
    assert command.ended().code == 1


def ctrl_c_twice(command: Command, lane: Lane) -> None:
    """As one does who doesn't want to wait."""
    command.interrupt()
    time.sleep(2)
    command.interrupt()
    code = command.ended().code
    assert code != 0, command.text()[-3000:]


def killed(command: Command, lane: Lane) -> None:
    """With its tasks, as by a reboot."""
    command.kill()


def killed_alone(command: Command, lane: Lane) -> None:
    """Its tasks live on, and end well."""
    command.kill_alone()


ENDINGS = {end.__name__: end for end in (ctrl_c, terminated, ctrl_c_twice, killed, killed_alone)}


@pytest.mark.parametrize("ending", ENDINGS if WHOLE else ["ctrl_c_twice"])
def test_endings(rig: Rig, ending: str) -> None:
    """In the middle of hour 2; then the same command, beside a scheduler that has been unpaused meanwhile."""
    lane = lane_of(rig, f"bf_{ending}", max_active_runs=4)
    lane.land(HOURS + 1)
    lane.hive.hold(marker(lane, BUSY))
    command = Command(rig, lane.archive, lane, 0, HOURS - 1)
    rig.wait_task(lane.archive, lane.backfilled(BUSY), "publish", "running")
    rig.eventually("it hangs", lambda: lane.hive.waiting > 0)
    ENDINGS[ending](command, lane)
    lane.hive.release()
    rig.api.pause(lane.archive, False)
    again = Command(rig, lane.archive, lane, 0, HOURS - 1, "--rerun-failed-tasks").ended()
    assert again.code == 0, again.text[-4000:]
    check(rig, lane)


@pytest.mark.skipif(not WHOLE, reason="part of make test-operators: two minutes pass before a dead backfill is one")
def test_maintenance_settles_what_a_killed_backfill_left(rig: Rig) -> None:
    """Nobody starts the command again: the schedule goes on, and the hour can be cleared."""
    lane = lane_of(rig, "bf_maintained", max_active_runs=2)
    lane.land(HOURS + 1)
    lane.hive.hold(marker(lane, 0))
    command = Command(rig, lane.archive, lane, 0, 0)
    rig.wait_task(lane.archive, lane.backfilled(0), "publish", "running")
    command.kill()
    lane.hive.release()
    rig.api.pause(lane.maintain, False)
    rig.api.pause(lane.archive, False)

    def settled() -> bool:
        rig.wait_run(lane.maintain, rig.trigger(lane.maintain, f"m{time.monotonic_ns()}"), "success")
        return rig.run(lane.archive, lane.backfilled(0)) == "failed"

    rig.eventually("maintenance has seen that the backfill is dead", settled)
    rig.clear(REST, RUN, lane.archive, lane.backfilled(0), "publish")
    rig.eventually("all hours are published", lambda: published(rig, lane) == dict.fromkeys(range(HOURS), 1))
    rig.eventually("its run has ended", lambda: rig.run(lane.archive, lane.backfilled(0)) == "success")
    rig.api.pause(lane.maintain, True)
    check(rig, lane)


@pytest.mark.skipif(not WHOLE, reason="part of make test-operators")
def test_the_schedule_goes_on_beside_a_backfill_that_hangs(rig: Rig) -> None:
    """Four runs at a time: two are the backfill's at most, so those of the schedule come and end."""
    lane = lane_of(rig, "bf_room", max_active_runs=4)
    lane.land(HOURS + 1)
    lane.hive.hold(marker(lane, 0))
    command = Command(rig, lane.archive, lane, 0, HOURS - 1)
    rig.wait_task(lane.archive, lane.backfilled(0), "publish", "running")
    rig.api.pause(lane.archive, False)
    rig.eventually("later hours are published", lambda: set(range(1, HOURS)) <= published(rig, lane).keys())
    assert 0 not in published(rig, lane)
    lane.hive.release()
    ended = command.ended()
    assert ended.code == 0, ended.text[-4000:]
    check(rig, lane)


@pytest.mark.skipif(not WHOLE, reason="part of make test-operators")
def test_replay(rig: Rig) -> None:
    """Twice: the second time nothing is done and it is said; with --reset-dagruns all is rebuilt, also where the DAG is
    unpaused and the scheduler looks for queued runs."""
    lane = lane_of(rig, "bf_replay", max_active_runs=4)
    lane.land(HOURS + 1)
    for hour in range(2):
        lane.publish(hour)
    rig.api.pause(lane.replay, False)
    assert Command(rig, lane.replay, lane, 0, 1).ended().code == 0
    began = tries(rig, lane.replay)
    again = Command(rig, lane.replay, lane, 0, 1).ended()
    assert again.code == 0
    assert (
        "2 of 2 runs of the range have succeeded already and stay as they are; --reset-dagruns runs all" in again.text
    )
    assert tries(rig, lane.replay) == began
    reset = Command(rig, lane.replay, lane, 0, 1, "--reset-dagruns", "-y").ended()
    assert reset.code == 0, reset.text[-4000:]
    assert tries(rig, lane.replay) == {run_id: {"replay": of["replay"] + 1} for run_id, of in began.items()}
    rig.check_settled(lane)
    unpublished = Command(rig, lane.replay, lane, 1, 2).ended()
    assert unpublished.code == 1
    rig.check_settled(lane)
