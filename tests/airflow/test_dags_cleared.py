"""What Clear begins and nobody ends, on Airflow's own tables: tasks that stay restarting, runs that stay queued."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import airflow_home
import pendulum
import pytest
from airflow.jobs.job import Job
from airflow.models.dag import DagModel
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.timetables.base import DataInterval
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from sqlalchemy.orm import Session

from tidegate.airflow.clear.leftovers import MOST_AT_ONCE, free, hand_on, revive, start

ARCHIVE = "tram_positions.archive"
FIRST, QUARTER = pendulum.datetime(2024, 10, 27, 1), timedelta(minutes=15)
JUST_NOW, LONG_AGO = timedelta(seconds=5), timedelta(minutes=10)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Airflow's database with the tram pipeline's DAGs, unpaused, and nothing else."""
    airflow_home.make_database()
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    shutil.copy(airflow_home.CHECKOUT / "tests/fixtures/pipelines/tram_positions.yaml", tmp_path)
    bag = DagBag(str(airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"), include_examples=False)
    with create_session() as session:
        for table in (TaskInstance, DagRun, Job):
            session.query(table).delete()
        bag.sync_to_db(session=session)
        for dag in bag.dags.values():
            SerializedDagModel.write_dag(dag, session=session)
        session.query(DagModel).update({"is_paused": False})
        session.commit()
        yield session


def add_run(session: Session, state: str, n: int = 0, kind: DagRunType = DagRunType.SCHEDULED) -> DagRun:
    at = FIRST + n * QUARTER
    dag = DagBag(str(airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"), include_examples=False).dags[ARCHIVE]
    run = dag.create_dagrun(
        run_type=kind,
        execution_date=at,
        data_interval=DataInterval(at, at + QUARTER),
        state=DagRunState(state),
        session=session,
    )
    session.commit()
    return run


def task(session: Session, run: DagRun, task_id: str) -> TaskInstance:
    return session.query(TaskInstance).filter_by(dag_id=run.dag_id, run_id=run.run_id, task_id=task_id).one()


def restarting(session: Session, run: DagRun, beat_ago: timedelta) -> None:
    """`publish` ran, with a heartbeat that long ago, and was cleared."""
    job = Job(job_type="LocalTaskJob", state="running", latest_heartbeat=timezone.utcnow() - beat_ago)
    session.add(job)
    session.flush()
    ti = task(session, run, "publish")
    ti.state, ti.job_id, ti.try_number = "running", job.id, 1
    session.commit()
    clear_task_instances([ti], session)
    session.commit()
    assert task(session, run, "publish").state == "restarting"


def cleared(session: Session, n: int, kind: DagRunType = DagRunType.SCHEDULED) -> DagRun:
    """A run that had ended well and was cleared."""
    run = add_run(session, "success", n, kind)
    clear_task_instances([task(session, run, "ready"), task(session, run, "publish")], session)
    session.commit()
    assert run.state == "queued"
    return run


@pytest.mark.parametrize(("beat_ago", "state"), [(LONG_AGO, None), (JUST_NOW, "restarting")])
def test_a_cleared_task_whose_process_died_runs_again(session: Session, beat_ago: timedelta, state: str | None) -> None:
    run = add_run(session, "running")
    restarting(session, run, beat_ago)
    assert len(revive([ARCHIVE], session)) == (state is None)
    session.commit()
    assert task(session, run, "publish").state == state
    assert task(session, run, "publish").max_tries >= (7 if state is None else 0)  # its retries begin anew
    assert run.state == "running"


def test_a_task_of_somebody_elses_dag_is_left_alone(session: Session) -> None:
    run = add_run(session, "running")
    restarting(session, run, LONG_AGO)
    assert revive(["other.archive"], session) == []


def test_cleared_runs_start_beyond_max_active_runs_few_at_a_time(session: Session) -> None:
    runs = [cleared(session, n) for n in range(MOST_AT_ONCE + 2)]
    waiting = add_run(session, "queued", MOST_AT_ONCE + 2)
    assert len(start(ARCHIVE, session)) == MOST_AT_ONCE
    session.commit()
    assert start(ARCHIVE, session) == []
    session.expire_all()
    assert [run.state for run in runs] == ["running"] * MOST_AT_ONCE + ["queued"] * 2
    assert waiting.state == "queued"  # nobody has cleared it
    ready = task(session, runs[0], "ready")
    ready.state = "deferred"  # so it takes nobody's place
    session.commit()
    assert len(start(ARCHIVE, session)) == 1


def test_no_cleared_run_starts_while_the_dag_is_paused_or_a_backfill_has_it(session: Session) -> None:
    cleared(session, 0, DagRunType.BACKFILL_JOB)
    assert start(ARCHIVE, session) == []
    run = cleared(session, 1)
    session.query(DagModel).update({"is_paused": True})
    session.commit()
    assert start(ARCHIVE, session) == []
    session.refresh(run)
    assert run.state == "queued"


@pytest.mark.parametrize(
    ("state", "after"), [("upstream_failed", None), ("skipped", None), ("success", "success"), ("running", "running")]
)
def test_a_task_that_is_done_frees_what_airflow_had_given_up(session: Session, state: str, after: str | None) -> None:
    run = add_run(session, "running")
    task(session, run, "publish").state = state
    session.commit()
    assert free(task(session, run, "ready"), {"publish"}, session) == (["publish"] if after is None else [])
    session.commit()
    session.expire_all()
    assert task(session, run, "publish").state == after


def test_the_maintenance_of_another_pipeline_is_revived_too(session: Session) -> None:
    """It runs one at a time, so nothing of its own would ever do it."""
    run = add_run(session, "running")
    restarting(session, run, LONG_AGO)
    task(session, run, "publish").operator = "MaintainOperator"
    session.commit()
    assert len(revive(["other.archive"], session)) == 1


@pytest.mark.parametrize(
    ("kind", "run_state", "publish", "after"),
    [
        (DagRunType.BACKFILL_JOB, "running", "up_for_retry", "success"),
        (
            DagRunType.BACKFILL_JOB,
            "running",
            None,
            None,
        ),  # nothing of this run has begun: the backfill has both before it
        (DagRunType.BACKFILL_JOB, "running", "running", None),  # nobody waits for it yet
        (DagRunType.BACKFILL_JOB, "queued", "up_for_retry", None),  # no backfill is at it
        (DagRunType.SCHEDULED, "running", "up_for_retry", None),  # the scheduler runs it again
    ],
)
def test_ready_that_a_backfill_has_seen_succeed_and_somebody_cleared_counts_as_done(
    session: Session, kind: DagRunType, run_state: str, publish: str | None, after: str | None
) -> None:
    run = add_run(session, run_state, kind=kind)
    ready = task(session, run, "ready")
    ready.state, ready.try_number = "success", 1
    session.commit()
    clear_task_instances([ready], session, dag_run_state=False)
    task(session, run, "publish").state = publish
    session.commit()
    said = hand_on([ARCHIVE], session)
    session.commit()
    session.expire_all()
    assert task(session, run, "ready").state == after
    assert len(said) == (after is not None)
    assert hand_on([ARCHIVE], session) == []
    assert hand_on(["other.archive"], session) == []
