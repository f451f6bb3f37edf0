"""Runs and tasks in Airflow's own database, for links from a window or a batch to its runs and their logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.www.extensions.init_auth_manager import get_auth_manager
from flask import url_for
from sqlalchemy import and_, or_

from tidegate.board import words
from tidegate.board.reach import Reach
from tidegate.board.runs import PREFIX
from tidegate.core.base.instants import iso
from tidegate.core.look.views import Event
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.states import WindowKey

MOST = 12


@dataclass(frozen=True)
class Task:
    task_id: str
    state: str
    try_number: int


@dataclass(frozen=True)
class Run:
    """`state` is "" and `tasks` are empty where the user may not see the DAG's runs, or the run is gone."""

    dag_id: str
    run_id: str
    state: str = ""
    tasks: tuple[Task, ...] = ()


def runs_of_window(pipeline: Pipeline, key: WindowKey, events: Sequence[Event]) -> tuple[Run, ...]:
    """Runs of archive and replay, newest first: of this window by their date, made by the board for it or for a range
    that it lies in, or named by its `events` (runs with a conf have the date of their making)."""
    dags = [dag for kind in ("archive", "replay") if _may_see(dag := f"{pipeline.name}.{kind}")]
    if not dags:
        return ()
    start = datetime.fromtimestamp(key.start_ms / 1000, UTC)
    boards = and_(
        DagRun.run_id.startswith(PREFIX, autoescape=True),
        DagRun.data_interval_start <= start,
        DagRun.data_interval_end > start,
    )
    tasks = {words.task(e.actor) for e in events} - {None}
    named = [and_(DagRun.dag_id == task.dag_id, DagRun.run_id == task.run_id) for task in tasks if task]
    with create_session() as session:
        runs = session.query(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.id)
        runs = runs.filter(DagRun.dag_id.in_(dags), or_(DagRun.execution_date == start, boards, *named))
        return _with_tasks(session, runs.order_by(DagRun.id.desc()).limit(MOST).all())


def runs_named(bound: Sequence[str]) -> tuple[Run, ...]:
    """Runs by their names in the ledger, `<DAG id>/<run id>`."""
    named = [(dag_id, run_id) for dag_id, _, run_id in (text.partition("/") for text in bound[:MOST])]
    seen = {dag_id for dag_id, _ in named if _may_see(dag_id)}
    found: dict[tuple[str, str], Run] = {}
    if seen:
        mine = or_(*(and_(DagRun.dag_id == d, DagRun.run_id == r) for d, r in named if d in seen))
        with create_session() as session:
            rows = session.query(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.id).filter(mine).all()
            found = {(run.dag_id, run.run_id): run for run in _with_tasks(session, rows)}
    return tuple(found.get(pair, Run(*pair)) for pair in named)


def page_of_run(reach: Reach, dag_id: str, run_id: str) -> str:
    """Address of the window or the batch that a run works on, else of its pipeline."""
    name, _, kind = dag_id.rpartition(".")
    if kind == "ingest":
        batch = reach.ledger().batches.bound(name, f"{dag_id}/{run_id}")
        if batch is not None:
            return url_for("TidegateBoard.batch", pipeline=name, batch_id=batch)
    elif kind in ("archive", "replay") and _may_see(dag_id):
        with create_session() as session:
            mine = session.query(DagRun.data_interval_start)
            start = mine.filter(DagRun.dag_id == dag_id, DagRun.run_id == run_id).scalar()
        if start is not None:
            at_ms = int(start.timestamp() * 1000)
            return url_for("TidegateBoard.window", pipeline=name, window=iso(at_ms))
    return url_for("TidegateBoard.pipeline", pipeline=name or dag_id or "-")


def _with_tasks(session: Any, rows: Sequence[Any]) -> tuple[Run, ...]:
    if not rows:
        return ()
    t = TaskInstance
    mine = or_(*(and_(t.dag_id == x.dag_id, t.run_id == x.run_id) for x in rows))
    tasks: dict[tuple[str, str], list[Task]] = {}
    for x in session.query(t.dag_id, t.run_id, t.task_id, t.state, t.try_number).filter(mine):
        tasks.setdefault((x.dag_id, x.run_id), []).append(Task(x.task_id, x.state or "none", x.try_number))
    return tuple(Run(x.dag_id, x.run_id, x.state or "", _ordered(tasks.get((x.dag_id, x.run_id), []))) for x in rows)


_ORDER = ("plan", "write", "land", "ready", "publish", "replay", "maintain", "catch_up")


def _ordered(tasks: list[Task]) -> tuple[Task, ...]:
    return tuple(sorted(tasks, key=lambda x: (_ORDER.index(x.task_id) if x.task_id in _ORDER else 99, x.task_id)))


def _may_see(dag_id: str) -> bool:
    manager = get_auth_manager()
    return manager.is_authorized_dag(method="GET", access_entity=DagAccessEntity.RUN, details=DagDetails(id=dag_id))
