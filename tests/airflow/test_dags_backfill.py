"""What happens to runs that a backfill touched, and the runs that Tidegate creates, on Airflow's own tables."""

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
from airflow.models.taskinstance import TaskInstance
from airflow.timetables.base import DataInterval
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import flag_modified

from tidegate.airflow.backfill.stranded_runs import sweep, to_scheduled

ARCHIVE, INGEST = "tram_positions.archive", "tram_positions.ingest"
FIRST = pendulum.datetime(2024, 10, 27, 1)
QUARTER = timedelta(minutes=15)
OURS = (ARCHIVE, INGEST)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Airflow's database with the tram pipeline's DAGs, unpaused, and nothing else."""
    airflow_home.make_database()
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    shutil.copy(airflow_home.CHECKOUT / "tests/fixtures/pipelines/tram_positions.yaml", tmp_path)
    bag = DagBag(str(airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"), include_examples=False)
    assert bag.import_errors == {}
    with create_session() as session:
        for table in (TaskInstance, DagRun, Job):
            session.query(table).delete()
        bag.sync_to_db(session=session)
        for dag in bag.dags.values():
            SerializedDagModel.write_dag(dag, session=session)
        session.query(DagModel).update({"is_paused": False})
        session.commit()
        yield session


def dag(dag_id: str = ARCHIVE):
    return DagBag(str(airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"), include_examples=False).dags[dag_id]


def add_run(
    session: Session,
    state: str,
    kind: DagRunType = DagRunType.BACKFILL_JOB,
    at: timedelta = QUARTER * 0,
    dag_id: str = ARCHIVE,
):
    start = FIRST + at
    run = dag(dag_id).create_dagrun(
        run_type=kind,
        execution_date=start,
        data_interval=DataInterval(start, start + QUARTER),
        state=DagRunState(state),
        session=session,
    )
    session.commit()
    return run


def set_task(session: Session, run: DagRun, task_id: str, state: str | None, job: Job | None = None) -> None:
    task = session.query(TaskInstance).filter_by(dag_id=run.dag_id, run_id=run.run_id, task_id=task_id).one()
    task.state, task.job_id = state, job and job.id
    session.commit()


def add_job(session: Session, kind: str, beat_ago: timedelta, ended: bool = False) -> Job:
    job = Job(job_type=kind, state="running", latest_heartbeat=timezone.utcnow() - beat_ago)
    job.end_date = timezone.utcnow() if ended else None
    session.add(job)
    session.commit()
    return job


def again(session: Session, run: DagRun) -> tuple[str, str]:
    session.expire_all()
    session.refresh(run)
    return run.run_type, run.state


JUST_NOW, LONG_AGO = timedelta(seconds=5), timedelta(minutes=10)


def test_a_finished_backfill_run_becomes_a_scheduled_one(session: Session) -> None:
    run = add_run(session, "success")
    assert len(sweep(OURS, session)) == 1
    session.commit()
    assert again(session, run) == ("scheduled", "success")


def test_a_run_whose_backfill_died_fails_and_can_be_cleared(session: Session) -> None:
    run = add_run(session, "running")
    dead = add_job(session, "LocalTaskJob", LONG_AGO)
    add_job(session, "BackfillJob", LONG_AGO)  # SIGKILL leaves it `running`
    set_task(session, run, "ready", "running", dead)
    sweep(OURS, session)
    session.commit()
    assert again(session, run) == ("scheduled", "failed")
    assert {t.state for t in run.get_task_instances(session=session)} == {None}  # running would become restarting
    run.dag = dag()
    run.dag.clear(start_date=FIRST, end_date=FIRST, session=session)
    session.commit()
    assert again(session, run) == ("scheduled", "queued")
    assert {t.state for t in run.get_task_instances(session=session)} == {None}


def test_a_live_backfill_protects_every_unfinished_run(session: Session) -> None:
    run, done = add_run(session, "running"), add_run(session, "success", at=QUARTER)
    add_job(session, "BackfillJob", JUST_NOW)
    sweep(OURS, session)
    session.commit()
    assert again(session, run) == ("backfill", "running")
    assert again(session, done) == ("scheduled", "success")


@pytest.mark.parametrize("trace", ["made a run", "queued a task"])
def test_a_live_backfill_of_another_dag_protects_nothing(session: Session, trace: str) -> None:
    """A job doesn't say whose it is, but what it has done does."""
    run, other = add_run(session, "running"), add_run(session, "running", DagRunType.SCHEDULED, dag_id=INGEST)
    job = add_job(session, "BackfillJob", JUST_NOW)
    assert sweep(OURS, session) == [], "nobody knows yet whose it is"
    if trace == "made a run":
        other.run_type, other.creating_job_id = DagRunType.BACKFILL_JOB, job.id
    else:
        set_task(session, other, "plan", "queued")
        session.query(TaskInstance).filter_by(dag_id=INGEST, task_id="plan").update({"queued_by_job_id": job.id})
    session.commit()
    sweep([ARCHIVE], session)
    session.commit()
    assert again(session, run) == ("scheduled", "failed")
    assert again(session, other)[1] == "running"


def test_a_live_backfill_that_took_a_run_over_protects_its_dag(session: Session) -> None:
    """The run names the job that made it, which is dead."""
    run = add_run(session, "running")
    run.creating_job_id = add_job(session, "BackfillJob", LONG_AGO).id
    job = add_job(session, "BackfillJob", JUST_NOW)
    set_task(session, run, "ready", "queued")
    session.query(TaskInstance).filter_by(task_id="ready").update({"queued_by_job_id": job.id})
    session.commit()
    assert sweep(OURS, session) == []


def test_a_run_that_was_interrupted_while_its_tasks_went_on_has_succeeded(session: Session) -> None:
    """Ctrl-C fails the runs at once, then waits for the tasks."""
    run = add_run(session, "running")
    run.state = DagRunState.FAILED
    set_task(session, run, "ready", "success")
    set_task(session, run, "publish", "running", add_job(session, "LocalTaskJob", JUST_NOW))
    assert sweep(OURS, session) == []
    set_task(session, run, "publish", "success")
    sweep(OURS, session)
    session.commit()
    assert again(session, run) == ("scheduled", "success")


def test_a_dead_task_of_a_run_that_was_interrupted_does_not_stay_running(session: Session) -> None:
    run = add_run(session, "running")
    run.state = DagRunState.FAILED
    set_task(session, run, "ready", "running", add_job(session, "LocalTaskJob", LONG_AGO))
    sweep(OURS, session)
    session.commit()
    assert again(session, run) == ("scheduled", "failed")
    assert {t.state for t in run.get_task_instances(session=session)} == {None}


def test_what_was_cleared_before_it_became_a_scheduled_run_waits_for_the_scheduler(session: Session) -> None:
    run = add_run(session, "queued")
    sweep(OURS, session)
    session.commit()
    assert again(session, run) == ("scheduled", "queued")


def test_a_backfill_that_has_ended_protects_nothing(session: Session) -> None:
    run = add_run(session, "running")
    add_job(session, "BackfillJob", JUST_NOW, ended=True)
    sweep(OURS, session)
    session.commit()
    assert again(session, run) == ("scheduled", "failed")


def test_a_living_task_of_a_dead_backfill_is_left_to_finish(session: Session) -> None:
    run = add_run(session, "running")
    set_task(session, run, "ready", "running", add_job(session, "LocalTaskJob", JUST_NOW))
    assert sweep(OURS, session) == []
    session.commit()
    assert again(session, run) == ("backfill", "running")


def test_other_peoples_runs_are_left_alone(session: Session) -> None:
    run, scheduled = add_run(session, "running"), add_run(session, "running", DagRunType.SCHEDULED, QUARTER)
    assert sweep(["other.archive"], session) == []
    assert again(session, run) == ("backfill", "running")
    assert again(session, scheduled) == ("scheduled", "running")


@pytest.mark.parametrize("kind", [DagRunType.BACKFILL_JOB, DagRunType.MANUAL])
def test_the_callback_changes_backfill_runs_after_the_commit(session: Session, kind: DagRunType) -> None:
    run = add_run(session, "running", kind)
    run.state = DagRunState.SUCCESS
    to_scheduled({"dag_run": run})  # type: ignore[typeddict-item]
    run.run_type = kind  # what merging a stale copy does after the callback, before the commit
    flag_modified(run, "run_type")
    session.commit()
    assert again(session, run) == ("scheduled" if kind == DagRunType.BACKFILL_JOB else "manual", "success")
