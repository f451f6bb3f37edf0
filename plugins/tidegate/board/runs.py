"""The board and Airflow's own runs: whether a DAG can run, a run of the replay DAG, a failed task cleared, links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.timetables.base import DataInterval
from airflow.utils import timezone
from airflow.utils.airflow_flask_app import get_airflow_app
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunType
from airflow.www.extensions.init_auth_manager import get_auth_manager
from flask import url_for
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from tidegate.airflow.timetable import from_ms
from tidegate.board.words import asked_task
from tidegate.core.base.instants import iso
from tidegate.core.look.views import Event
from tidegate.core.replay.request import Asked

PREFIX = "board__"
"""Prefix of the ids of runs that the board makes."""
_TRIES = 5
"""Tries to find an execution date that no other run has."""


@dataclass(frozen=True)
class Dag:
    """Airflow's view of a DAG; `obstacle` says why no run of it would start, None if one would."""

    dag_id: str
    obstacle: str | None
    paused: bool = False

    @property
    def url(self) -> str:
        return url_for("Airflow.grid", dag_id=self.dag_id)


@dataclass(frozen=True)
class Run:
    """A run of a DAG in Airflow; `state` is None without one."""

    dag_id: str
    run_id: str
    state: str | None
    task: str
    task_state: str | None = None

    @property
    def url(self) -> str:
        return url_for("Airflow.grid", dag_id=self.dag_id, dag_run_id=self.run_id, task_id=self.task)

    @property
    def log_url(self) -> str:
        return f"{self.url}&tab=logs"


def may_run(dag_id: str) -> bool:
    """Whether the present user may make runs of this DAG: a team's own roles for DAGs hold here too."""
    manager, details = get_auth_manager(), DagDetails(id=dag_id)
    return manager.is_authorized_dag(method="PUT", details=details) and manager.is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details
    )


def look(dag_id: str) -> Dag:
    """The DAG's state in Airflow's database."""
    with create_session() as session:
        model = session.get(DagModel, dag_id)
        if model is None or not model.is_active:
            return Dag(dag_id, f"Airflow has not parsed {dag_id}: look at its import errors, and at the scheduler")
        if model.is_paused:
            why = f"{dag_id} is paused, so that nothing would run: unpause it, its schedule starts nothing by itself"
            return Dag(dag_id, why if dag_id.endswith(".replay") else f"{dag_id} is paused", True)
    return Dag(dag_id, None)


def run_id_of(it: Asked, token: str) -> str:
    """Id such as `board__reopen__2013-01-05T04:00Z__<token>`; the same for every click with one token."""
    return f"{PREFIX}{it.do}__{iso(it.windows[0].start_ms)}__{token}"


def start(dag_id: str, run_id: str, it: Asked) -> bool:
    """Make the run that does it; False if there is one of this id. Its logical date is now: the window's own date may
    be another run's. Raises LookupError where Airflow has no such DAG."""
    bag = get_airflow_app().dag_bag
    for _ in range(_TRIES):
        with create_session() as session:
            dag = bag.get_dag(dag_id, session=session)
            if dag is None:
                raise LookupError(dag_id)
            if session.scalar(select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)) is not None:
                return False
            try:
                dag.create_dagrun(
                    run_type=DagRunType.MANUAL,
                    run_id=run_id,
                    execution_date=timezone.utcnow(),
                    data_interval=DataInterval(from_ms(it.windows[0].start_ms), from_ms(it.windows[-1].end_ms)),
                    state=DagRunState.QUEUED,
                    conf=it.conf(),
                    external_trigger=True,
                    dag_hash=bag.dags_hash.get(dag_id),
                    session=session,
                )
                session.commit()
                return True
            except IntegrityError:
                session.rollback()  # this run, from a second click; or another of the same microsecond
    raise LookupError(dag_id)


def find(dag_id: str, run_id: str, task: str) -> Run:
    with create_session() as session:
        state = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        mine = (TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.task_id == task)
        return Run(dag_id, run_id, state, task, session.scalar(select(TaskInstance.state).where(*mine)))


def clear_failed(dag_id: str, run_ids: Iterable[str], task: str) -> Run | None:
    """Clear `task` and what follows it in the newest of these runs where it has failed; None if it has in none."""
    with create_session() as session:
        failed = (
            select(DagRun)
            .join(TaskInstance, (TaskInstance.dag_id == DagRun.dag_id) & (TaskInstance.run_id == DagRun.run_id))
            .where(DagRun.dag_id == dag_id, DagRun.run_id.in_(sorted(run_ids)))
            .where(TaskInstance.task_id == task, TaskInstance.state == TaskInstanceState.FAILED)
            .order_by(DagRun.execution_date.desc())
        )
        newest = session.scalars(failed).first()
        dag = get_airflow_app().dag_bag.get_dag(dag_id, session=session)
        if newest is None or dag is None:
            return None
        part = dag.partial_subset([task], include_downstream=True, include_upstream=False)
        part.clear(start_date=newest.execution_date, end_date=newest.execution_date, session=session)
        return Run(dag_id, newest.run_id, DagRunState.QUEUED, task)


def of_event(event: Event) -> Run | None:
    """The run in an entry of the event log."""
    named = asked_task(event.detail)
    return None if named is None else find(named.dag_id, named.run_id, named.task_id)
