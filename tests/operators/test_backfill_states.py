"""`airflow dags backfill` over queued runs and those of a killed backfill; what a dry run leaves; a part of the tasks;
maintenance alone after a kill."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.operators.harness import Lane, Rig
from tests.operators.kills import side_by_side
from tests.operators.test_backfill_literal import (
    HOURS,
    WHOLE,
    Command,
    check,
    lane_of,
    marker,
    prepare,
    published,
    tries,
)
from tests.operators.ways import REST, RUN

only_in_full = pytest.mark.skipif(not WHOLE, reason="part of make test-operators")
QUEUED, KILLED, LATEST = 0, 3, 4
"""Hours of `test_queued_and_killed`; 1 and 2 have no run, the latest is the scheduler's and waits."""
FLAGS = {
    "plain": (),
    "rerun": ("--rerun-failed-tasks",),
    "continue": ("--continue-on-failures",),
    "reset": ("--reset-dagruns", "-y"),
}


@only_in_full
def test_a_dry_run_prints_the_tasks_and_changes_nothing(rig: Rig) -> None:
    """Over hours in every state."""
    lane = lane_of(rig, "bf_dry", max_active_runs=1)
    prepare(rig, lane)
    rig.eventually("the scheduler's task hangs", lambda: lane.hive.waiting > 0)
    before = everything(rig, lane)
    for dag_id, tasks in ((lane.archive, ("ready", "publish")), (lane.replay, ("replay",))):
        for flags in ((), FLAGS["reset"]):
            ended = Command(rig, dag_id, lane, 0, HOURS - 1, "--dry-run", *flags).ended()
            assert ended.code == 0, ended.text[-4000:]
            assert "Traceback" not in ended.text, ended.text[-4000:]
            assert f"Dry run of DAG {dag_id} on {lane.hour(0)}" in ended.text
            for task in tasks:
                assert ended.text.count(f"Task {task} located in DAG {dag_id}\n") == HOURS, ended.text[-4000:]
    assert everything(rig, lane) == before
    lane.hive.release()
    again = Command(rig, lane.archive, lane, 0, HOURS - 1, "--rerun-failed-tasks").ended()
    assert again.code == 0, again.text[-4000:]
    check(rig, lane)


def everything(rig: Rig, lane: Lane) -> dict[str, list[tuple[Any, ...]]]:
    """What Airflow knows of the lane's runs, and every row of the ledger that is the lane's."""
    runs = "SELECT dag_id, run_id, run_type, state, clear_number, start_date, end_date FROM dag_run"
    tasks = "SELECT dag_id, run_id, task_id, state, try_number, start_date, end_date, job_id FROM task_instance"
    found = {
        "runs": rig.airflow(f"{runs} WHERE dag_id LIKE :d ORDER BY 1, 2", d=f"{lane.name}.%"),
        "tasks": rig.airflow(f"{tasks} WHERE dag_id LIKE :d ORDER BY 1, 2, 3", d=f"{lane.name}.%"),
        "jobs": rig.airflow("SELECT count(*) FROM job WHERE job_type = 'BackfillJob'"),
    }
    owned = "SELECT table_name FROM information_schema.columns WHERE column_name = 'pipeline' ORDER BY 1"
    tables = [table for (table,) in rig.ledger(owned)]
    assert "batches" in tables
    for table in tables:
        found[table] = sorted(rig.ledger(f"SELECT * FROM {table} WHERE pipeline = :p", p=lane.name), key=repr)
    return found


@only_in_full
def test_queued_and_killed(rig: Rig) -> None:
    """Each flag over a queued run and over one of a killed backfill, beside the scheduler."""
    lanes = {name: lane_of(rig, f"bf_left_{name}", max_active_runs=2) for name in FLAGS}
    outcomes = side_by_side({name: lambda n=name: _queued_and_killed(rig, lanes[n], n) for name in FLAGS}, 2)
    errors = [error for error in outcomes.values() if error is not None]
    assert not errors, [(name, error) for name, error in outcomes.items() if error is not None]


def _queued_and_killed(rig: Rig, lane: Lane, name: str) -> None:
    lane.land(HOURS)
    assert Command(rig, lane.archive, lane, QUEUED, QUEUED).ended().code == 0
    lane.hive.hold(marker(lane, KILLED))
    killed = Command(rig, lane.archive, lane, KILLED, KILLED)
    rig.wait_task(lane.archive, lane.backfilled(KILLED), "publish", "running")
    rig.eventually("it hangs", lambda: lane.hive.waiting > 0)
    killed.kill()
    lane.hive.release()
    rig.api.pause(lane.archive, False)
    rig.wait_task(lane.archive, lane.scheduled(LATEST), "ready", "deferred")
    rig.clear(REST, RUN, lane.archive, lane.backfilled(QUEUED), "publish")
    assert rig.run(lane.archive, lane.backfilled(QUEUED)) == "queued", "two runs are active"

    command = Command(rig, lane.archive, lane, 0, HOURS - 1, *FLAGS[name])
    command.says("queued runs of the range are this backfill's now")
    if name != "reset":  # that restarts what the scheduler is at, and queues what was killed
        command.says("its backfill is gone, failed; clear it to go on")
        command.says("left to it and waited for")
        rig.eventually("all others are published", lambda: published(rig, lane).keys() >= set(range(HOURS)) - {LATEST})
        assert LATEST not in published(rig, lane)
    lane.land(1)
    ended = command.ended()
    assert ended.code == 0, ended.text[-4000:]
    tried, more = tries(rig, lane.archive), 1 if name == "reset" else 0
    assert tried[lane.backfilled(QUEUED)] == {"ready": 2, "publish": 2}, "what was cleared runs again"
    assert tried[lane.backfilled(KILLED)] == {"ready": 1 + more, "publish": 2}, "it goes on where it was"
    if name != "reset":
        assert tried[lane.scheduled(LATEST)] == {"ready": 1, "publish": 1}, "the scheduler's own"
    check(rig, lane)


@only_in_full
def test_a_part_of_the_tasks_is_no_whole_run(rig: Rig) -> None:
    """`-t ready` leaves publish out; the next backfill does what is left."""
    lane = lane_of(rig, "bf_part", max_active_runs=4)
    lane.land(HOURS + 1)
    part = Command(rig, lane.archive, lane, 0, 0, "-t", "^ready$").ended()
    assert part.code == 0, part.text[-4000:]
    assert published(rig, lane) == {}
    rest = Command(rig, lane.archive, lane, 0, HOURS - 2).ended()
    assert rest.code == 0, rest.text[-4000:]
    alone = Command(rig, lane.archive, lane, HOURS - 1, HOURS - 1, "-t", "^publish$", "-i").ended()
    assert alone.code == 0, alone.text[-4000:]
    assert "ready" not in tries(rig, lane.archive)[lane.backfilled(HOURS - 1)]
    rig.api.pause(lane.archive, False)
    check(rig, lane)


@only_in_full
def test_maintenance_alone_settles_a_range_that_was_killed(rig: Rig) -> None:
    """In the middle of hour 2, while the backfill of another pipeline lives; nobody goes on with it. The schedule goes
    on, no hour is left out, and the one that was at work is a failed run, which can be cleared."""
    lane, other = (lane_of(rig, name, max_active_runs=4) for name in ("bf_alone", "bf_beside"))
    other.land(1)
    beside = Command(rig, other.archive, other, 0, 0)
    lane.land(HOURS + 1)
    lane.hive.hold(marker(lane, 2))
    command = Command(rig, lane.archive, lane, 1, HOURS - 1)
    rig.wait_task(other.archive, other.backfilled(0), "ready", "deferred")
    rig.wait_task(lane.archive, lane.backfilled(2), "publish", "running")
    rig.wait_run(lane.archive, lane.backfilled(1), "success")
    rig.eventually("it hangs", lambda: lane.hive.waiting > 0)
    command.kill()
    lane.hive.release()
    rig.api.pause(lane.maintain, False)
    rig.api.pause(lane.archive, False)
    left = "SELECT run_id FROM dag_run WHERE dag_id = :d AND run_type = 'backfill'"

    def settled() -> bool:  # its schedule would take ten minutes
        rig.wait_run(lane.maintain, rig.trigger(lane.maintain, f"m{time.monotonic_ns()}"), "success")
        return not rig.airflow(left, d=lane.archive) and published(rig, lane).keys() >= {0, 1, 3, 4}

    rig.eventually("maintenance has settled what was left", settled)
    assert beside.lives, "a backfill of another pipeline lived all the time"
    assert rig.run(lane.archive, lane.backfilled(2)) == "failed"
    orphans = "SELECT task_id, state FROM task_instance WHERE dag_id = :d AND run_id = :r AND state <> 'success'"
    assert rig.airflow(orphans, d=lane.archive, r=lane.backfilled(2)) == []
    lane.land(1)
    rig.eventually("the next hour is published", lambda: HOURS in published(rig, lane))
    assert published(rig, lane) == dict.fromkeys({*range(HOURS + 1)} - {2}, 1)
    rig.api.pause(lane.maintain, True)
    rig.clear(REST, RUN, lane.archive, lane.backfilled(2), "publish")
    rig.eventually("all hours are published", lambda: published(rig, lane) == dict.fromkeys(range(HOURS + 1), 1))
    other.land(1)
    assert beside.ended().code == 0, beside.text()[-4000:]
    for one in (lane, other):
        rig.check_settled(one)
