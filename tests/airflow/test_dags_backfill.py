"""What happens to runs that a backfill touched, and the runs that Tidegate creates, on Airflow's own tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import airflow_home
import pendulum
import pytest
from airflow.exceptions import AirflowException
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

from tidegate.airflow import runs as module
from tidegate.airflow.backfill.stranded_runs import sweep, to_scheduled
from tidegate.airflow.runs import MOST_AT_ONCE, Filled, create_missing_runs, trigger_after_backlog
from tidegate.airflow.timetable import from_ms, to_ms
from tidegate.core.window.due import RunsSeen
from tidegate.core.window.states import WindowKey

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


def windows(*quarters: int) -> list[WindowKey]:
    return [WindowKey(to_ms(FIRST + QUARTER * q), to_ms(FIRST + QUARTER * (q + 1))) for q in quarters]


def front(session: Session, quarter: int | None) -> None:
    session.query(DagModel).filter_by(dag_id=ARCHIVE).update(
        {"next_dagrun": None if quarter is None else FIRST + QUARTER * quarter}
    )
    session.commit()


def fill(session: Session, *quarters: int, dag_id: str = ARCHIVE) -> Filled:
    found = create_missing_runs(dag_id, windows(*quarters), to_ms(timezone.utcnow()) + 1, session)
    session.commit()
    return found


def test_windows_that_the_schedule_went_past_get_runs_once(session: Session) -> None:
    add_run(session, "success", DagRunType.SCHEDULED, QUARTER * 1)
    front(session, 40)
    made = fill(session, 0, 1, 2).created
    assert made == ("scheduled__2024-10-27T01:00:00+00:00", "scheduled__2024-10-27T01:30:00+00:00")
    run = session.query(DagRun).filter_by(run_id=made[1]).one()
    assert (run.state, run.run_type, run.external_trigger) == ("running", "scheduled", False)  # no slot to wait for
    assert (run.data_interval_start, run.data_interval_end) == (FIRST + QUARTER * 2, FIRST + QUARTER * 3)
    assert {t.task_id for t in run.get_task_instances(session=session)} == {"ready", "publish"}
    assert fill(session, 0, 1, 2).created == ()


def test_no_run_is_created_ahead_of_the_schedule(session: Session) -> None:
    front(session, 2)
    assert len(fill(session, 1, 2, 3).created) == 1


def test_a_backfill_ahead_of_the_schedule_is_its_front(session: Session) -> None:
    """The next run that Airflow has noted is an old one until the DAG is parsed again."""
    front(session, 2)
    add_run(session, "success", at=QUARTER * 5)
    assert len(fill(session, 1, 2, 3, 4, 6).created) == 4


def test_few_at_a_time(session: Session) -> None:
    front(session, 100)
    assert len(fill(session, *range(50)).created) == MOST_AT_ONCE
    assert fill(session, *range(50)).created == ()


def test_a_hole_behind_windows_that_have_failed_is_filled(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many due windows have a run: those without one are found, page by page."""
    monkeypatch.setattr(module, "PAGE", 3)
    for quarter in range(7):
        add_run(session, "failed", DagRunType.SCHEDULED, QUARTER * quarter)
    front(session, 100)
    found = fill(session, *range(9))
    assert found.created == tuple(f"scheduled__{(FIRST + QUARTER * q).isoformat()}" for q in (7, 8))
    assert found.seen == RunsSeen(False, tuple(key.start_ms for key in windows(*range(7))))


@pytest.mark.parametrize(
    ("states", "ended"),
    [
        (("failed",), True),
        (("success",), True),  # by hand: the ledger knows of no publication
        (("running",), False),
        (("failed", "running"), False),  # somebody tries it again by hand
    ],
)
def test_a_window_whose_run_has_ended_is_told_and_gets_no_other(
    session: Session, states: tuple[str, ...], ended: bool
) -> None:
    for n, state in enumerate(states):
        run = add_run(session, state, DagRunType.MANUAL if n else DagRunType.SCHEDULED, timedelta(minutes=n))
        run.data_interval_start, run.data_interval_end = FIRST, FIRST + QUARTER
    front(session, 100)
    found = fill(session, 0)
    assert found == Filled(seen=RunsSeen(False, (to_ms(FIRST),) if ended else ()))


def test_a_run_that_has_just_ended_may_have_published_since(session: Session) -> None:
    run = add_run(session, "success", DagRunType.SCHEDULED)
    run.end_date = timezone.utcnow()
    front(session, 100)
    found = create_missing_runs(ARCHIVE, windows(0), to_ms(timezone.utcnow()) - 60_000, session)
    assert found == Filled(seen=RunsSeen(False, ()))


def test_a_run_that_somebody_has_cleared_starts_although_others_hold_every_slot(session: Session) -> None:
    """Two wait for windows that are not due; max_active_runs would let the cleared one wait behind them."""
    for quarter, state in ((0, "queued"), (1, "running"), (20, "running"), (21, "running")):
        add_run(session, state, DagRunType.SCHEDULED, QUARTER * quarter)
    front(session, 22)
    found = fill(session, 0, 1, 2)
    assert found.started == (f"scheduled__{FIRST.isoformat()}",)
    assert found.created == (f"scheduled__{(FIRST + QUARTER * 2).isoformat()}",)
    session.expire_all()
    assert {run.state for run in session.query(DagRun)} == {"running"}


def test_the_newest_window_of_the_schedule_can_be_cleared_too(session: Session) -> None:
    add_run(session, "queued", DagRunType.SCHEDULED)
    front(session, 0)
    assert fill(session, 0).started == (f"scheduled__{FIRST.isoformat()}",)


def test_what_starts_is_few_at_a_time(session: Session) -> None:
    for quarter in range(MOST_AT_ONCE + 3):
        add_run(session, "queued", DagRunType.SCHEDULED, QUARTER * quarter)
    front(session, 100)
    assert len(fill(session, *range(20)).started) == MOST_AT_ONCE
    assert fill(session, *range(20)) == Filled(seen=RunsSeen(False, ()))


def test_runs_that_wait_for_something_else_do_not_keep_a_hole_open(session: Session) -> None:
    """The watermark has passed their windows, but another system has not counted them yet."""
    for quarter in range(MOST_AT_ONCE):
        set_task(session, add_run(session, "running", DagRunType.SCHEDULED, QUARTER * quarter), "ready", "deferred")
    front(session, 100)
    assert len(fill(session, *range(MOST_AT_ONCE + 2)).created) == 2


def test_a_run_by_hand_is_its_windows_run(session: Session) -> None:
    run = add_run(session, "running", DagRunType.MANUAL, timedelta(minutes=20))
    run.data_interval_start, run.data_interval_end = FIRST + QUARTER, FIRST + QUARTER * 2
    front(session, 100)
    assert fill(session, 1).created == ()


def test_a_paused_dag_gets_no_runs(session: Session) -> None:
    front(session, 100)
    session.query(DagModel).update({"is_paused": True})
    session.commit()
    assert fill(session, 0) == Filled(seen=RunsSeen(True, ()))
    assert "paused" in trigger_after_backlog(INGEST, 7)
    assert session.query(DagRun).count() == 0


def test_an_unknown_dag_gets_no_runs(session: Session) -> None:
    assert fill(session, 0, dag_id="gone.archive") == Filled()


def test_a_backlog_triggers_one_run_however_often_it_is_asked_for(session: Session) -> None:
    assert "triggered backlog_after_batch_7" in trigger_after_backlog(INGEST, 7)
    assert "exists already" in trigger_after_backlog(INGEST, 7)
    assert "triggered backlog_after_batch_8" in trigger_after_backlog(INGEST, 8)  # within the same second
    assert {run.run_id for run in session.query(DagRun)} == {"backlog_after_batch_7", "backlog_after_batch_8"}


def lose(session: Session, monkeypatch: pytest.MonkeyPatch, back_after: int | None = None) -> None:
    """Airflow does not know the ingest DAG, until somebody has waited so many times."""
    session.query(SerializedDagModel).filter_by(dag_id=INGEST).delete()
    session.commit()
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == back_after:
            SerializedDagModel.write_dag(dag(INGEST), session=session)
            session.commit()

    monkeypatch.setattr(module.time, "sleep", sleep)
    if back_after is None:
        monkeypatch.setattr(module, "LOST_S", 0.0)


def test_a_dag_that_airflow_has_lost_for_a_moment_is_waited_for(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(session, monkeypatch, back_after=2)
    assert "triggered backlog_after_batch_7" in trigger_after_backlog(INGEST, 7)
    assert session.query(DagRun).one().run_id == "backlog_after_batch_7"


def test_a_dag_that_stays_lost_is_left_to_its_schedule(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    lose(session, monkeypatch)
    assert "the next run by its schedule goes on" in trigger_after_backlog(INGEST, 7, scheduled=True)
    with pytest.raises(AirflowException, match="what to do: airflow dags list-import-errors"):
        trigger_after_backlog(INGEST, 7)
    with pytest.raises(AirflowException, match=r"doesn't know gone\.ingest"):
        trigger_after_backlog("gone.ingest", 7)


def test_a_run_created_here_has_the_window_that_the_schedule_would_give_it(session: Session) -> None:
    front(session, 100)
    fill(session, 3)
    run = session.query(DagRun).one()
    scheduled = dag().timetable.infer_manual_data_interval(run_after=from_ms(windows(3)[0].start_ms))
    assert (run.data_interval_start, run.data_interval_end) == scheduled
