"""What `tidegate backfill` reads and changes in Airflow's own tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta

import airflow_home
import pendulum
import pytest
from airflow.jobs.job import Job
from airflow.models.dag import DagModel
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.timetables.base import DataInterval
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from sqlalchemy.orm import Session

from tidegate.airflow import runs
from tidegate.airflow.backfill.range_runs import Ground, RangeRuns
from tidegate.airflow.timetable import to_ms
from tidegate.core.publish.backfill import Run
from tidegate.core.window.states import WindowKey

ARCHIVE, REPLAY, POOL = "tram_positions.archive", "tram_positions.replay", "tidegate_archive"
FIRST = pendulum.datetime(2024, 10, 27, 1)
QUARTER = timedelta(minutes=15)
NOTE = "tidegate backfill A to B, begun C by me@here"


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> DagBag:
    airflow_home.make_database()
    folder = tmp_path_factory.mktemp("pipelines")
    shutil.copy(airflow_home.CHECKOUT / "tests/fixtures/pipelines/tram_positions.yaml", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(folder))
        return DagBag(str(airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"), include_examples=False)


@pytest.fixture
def session(dags: DagBag) -> Iterator[Session]:
    with create_session() as session:
        for table in (TaskInstance, DagRun, Job):
            session.query(table).delete()
        session.query(Pool).filter(Pool.pool != "default_pool").delete()
        session.add(Pool(pool=POOL, slots=8, include_deferred=False))
        session.add(Job(job_type="SchedulerJob", state="running", latest_heartbeat=timezone.utcnow()))
        dags.sync_to_db(session=session)
        for dag in dags.dags.values():
            SerializedDagModel.write_dag(dag, session=session)
        session.query(DagModel).update({"is_paused": False, "max_active_runs": 16})
        session.commit()
        yield session


def key(quarter: int) -> WindowKey:
    return WindowKey(to_ms(FIRST + QUARTER * quarter), to_ms(FIRST + QUARTER * (quarter + 1)))


def add_run(session: Session, dags: DagBag, quarter: int, state: str, by_hand: timedelta | None = None) -> DagRun:
    start = FIRST + QUARTER * quarter
    run = dags.dags[ARCHIVE].create_dagrun(
        run_type=DagRunType.SCHEDULED if by_hand is None else DagRunType.MANUAL,
        execution_date=start + (by_hand or timedelta()),
        data_interval=DataInterval(start, start + QUARTER),
        state=DagRunState.RUNNING,
        session=session,
    )
    run.state = DagRunState(state)
    session.commit()
    return run


def archive(dag_id: str = ARCHIVE) -> RangeRuns:
    return RangeRuns(dag_id, [POOL])


def test_of_several_runs_the_one_at_work_counts_else_that_of_the_schedule(session: Session, dags: DagBag) -> None:
    for n, (scheduled, by_hand) in enumerate((("failed", "success"), ("success", "running"), ("queued", "failed"))):
        add_run(session, dags, n, scheduled)
        add_run(session, dags, n, by_hand, timedelta(minutes=n + 1))
    add_run(session, dags, 3, "success", timedelta(minutes=7))
    found = archive().look([key(n) for n in range(5)])
    states = [(found[key(n).start_ms].run_id[:6], found[key(n).start_ms].active) for n in range(4)]
    assert states == [("schedu", False), ("manual", True), ("schedu", True), ("manual", False)]
    assert key(4).start_ms not in found


@pytest.mark.parametrize("dag_id", [ARCHIVE, REPLAY])
def test_a_window_without_a_run_gets_one_of_the_schedules(session: Session, dags: DagBag, dag_id: str) -> None:
    assert archive(dag_id).begin([key(1)], {}, NOTE) == [key(1)]
    run = session.query(DagRun).one()
    assert (run.dag_id, run.run_id) == (dag_id, "scheduled__2024-10-27T01:15:00+00:00")
    assert (run.run_type, run.state, run.note) == ("scheduled", "running", NOTE)
    assert (run.data_interval_start, run.data_interval_end) == (FIRST + QUARTER, FIRST + QUARTER * 2)
    assert archive(dag_id).look([key(1)])[key(1).start_ms] == Run(run.run_id, True, False, NOTE.rpartition(" by ")[0])
    assert archive(dag_id).begin([key(1)], {}, NOTE) == []


def test_a_run_that_has_ended_runs_again_with_all_its_tasks(session: Session, dags: DagBag) -> None:
    run = add_run(session, dags, 0, "failed")
    for task, state in zip(run.get_task_instances(session=session), ("success", "failed"), strict=True):
        task.state, task.try_number = state, 3
    run.note = "looked at it on Monday\ntidegate backfill of last week by you@there"
    session.commit()
    known = archive().look([key(0)])
    assert archive().begin([key(0)], known, NOTE) == [key(0)]
    run = session.query(DagRun).one()
    assert (run.run_type, run.state, run.clear_number) == ("scheduled", "running", 1)
    assert run.note == f"looked at it on Monday\n{NOTE}"
    tasks = run.get_task_instances(session=session)
    assert {task.state for task in tasks} == {None}
    assert {task.max_tries for task in tasks} == {3 + dags.dags[ARCHIVE].get_task("publish").retries}


@pytest.mark.parametrize("state", ["running", "queued"])
def test_what_somebody_else_has_begun_meanwhile_is_left_alone(session: Session, dags: DagBag, state: str) -> None:
    known = archive().look([key(0), key(1)])
    add_run(session, dags, 0, state)
    assert archive().begin([key(0), key(1)], known, NOTE) == [key(1)]
    assert session.query(DagRun).filter_by(execution_date=FIRST).one().note is None


def test_beside_a_run_by_hand_that_has_ended_the_window_gets_one_of_the_schedules(
    session: Session, dags: DagBag
) -> None:
    add_run(session, dags, 0, "failed", timedelta(minutes=3))
    assert archive().begin([key(0)], archive().look([key(0)]), NOTE) == [key(0)]
    assert session.query(DagRun).count() == 2


def test_room(session: Session, dags: DagBag) -> None:
    """8 slots and 16 runs: 4 of its own at a time; one run of the DAG stays free."""
    assert (archive().room(0, None), archive().room(1, None), archive().room(0, 2)) == (4, 3, 2)
    for n in range(13):
        add_run(session, dags, n, "running")
    assert (archive().room(0, None), archive().room(2, None), archive().room(13, None)) == (2, 2, -9)
    for n in range(13, 20):
        add_run(session, dags, n, "queued")
    assert archive().room(0, None) == 1
    gone = RangeRuns(ARCHIVE, [POOL, "nowhere"])  # deleted while a backfill is at work
    assert (gone.room(0, None), gone.room(0, 2)) == (0, 0)


def test_ground(session: Session, dags: DagBag) -> None:
    assert archive().ground() == Ground()
    assert archive("gone.archive").ground() == Ground(unknown=True)
    assert RangeRuns(ARCHIVE, ["nowhere", POOL]).ground().missing_pools == ("nowhere",)
    session.query(DagModel).update({"is_paused": True})
    session.query(Job).update({"latest_heartbeat": timezone.utcnow() - timedelta(minutes=2)})
    session.commit()
    assert archive().ground() == Ground(paused=True, scheduler=False)
    archive().unpause()
    assert not archive().ground().paused


def test_what_a_killed_backfill_left_is_settled_at_the_first_look(session: Session, dags: DagBag) -> None:
    run = add_run(session, dags, 0, "running")
    run.run_type = DagRunType.BACKFILL_JOB
    session.commit()
    assert not archive().look([key(0)])[key(0).start_ms].active
    run = session.query(DagRun).one()
    assert (run.run_type, run.state) == ("scheduled", "failed")


def test_a_dry_run_settles_nothing(session: Session, dags: DagBag) -> None:
    run = add_run(session, dags, 0, "running")
    run.run_type = DagRunType.BACKFILL_JOB
    session.commit()
    assert RangeRuns(ARCHIVE, [POOL], settles=False).look([key(0)])[key(0).start_ms].active
    run = session.query(DagRun).one()
    assert (run.run_type, run.state) == ("backfill", "running")


def test_what_a_live_backfill_has_set_aside_is_its_own(session: Session, dags: DagBag) -> None:
    """The scheduler would not touch such a run."""
    run = add_run(session, dags, 0, "failed")
    run.run_type, run.end_date = DagRunType.BACKFILL_JOB, None
    session.add(Job(job_type="BackfillJob", state="running", latest_heartbeat=timezone.utcnow()))
    session.commit()
    known = archive().look([key(0)])
    assert known[key(0).start_ms].active
    assert archive().begin([key(0)], known, NOTE) == []
    run = session.query(DagRun).one()
    assert (run.run_type, run.state, run.note) == ("backfill", "failed", None)


def test_failed_tasks(session: Session, dags: DagBag) -> None:
    run = add_run(session, dags, 0, "failed")
    session.query(TaskInstance).filter_by(task_id="publish").update({"state": "failed"})
    session.commit()
    assert archive().failed_tasks(run.run_id) == ["publish"]


MAINTAIN = "tram_positions.maintain"


def maintenance(session: Session) -> list[DagRun]:
    session.expire_all()
    return session.query(DagRun).filter_by(dag_id=MAINTAIN).all()


def test_a_catch_up_is_a_maintenance_run_that_names_the_range(session: Session) -> None:
    range_runs, keys = archive(), [key(n) for n in range(30)]
    assert not range_runs.catch_up(keys[:5], start=False)
    assert maintenance(session) == []
    assert range_runs.catch_up(keys, start=True)
    (run,) = maintenance(session)
    assert (run.state, run.run_type) == ("queued", "manual")
    assert run.conf == {"from": "2024-10-27T01:00Z", "until": "2024-10-27T08:30Z"}
    assert range_runs.catch_up(keys[20:], start=False)  # it is on its way to them
    assert not range_runs.catch_up([key(40)], start=False)
    assert len(maintenance(session)) == 1


def test_one_that_brought_nothing_was_the_last(session: Session) -> None:
    range_runs, keys = archive(), [key(n) for n in range(30)]
    for left in (keys, keys[10:]):
        assert range_runs.catch_up(left, start=True)
        session.query(DagRun).filter_by(dag_id=MAINTAIN).update({"state": "success"})
        session.commit()
    assert not range_runs.catch_up(keys[10:], start=True)
    assert len(maintenance(session)) == 2


def test_paused_maintenance_catches_up_with_nothing(session: Session) -> None:
    session.query(DagModel).filter_by(dag_id=MAINTAIN).update({"is_paused": True})
    session.commit()
    assert not archive().catch_up([key(n) for n in range(30)], start=True)
    assert maintenance(session) == []


def test_a_conf_that_somebody_mistyped_holds_up_nothing(session: Session) -> None:
    runs.trigger(MAINTAIN, "by_hand", {"from": "yesterday"})
    assert archive().catch_up([key(n) for n in range(30)], start=True)
    assert len(maintenance(session)) == 2
