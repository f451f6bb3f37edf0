"""Runs that may work on a window's replay, now or later: maintenance leaves these replays alone."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import State
from sqlalchemy import exists, or_, select
from sqlalchemy.orm import Session

from tidegate.airflow.timetable import from_ms, to_ms
from tidegate.core.window.states import WindowKey


def at_work(name: str, windows: Sequence[WindowKey], session: Session) -> set[int]:
    """Starts (UTC ms) of those of these windows that a run that has not ended may work on.

    All, while a run of its replay DAG has not ended: its conf may name any window. Else those whose archive run has
    not: a publish task that is cleared carries a replay to its end. A run has not ended while one of its tasks has not,
    whatever is said of the run."""
    if _replaying(f"{name}.replay", session):
        return {key.start_ms for key in windows}
    starts = {key.start_ms for key in windows}
    return starts & _open_windows(f"{name}.archive", windows, session)


def _replaying(dag_id: str, session: Session) -> bool:
    runs = select(DagRun.run_id).where(DagRun.dag_id == dag_id, DagRun.state.in_(State.unfinished_dr_states))
    working = [state for state in State.unfinished if state is not None]  # None: never begun, as the run says
    tasks = select(TaskInstance.run_id).where(TaskInstance.dag_id == dag_id, TaskInstance.state.in_(working))
    return any(session.scalar(found.limit(1)) is not None for found in (runs, tasks))


def _open_windows(dag_id: str, windows: Sequence[WindowKey], session: Session) -> set[int]:
    working = [state for state in State.unfinished if state is not None]
    same = (TaskInstance.dag_id == DagRun.dag_id, TaskInstance.run_id == DagRun.run_id)
    task = exists().where(*same, TaskInstance.state.in_(working))
    first, end = from_ms(min(windows).start_ms), from_ms(max(windows).end_ms)
    about = or_(
        DagRun.execution_date.between(first, end),
        DagRun.data_interval_start.between(first, end),  # a run by hand has a date of its own
    )
    columns = (DagRun.execution_date, DagRun.data_interval_start)
    found = select(*columns).where(
        DagRun.dag_id == dag_id, about, or_(DagRun.state.in_(State.unfinished_dr_states), task)
    )
    return {to_ms(at) for run in session.execute(found) for at in run if at is not None}
