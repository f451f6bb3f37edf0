"""Airflow 2.11: runs that `airflow dags backfill` leaves behind, made re-runnable.

The scheduler ignores runs of type backfill: a task cleared in one would wait forever. So a backfill run becomes a
scheduled one as soon as it ends (`to_scheduled`, inside the backfill process), and what a killed backfill leaves
behind is found by the maintenance DAG (`sweep`): SIGKILL and Ctrl-C call no callback, and a surviving task process can
save its stale copy of the run. No listener does this: any listener makes other people's `end_from_trigger=True` tasks
import errors, and Ctrl-C notifies none.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from airflow import settings
from airflow.jobs.job import Job
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils import timezone
from airflow.utils.context import Context
from airflow.utils.state import DagRunState, JobState, State, TaskInstanceState
from airflow.utils.types import DagRunType
from sqlalchemy import and_, event, func, select, update
from sqlalchemy.orm import Session, object_session
from sqlalchemy.sql import ColumnElement

HEARTBEAT_LIMIT = timedelta(minutes=2)
"""A job without a heartbeat for this long is dead; `state='running'` stays in the table after SIGKILL."""


def to_scheduled(context: Context) -> None:
    """on_success_callback and on_failure_callback of a DAG: a backfill run that ended becomes a scheduled one.

    After the commit and by a transaction of its own: set on the object, `update_state`'s merge would undo it.
    """
    run = context["dag_run"]
    if run.run_type != DagRunType.BACKFILL_JOB:
        return
    mine = (DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id, DagRun.run_type == DagRunType.BACKFILL_JOB)

    def change(_session: Session) -> None:
        with settings.Session.session_factory() as own:  # the scoped session is the one that is committing
            own.execute(
                update(DagRun)
                .where(*mine)
                .values(run_type=DagRunType.SCHEDULED)
                .execution_options(synchronize_session=False)
            )
            own.commit()

    session = object_session(run)
    if session is None:
        change(session)
    else:
        event.listen(session, "after_commit", change, once=True)


def sweep(dag_ids: Collection[str], session: Session) -> list[str]:
    """Turn runs of these DAGs that were left as type backfill into scheduled ones. Abandoned runs fail, with their
    tasks where they were: Clear, and the same backfill again, go on there. Those that a backfill had set aside
    (`aside`) or somebody has cleared are queued.

    A backfill that lives and may be at work on its DAG protects every unfinished backfill run, because a run does not
    name its backfill (`creating_job_id` is wrong after a take-over); so does a running task with a live job. Returns
    what was done, in words."""
    done: list[str] = []
    stranded = select(DagRun).where(DagRun.dag_id.in_(dag_ids), DagRun.run_type == DagRunType.BACKFILL_JOB)
    runs = session.scalars(stranded.with_for_update(skip_locked=True)).all()
    backfilling = {dag_id: bool(live_backfills(dag_id, session)) for dag_id in {run.dag_id for run in runs}}
    for run in runs:
        said = _settle(run, backfilling[run.dag_id], session)
        if said:
            run.run_type = DagRunType.SCHEDULED
            done.append(f"{run.dag_id} {run.run_id}: {said}")
    session.flush()  # Airflow's sessions do not by themselves
    return done


def _settle(run: DagRun, backfilling: bool, session: Session) -> str | None:
    """Settle the run. Returns the outcome in words; None while somebody works on it."""
    over, aside = run.state in State.finished_dr_states, run.state == DagRunState.FAILED and run.end_date is None
    if (backfilling and (aside or not over)) or _busy(run, session):
        return None
    if aside and run.updated_at is not None and run.updated_at > timezone.utcnow() - HEARTBEAT_LIMIT:
        return None  # its backfill is about to begin its job, which is what tells that it lives
    if aside or run.state == DagRunState.QUEUED:
        run.state = DagRunState.QUEUED
        return "its backfill is gone and had not come to it, queued"
    if not over:
        _reset_unfinished_tasks(run, session)
        run.state = DagRunState.FAILED
        return "its backfill is gone, failed; clear it to go on"
    if run.state == DagRunState.FAILED:
        if all(t.state == TaskInstanceState.SUCCESS for t in run.get_task_instances(session=session)):
            run.state = DagRunState.SUCCESS  # Ctrl-C fails the runs and then waits for their tasks, which go on
        else:
            _reset_unfinished_tasks(run, session)
    return "left as a backfill run, can be cleared again now"


def _live() -> ColumnElement[bool]:
    recent = timezone.utcnow() - HEARTBEAT_LIMIT
    return and_(Job.state == JobState.RUNNING, Job.end_date.is_(None), Job.latest_heartbeat > recent)


def live_backfills(dag_id: str, session: Session) -> dict[int, datetime]:
    """Ids of the jobs of backfills that may be at work on this DAG, with their last heartbeats."""
    # by type only: a backfill job's dag_id is null
    found = select(Job.id, Job.latest_heartbeat).where(Job.job_type == "BackfillJob", _live())
    live = {job_id: beat for job_id, beat in session.execute(found)}
    elsewhere = _elsewhere(dag_id, live, session) if live else set()
    return {job_id: beat for job_id, beat in live.items() if job_id not in elsewhere}


def _elsewhere(dag_id: str, jobs: Collection[int], session: Session) -> set[int]:
    """Ids of these backfills that work on another DAG: a job works on one, which its runs and queued tasks name. A
    job without either may be any DAG's."""
    made = DagRun.run_type == DagRunType.BACKFILL_JOB, DagRun.creating_job_id.in_(jobs), DagRun.dag_id != dag_id
    unfinished = [state for state in State.unfinished if state is not None]  # these have an index
    at_work = TaskInstance.state.in_(unfinished), TaskInstance.queued_by_job_id.in_(jobs)
    queued = select(TaskInstance.queued_by_job_id).where(*at_work, TaskInstance.dag_id != dag_id)
    return {*session.scalars(select(DagRun.creating_job_id).where(*made)), *session.scalars(queued)}


def _busy(run: DagRun, session: Session) -> bool:
    tasks = select(func.count()).select_from(TaskInstance).join(Job, Job.id == TaskInstance.job_id)
    mine = (TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
    return bool(session.scalar(tasks.where(*mine, TaskInstance.state == TaskInstanceState.RUNNING, _live())))


def _reset_unfinished_tasks(run: DagRun, session: Session) -> None:
    unfinished = [state for state in State.unfinished if state is not None]
    session.execute(
        update(TaskInstance)
        .where(
            TaskInstance.dag_id == run.dag_id,
            TaskInstance.run_id == run.run_id,
            TaskInstance.state.in_(unfinished),
        )
        .values(  # a dead RUNNING task that is cleared would stay RESTARTING forever
            state=None,
            trigger_id=None,
            next_method=None,
            next_kwargs=None,
            queued_by_job_id=None,
            external_executor_id=None,
        )
        .execution_options(synchronize_session=False)
    )
