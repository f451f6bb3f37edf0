"""`airflow dags backfill`, the literal command, beside a live scheduler: each flag over hours that are published, failed,
being published by the scheduler, and without a run; and each way to end it.

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

HOURS = 5
"""Hour 0 is published, 1 has failed, 2 is being published by the scheduler, 3 and 4 have no run."""
DONE, FAILED, BUSY, NONE = 0, 1, 2, 3


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    text: str


class Command:
    """`airflow dags backfill`, begun, in a process group of its own as a terminal's."""

    def __init__(self, rig: Rig, dag_id: str, lane: Lane, first: int, last: int, *flags: str) -> None:
        words = ["airflow", "dags", "backfill", dag_id, "-s", lane.hour(first).isoformat(), "-e", lane.hour(last).isoformat()]
        self._log = (rig.lake.parent / f"{dag_id}-{time.monotonic_ns()}.log").open("w+")
        self._process = subprocess.Popen(
            [*words, *flags], env=rig.info.env, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            start_new_session=True,
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
        eventually(f"the backfill says {words!r}", lambda: words in self.text() or self._process.poll() is not None, LONG_S)
        assert words in self.text(), self.text()[-3000:]

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
    """Hours with the number of their generations."""
    rows = rig.ledger("SELECT window_ms, count(*) FROM generations WHERE pipeline = :p GROUP BY 1", p=lane.name)
    return {(ms - lane.window(0).start_ms) // 3_600_000: count for ms, count in rows}


def check(rig: Rig, lane: Lane) -> None:
    """Every hour once; and the schedule goes on with the next."""
    rig.check_settled(lane)
    assert published(rig, lane) == dict.fromkeys(range(HOURS), 1)
    lane.land(1)
    rig.eventually("the next hour is published", lambda: HOURS in published(rig, lane))


@pytest.mark.parametrize(
    ("flags", "code", "left"),
    [
        (("--rerun-failed-tasks",), 0, set()),
        ((), 1, {FAILED, 3, 4}),
        (("--continue-on-failures",), 1, {FAILED}),
        (("--reset-dagruns", "-y"), 0, set()),
        (("--reset-dagruns", "-y", "--run-backwards", "--continue-on-failures"), 0, set()),
        (("--run-backwards",), 1, {FAILED}),
    ],
)
def test_flags(rig: Rig, flags: tuple[str, ...], code: int, left: set[int]) -> None:
    name = "bf_" + "_".join(f.strip("-")[:5] for f in flags).replace("-", "_") if flags else "bf_plain"
    [lane] = rig.add(Lane(name, rig.topic(name, HOURS + 3), max_active_runs=1))
    prepare(rig, lane)
    command = Command(rig, lane.archive, lane, 0, HOURS - 1, *flags)
    if "--reset-dagruns" not in flags:
        command.says("left to it and waited for")
        lane.hive.release()
    else:
        lane.hive.release()
    ended = command.ended()
    print(ended.text[-6000:])
    assert ended.code == code
    assert set(range(HOURS)) - set(published(rig, lane)) - {BUSY} == left
