"""What Clear begins and Airflow leaves undone, on a real scheduler: maintenance and the unpausing of a DAG end it."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from tests.operators.harness import Lane, Rig
from tests.operators.ways import CLI, TASK, UI

FIRST, MOST_RUNS = 8, 8
"""Three more windows are over, and another with each hour that the tests take: they fill `left_full` alone."""


@pytest.mark.skipif(os.environ.get("TIDEGATE_OPERATORS") != "all", reason="make test-operators")
def test_cleared_runs_that_nobody_would_start_or_end_are_taken_up(rig: Rig) -> None:
    """One lane each: waiting runs fill max_active_runs; the process of a cleared task dies; the DAG is paused."""
    topic = rig.topic("left", 2, FIRST)
    full, dead, paused = rig.add(
        Lane("left_full", topic, first=FIRST, max_active_runs=2),
        Lane("left_dead", topic, first=FIRST, max_active_runs=MOST_RUNS),
        Lane("left_paused", topic, first=FIRST, max_active_runs=MOST_RUNS),
    )
    for lane in (full, dead, paused):
        lane.land(2)
    dead.hive.hold(b"ADD")
    for lane in (full, dead, paused):
        rig.api.pause(lane.archive, False)
    run = full.scheduled(FIRST)

    rig.wait_task(dead.archive, run, "publish", "running")
    rig.eventually("its request hangs", lambda: dead.hive.waiting)
    kill_once_cleared(rig, dead, run)

    rig.wait_run(paused.archive, run, "success")
    rig.api.pause(paused.archive, True)
    rig.clear(UI, TASK, paused.archive, run, "publish")

    rig.wait_run(full.archive, run, "success")
    for later in (1, 2):
        rig.wait_task(full.archive, full.scheduled(FIRST + later), "ready", "deferred")
    rig.clear(CLI, TASK, full.archive, run, "publish")
    assert rig.run(full.archive, run) == "queued"

    assert rig.task(dead.archive, run, "publish")[0] == "restarting"
    assert rig.run(paused.archive, run) == "queued"
    rig.change(
        "UPDATE job SET latest_heartbeat = latest_heartbeat - interval '3 minutes' WHERE dag_id = :d", d=dead.archive
    )
    for lane in (full, dead):
        rig.api.pause(lane.maintain, False)  # its schedule makes a run at once
    rig.api.pause(paused.archive, False)
    for lane in (full, dead, paused):
        rig.wait_task(lane.archive, run, "publish", "success", after=1)
        rig.wait_run(lane.archive, run, "success")
    for lane in (full, dead, paused):
        assert rig.content(lane)["published"] == rig.content(paused)["published"]
        assert rig.audit(lane).balanced


def kill_once_cleared(rig: Rig, lane: Lane, run: str) -> None:
    """The task's processes stand still while it is cleared and are killed then, as when a worker is lost."""
    mine = "SELECT pid FROM task_instance WHERE dag_id = :d AND run_id = :r AND task_id = 'publish'"
    [(pid,)] = rig.airflow(mine, d=lane.archive, r=run)
    task = psutil.Process(pid)
    processes = [task.parent(), task, *task.children(recursive=True)]
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
    rig.clear(UI, TASK, lane.archive, run, "publish")
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)
    lane.hive.release()
