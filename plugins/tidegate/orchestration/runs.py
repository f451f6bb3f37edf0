"""DAG runs that Tidegate creates itself: the ingest run after one with a backlog, and archive runs nobody created."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tidegate.core.window import WindowKey

if TYPE_CHECKING:
    from airflow.models.dag import DAG, DagModel
    from sqlalchemy.orm import Session

MOST_QUEUED = 8


def trigger_after_backlog(dag_id: str, batch_id: int) -> str:
    """Create the ingest run that goes on after `batch_id`, once however often it is asked for. What was done, in words.

    A paused DAG gets none: a queued run would start by surprise when somebody unpauses it.
    """
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.exceptions import DagRunAlreadyExists
    from airflow.models.dag import DagModel

    model = DagModel.get_current(dag_id)
    if model is None or model.is_paused:
        return f"a backlog is left; {dag_id} is paused, so nothing was triggered"
    run_id = f"backlog_after_batch_{batch_id}"
    try:
        # whole seconds would make two triggers within one second the same logical date
        trigger_dag(dag_id, run_id=run_id, replace_microseconds=False)
    except DagRunAlreadyExists:
        return f"a backlog is left; {run_id} exists already"
    return f"a backlog is left; triggered {run_id}"


def create_missing_runs(dag_id: str, windows: Sequence[WindowKey], session: Session) -> list[str]:
    """Scheduled runs for `windows` that the scheduler went past, few at a time. Returns their run ids.

    None while the DAG is paused, and none from the schedule's own next run on: a scheduled run ahead of it would make
    the scheduler skip everything between. Queued runs count against max_active_runs, so the schedule waits for those
    made here: right, because they are ready, and why there are never more than MOST_QUEUED.
    """
    from airflow.models.dag import DagModel
    from airflow.models.dagbag import DagBag

    model = session.get(DagModel, dag_id)
    if not windows or model is None or model.is_paused or not model.is_active:
        return []
    bag = DagBag(read_dags_from_db=True)
    dag = bag.get_dag(dag_id, session=session)
    if dag is None:
        return []
    limit = MOST_QUEUED - _queued_runs(dag_id, session)
    behind = _behind_schedule(windows, model)
    taken = _logical_dates(dag_id, behind, session)
    missing = [key for key in behind if key.start_ms not in taken]
    return [_create(dag, key, bag.dags_hash.get(dag_id), session) for key in missing[: max(0, limit)]]


def _behind_schedule(windows: Sequence[WindowKey], model: DagModel) -> list[WindowKey]:
    from tidegate.orchestration.timetable import to_ms

    front = model.next_dagrun
    return sorted(key for key in windows if front is None or key.start_ms < to_ms(front))


def _queued_runs(dag_id: str, session: Session) -> int:
    from airflow.models.dagrun import DagRun
    from airflow.utils.state import DagRunState
    from sqlalchemy import func, select

    queued = select(func.count()).where(DagRun.dag_id == dag_id, DagRun.state == DagRunState.QUEUED)
    return session.scalar(queued) or 0


def _logical_dates(dag_id: str, windows: Collection[WindowKey], session: Session) -> set[int]:
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    from tidegate.orchestration.timetable import from_ms, to_ms

    if not windows:
        return set()
    first, last = (from_ms(key.start_ms) for key in (min(windows), max(windows)))
    found = select(DagRun.execution_date).where(
        DagRun.dag_id == dag_id, DagRun.execution_date >= first, DagRun.execution_date <= last
    )
    return {to_ms(date) for date in session.scalars(found)}


def _create(dag: DAG, key: WindowKey, dag_hash: str | None, session: Session) -> str:
    from airflow.timetables.base import DataInterval
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType

    from tidegate.orchestration.timetable import from_ms

    interval = DataInterval(from_ms(key.start_ms), from_ms(key.end_ms))
    run = dag.create_dagrun(
        run_type=DagRunType.SCHEDULED,
        execution_date=interval.start,
        data_interval=interval,
        state=DagRunState.QUEUED,
        external_trigger=False,
        dag_hash=dag_hash,
        session=session,
    )
    return run.run_id
