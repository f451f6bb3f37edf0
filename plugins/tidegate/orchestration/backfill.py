"""Airflow 2.11: runs that `airflow dags backfill` touched stay re-runnable.

The scheduler ignores runs of type backfill: a task cleared in one would wait for ever. So a backfill run becomes a
scheduled one as soon as it ends (`to_scheduled`, inside the backfill process), and what a killed backfill leaves
behind is found by the maintenance DAG (`sweep`): SIGKILL and Ctrl-C call no callback, and a surviving task process can
save its stale copy of the run. No listener does this: any listener makes other people's `end_from_trigger=True` tasks
import errors, and Ctrl-C notifies none.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.utils.context import Context
    from sqlalchemy.orm import Session
    from sqlalchemy.sql import ColumnElement

HEARTBEAT_LIMIT = timedelta(minutes=2)
"""A job without a heartbeat for this long is dead; `state='running'` stays in the table after SIGKILL."""


def to_scheduled(context: Context) -> None:
    """on_success_callback and on_failure_callback of a DAG: a backfill run that ended becomes a scheduled one.

    After the commit and by a transaction of its own: set on the object, `update_state`'s merge would undo it.
    """
    from airflow import settings
    from airflow.models.dagrun import DagRun
    from airflow.utils.types import DagRunType
    from sqlalchemy import event, update
    from sqlalchemy.orm import object_session

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
    """Runs of these DAGs left as type backfill become scheduled ones; those that nobody works on any more fail.

    Any live backfill protects all unfinished backfill runs, because a run does not say whose it is (`creating_job_id`
    is wrong after a take-over); so does a running task with a live job. Returns what was done, in words.
    """
    from airflow.models.dagrun import DagRun
    from airflow.utils.state import DagRunState, State
    from airflow.utils.types import DagRunType
    from sqlalchemy import select

    backfilling = _live_backfills(session)
    done: list[str] = []
    stranded = select(DagRun).where(DagRun.dag_id.in_(dag_ids), DagRun.run_type == DagRunType.BACKFILL_JOB)
    for run in session.scalars(stranded.with_for_update(skip_locked=True)):
        if run.state not in State.finished_dr_states:
            if backfilling or _busy(run, session):
                continue
            _fail_unfinished_tasks(run, session)
            run.state = DagRunState.FAILED
            done.append(f"{run.dag_id} {run.run_id}: its backfill is gone, failed; clear it to go on")
        else:
            done.append(f"{run.dag_id} {run.run_id}: left as a backfill run, can be cleared again now")
        run.run_type = DagRunType.SCHEDULED
    return done


def _live() -> ColumnElement[bool]:
    from airflow.jobs.job import Job
    from airflow.utils import timezone
    from airflow.utils.state import JobState
    from sqlalchemy import and_

    recent = timezone.utcnow() - HEARTBEAT_LIMIT
    return and_(Job.state == JobState.RUNNING, Job.end_date.is_(None), Job.latest_heartbeat > recent)


def _live_backfills(session: Session) -> bool:
    from airflow.jobs.job import Job
    from sqlalchemy import func, select

    # by type only: a backfill job's dag_id is null
    return bool(session.scalar(select(func.count()).select_from(Job).where(Job.job_type == "BackfillJob", _live())))


def _busy(run: DagRun, session: Session) -> bool:
    from airflow.jobs.job import Job
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.state import TaskInstanceState
    from sqlalchemy import func, select

    tasks = select(func.count()).select_from(TaskInstance).join(Job, Job.id == TaskInstance.job_id)
    mine = (TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
    return bool(session.scalar(tasks.where(*mine, TaskInstance.state == TaskInstanceState.RUNNING, _live())))


def _fail_unfinished_tasks(run: DagRun, session: Session) -> None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.state import State, TaskInstanceState
    from sqlalchemy import or_, update

    unfinished = [state for state in State.unfinished if state is not None]
    session.execute(
        update(TaskInstance)
        .where(
            TaskInstance.dag_id == run.dag_id,
            TaskInstance.run_id == run.run_id,
            or_(TaskInstance.state.is_(None), TaskInstance.state.in_(unfinished)),
        )
        .values(  # a dead RUNNING task that is cleared would stay RESTARTING for ever
            state=TaskInstanceState.FAILED,
            trigger_id=None,
            next_method=None,
            next_kwargs=None,
            queued_by_job_id=None,
            external_executor_id=None,
        )
        .execution_options(synchronize_session=False)
    )
