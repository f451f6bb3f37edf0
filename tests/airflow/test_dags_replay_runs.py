"""Which windows a run may still replay, by Airflow's own tables."""

from __future__ import annotations

from datetime import datetime

import airflow_home  # noqa: F401  (before airflow)
import pytest
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.timetables.base import DataInterval
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from sqlalchemy.orm import Session

from tests.airflow.test_range_runs import ARCHIVE, FIRST, QUARTER, REPLAY, dags, session
from tidegate.airflow.replay_runs import at_work
from tidegate.airflow.timetable import to_ms
from tidegate.core.window.states import WindowKey

__all__ = ["dags", "session"]  # fixtures
WINDOWS = [WindowKey(to_ms(FIRST + n * QUARTER), to_ms(FIRST + (n + 1) * QUARTER)) for n in range(4)]
STARTS = {key.start_ms for key in WINDOWS}


def add(dags: DagBag, session: Session, dag_id: str, state: str, n: int = 1, date: datetime | None = None) -> DagRun:
    at = FIRST + n * QUARTER
    run = dags.dags[dag_id].create_dagrun(
        run_type=DagRunType.MANUAL if date else DagRunType.SCHEDULED,
        execution_date=date or at,
        data_interval=DataInterval(at, at + QUARTER),
        state=DagRunState(state),
        session=session,
    )
    task_is(session, run, "success" if state == "success" else "failed")
    return run


def task_is(session: Session, run: DagRun, state: str | None) -> None:
    session.query(TaskInstance).filter_by(dag_id=run.dag_id, run_id=run.run_id).update({"state": state})
    session.commit()


def found(session: Session) -> set[int]:
    return at_work("tram_positions", WINDOWS, session)


def test_without_runs_nobody_is_at_work(session: Session) -> None:
    assert found(session) == set()


@pytest.mark.parametrize("state", ["queued", "running"])
@pytest.mark.parametrize("n", [1, 50])
def test_a_replay_run_that_has_not_ended_may_be_at_any_window(
    dags: DagBag, session: Session, state: str, n: int
) -> None:
    """Its conf may name others than its own."""
    add(dags, session, REPLAY, state, n)
    assert found(session) == STARTS


@pytest.mark.parametrize("dag_id", [REPLAY, ARCHIVE])
@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_run_that_has_ended_is_at_nothing(dags: DagBag, session: Session, dag_id: str, state: str) -> None:
    run = add(dags, session, dag_id, state)
    assert found(session) == set()
    task_is(session, run, None)  # never begun, and never will be
    assert found(session) == set()


@pytest.mark.parametrize("state", ["running", "up_for_retry", "queued", "deferred", "restarting", "scheduled"])
def test_a_task_that_goes_on_although_its_run_has_ended_counts(dags: DagBag, session: Session, state: str) -> None:
    task_is(session, add(dags, session, ARCHIVE, "failed"), state)
    assert found(session) == {WINDOWS[1].start_ms}
    task_is(session, add(dags, session, REPLAY, "failed"), state)
    assert found(session) == STARTS


@pytest.mark.parametrize("state", ["queued", "running"])
def test_an_archive_run_is_at_its_own_window(dags: DagBag, session: Session, state: str) -> None:
    """Clearing its publish task carries a replay to its end."""
    add(dags, session, ARCHIVE, state, 0)
    add(dags, session, ARCHIVE, "success", 1)
    add(dags, session, ARCHIVE, state, 2, FIRST.add(days=3, seconds=7))
    add(dags, session, ARCHIVE, state, 4)
    assert found(session) == {WINDOWS[0].start_ms, WINDOWS[2].start_ms}


def test_other_pipelines_runs_and_other_dags_do_not_count(dags: DagBag, session: Session) -> None:
    add(dags, session, "tram_positions.ingest", "running")
    add(dags, session, "tram_positions.maintain", "running")
    assert found(session) == set()
    assert at_work("others", WINDOWS, session) == set()
