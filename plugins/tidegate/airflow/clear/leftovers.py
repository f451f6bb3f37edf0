"""Airflow 2.11: tasks and runs that Clear begins and nothing ends.

A running task that is cleared becomes `restarting`, and its own process has to report its end. When that process dies
first (killed with its worker, or because it did not stop in time), the task stays: the scheduler looks for dead tasks
among the running ones only. And a run that is cleared becomes `queued`: while runs that wait for their windows fill
max_active_runs, which may last for hours, it does not start, though its window is ready. And a task that failed, or
whose run was marked as failed, leaves its followers `upstream_failed` or `skipped`, for good: when it is cleared alone,
the run ends without them. And a backfill begins no task again that it has seen succeed: when the whole run is cleared
while a later task is at work, that one waits for it forever."""

from __future__ import annotations

from collections.abc import Collection

from airflow.jobs.job import Job
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunType
from sqlalchemy import and_, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from tidegate.airflow.backfill.stranded_runs import HEARTBEAT_LIMIT

MOST_AT_ONCE = 8
"""Most cleared runs at work beyond max_active_runs."""


def revive(dag_ids: Collection[str], session: Session) -> list[str]:
    """Clear once more, so that they run, tasks of these DAGs that are `restarting` and whose process is dead; those
    of other pipelines' maintenance too, which cannot do it for itself. Returns what it did, in words."""
    # a job that was told to end has an end date while its process is still being ended: only its heartbeat counts
    silent = or_(Job.id.is_(None), Job.latest_heartbeat < timezone.utcnow() - HEARTBEAT_LIMIT)
    mine = or_(TaskInstance.dag_id.in_(dag_ids), TaskInstance.operator == "MaintainOperator")
    restarting = TaskInstance.state == TaskInstanceState.RESTARTING
    found = select(TaskInstance).outerjoin(Job, Job.id == TaskInstance.job_id).where(mine, restarting, silent)
    dead = session.scalars(found.with_for_update(of=TaskInstance, skip_locked=True)).all()
    if dead:
        clear_task_instances(dead, session, dag_run_state=False)
    return [f"{ti.dag_id} {ti.run_id} {ti.task_id}: its process died while it was ended; it runs again" for ti in dead]


def free(ti: TaskInstance, followers: Collection[str], session: Session) -> list[str]:
    """Let tasks that follow `ti`, which has succeeded, run though Airflow has given them up. Returns their names."""
    given_up = TaskInstance.state.in_((TaskInstanceState.UPSTREAM_FAILED, TaskInstanceState.SKIPPED))
    done = []
    for task_id in sorted(followers):
        mine = (TaskInstance.dag_id == ti.dag_id, TaskInstance.run_id == ti.run_id, TaskInstance.task_id == task_id)
        change = update(TaskInstance).where(*mine, given_up).values(state=None, start_date=None, end_date=None)
        if session.execute(change.execution_options(synchronize_session=False)).rowcount:
            done.append(task_id)
    return done


def skip(ti: TaskInstance, followers: Collection[str]) -> None:
    """Skip tasks that follow `ti` and have nothing to do, before they get a process. Airflow's own skipping would
    leave a mark that makes a later Clear skip them again."""
    mine = (TaskInstance.dag_id == ti.dag_id, TaskInstance.run_id == ti.run_id, TaskInstance.task_id.in_(followers))
    now = timezone.utcnow()
    change = update(TaskInstance).where(*mine, TaskInstance.state.is_(None))
    change = change.values(state=TaskInstanceState.SKIPPED, start_date=now, end_date=now)
    with create_session() as session:
        session.execute(change.execution_options(synchronize_session=False))


def hand_on(dag_ids: Collection[str], session: Session) -> list[str]:
    """Count a `ready` of a backfill's run as done again that had succeeded and was cleared while `publish` was at
    work: `publish` looks for itself whether its window is ready. Returns what it did, in words."""
    later = aliased(TaskInstance)
    same = (later.dag_id == TaskInstance.dag_id, later.run_id == TaskInstance.run_id)
    waits = exists().where(*same, later.task_id == "publish", later.state == TaskInstanceState.UP_FOR_RETRY)
    run = (DagRun.dag_id == TaskInstance.dag_id, DagRun.run_id == TaskInstance.run_id)
    at_work = (DagRun.run_type == DagRunType.BACKFILL_JOB, DagRun.state == DagRunState.RUNNING)
    mine = (TaskInstance.dag_id.in_(dag_ids), TaskInstance.task_id == "ready", TaskInstance.state.is_(None), waits)
    found = select(TaskInstance.dag_id, TaskInstance.run_id).join(DagRun, and_(*run)).where(*at_work, *mine)
    done = []
    for dag_id, run_id in session.execute(found).all():
        one = (TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
        change = update(TaskInstance).where(*one, *mine).values(state=TaskInstanceState.SUCCESS)
        if session.execute(change.execution_options(synchronize_session=False)).rowcount:
            done.append(
                f"{dag_id} {run_id} ready: was cleared within a backfill, which begins it no more; it counts as done, "
                "publish looks for itself"
            )
    return done


def start(dag_id: str, session: Session) -> list[str]:
    """Start queued runs of this DAG that somebody has cleared, whatever max_active_runs says, few at a time; none
    while the DAG is paused. Returns what it did, in words."""
    model = session.get(DagModel, dag_id)
    if model is None or model.is_paused or not model.is_active:
        return []
    mine = (DagRun.dag_id == dag_id, DagRun.clear_number > 0, DagRun.run_type != DagRunType.BACKFILL_JOB)
    room = MOST_AT_ONCE - _at_work(dag_id, session)
    queued = select(DagRun.run_id).where(*mine, DagRun.state == DagRunState.QUEUED)
    done = []
    for run_id in session.scalars(queued.order_by(DagRun.execution_date).limit(max(0, room))).all():
        change = update(DagRun).where(*mine, DagRun.run_id == run_id, DagRun.state == DagRunState.QUEUED)
        change = change.values(state=DagRunState.RUNNING, start_date=timezone.utcnow())
        if session.execute(change.execution_options(synchronize_session=False)).rowcount:
            done.append(f"{dag_id} {run_id}: was cleared and queued behind runs that wait; started")
    return done


def _at_work(dag_id: str, session: Session) -> int:
    """Number of cleared runs that run, and do not wait in the triggerer."""
    waits = (TaskInstance.run_id == DagRun.run_id, TaskInstance.state == TaskInstanceState.DEFERRED)
    waiting = select(TaskInstance.run_id).where(TaskInstance.dag_id == dag_id, *waits).exists()
    running = (DagRun.dag_id == dag_id, DagRun.clear_number > 0, DagRun.state == DagRunState.RUNNING)
    return session.scalar(select(func.count()).select_from(DagRun).where(*running, ~waiting)) or 0
