"""Runs of a backfill's part that it has not begun: the scheduler neither starts them nor makes them a second time.

Airflow's backfill makes a run in the moment in which it begins it. Until then the schedule may make a run for the same
date and start it, and both would work on it. So the missing ones are made beforehand, and queued ones are taken: as
failed runs of type backfill without an end, which neither the scheduler nor `max_active_runs` looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from airflow.models.dag import DAG
from airflow.models.dagrun import DagRun
from airflow.utils import timezone
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tidegate.airflow.timetable import BackfillOnlyTimetable


def make_missing(dag: DAG, dates: Sequence[datetime], session: Session) -> set[str]:
    """Make held runs for those of these logical dates that have none; returns their ids. A run that the schedule
    makes in this moment stays the schedule's. A DAG without a schedule needs none."""
    if isinstance(dag.timetable, BackfillOnlyTimetable):
        return set()
    found = select(DagRun.execution_date).where(DagRun.dag_id == dag.dag_id, DagRun.execution_date.in_(dates))
    there, made = set(session.scalars(found)), set()
    for date in dates:
        if date in there:
            continue
        try:
            with session.begin_nested():
                run = dag.create_dagrun(
                    run_type=DagRunType.BACKFILL_JOB,
                    execution_date=date,
                    data_interval=next(iter(dag.iter_dagrun_infos_between(date, date))).data_interval,
                    state=DagRunState.QUEUED,  # a new run that has failed would get an end
                    external_trigger=False,
                    session=session,
                )
        except IntegrityError:
            continue
        made.add(run.run_id)
    _change(
        session, [DagRun.dag_id == dag.dag_id, DagRun.run_id.in_(made)], DagRunState.FAILED, DagRunType.BACKFILL_JOB
    )
    return made


def take(dag_id: str, first: datetime, last: datetime, session: Session) -> int:
    """Take the schedule's queued runs from `first` to `last` (inclusive): the backfill begins them. Returns how
    many."""
    queued = [
        DagRun.dag_id == dag_id,
        DagRun.execution_date >= first,
        DagRun.execution_date <= last,
        DagRun.state == DagRunState.QUEUED,
        DagRun.run_type == DagRunType.SCHEDULED,
    ]
    return _change(session, queued, DagRunState.FAILED, DagRunType.BACKFILL_JOB)


def give_back(dag_id: str, dates: Collection[datetime], made: Collection[str], session: Session) -> None:
    """After the backfill: delete runs that it had `made` and not begun, and queue those that it had taken."""
    aside = [DagRun.dag_id == dag_id, DagRun.execution_date.in_(dates), *is_aside()]
    for run in session.scalars(select(DagRun).where(*aside, DagRun.run_id.in_(made)).with_for_update(skip_locked=True)):
        if all(task.state is None for task in run.task_instances):
            session.delete(run)
    session.flush()
    _change(session, aside, DagRunState.QUEUED, DagRunType.SCHEDULED)


def is_aside() -> list[Any]:
    """Conditions that held runs fulfil."""
    return [
        DagRun.run_type == DagRunType.BACKFILL_JOB,
        DagRun.state == DagRunState.FAILED,
        DagRun.end_date.is_(None),
    ]


def _change(session: Session, which: list[Any], state: str, kind: str) -> int:
    values = {"state": state, "run_type": kind, "end_date": None, "updated_at": timezone.utcnow()}
    change = update(DagRun).where(*which).values(values)
    return session.execute(change.execution_options(synchronize_session=False)).rowcount
