"""How much of Airflow a backfill by its own command takes, and what it says where it cannot begin."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
from airflow.configuration import conf
from airflow.exceptions import AirflowException
from airflow.jobs.backfill_job_runner import BackfillJobRunner
from airflow.jobs.job import Job
from airflow.models.dagbag import DagBag
from airflow.models.pool import Pool
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from tests.airflow.test_dags_airflow_command import ARCHIVE, at, begin, dags, fill, finish, parts, session
from tidegate.airflow.backfill import headroom

__all__ = ["dags", "session"]  # fixtures


def test_a_missing_pool_is_named_before_anything_begins(session: Session, dags: DagBag) -> None:
    session.query(Pool).filter_by(pool="tidegate_archive").delete()
    session.commit()
    with pytest.raises(AirflowException, match="no pool tidegate_archive.*\n.*tidegate doctor --fix"):
        begin(dags, 0, 1)


def test_so_is_one_that_goes_between_two_parts(session: Session, dags: DagBag) -> None:
    def work(first: int, last: int) -> None:
        finish(session, dags, *range(first, last + 1))
        session.query(Pool).filter_by(pool="tidegate_archive").delete()
        session.commit()

    with pytest.raises(AirflowException, match="no pool tidegate_archive.*\n.*tidegate doctor --fix"):
        parts(dags, 0, 9, work)


def test_a_range_without_a_window_is_no_success(session: Session, dags: DagBag) -> None:
    with pytest.raises(AirflowException, match="no window begins in this range"):
        dags.dags[ARCHIVE].run(at(0) + timedelta(minutes=1), at(0) + timedelta(minutes=9))


@pytest.mark.parametrize(
    ("max_active_runs", "slots", "expected"), [(16, 8, 4), (16, 1, 1), (2, 8, 1), (1, 1, 1), (16, -1, 8), (9, 64, 4)]
)
def test_a_backfill_takes_half(session: Session, dags: DagBag, max_active_runs: int, slots: int, expected: int) -> None:
    session.query(Pool).filter_by(pool="tidegate_archive").update({"slots": slots})
    assert headroom.most(max_active_runs, headroom.slots_of(["tidegate_archive"], session)) == expected


@pytest.mark.parametrize(("others", "expected"), [(0, 4), (11, 4), (13, 2), (15, 1), (16, 1), (30, 1)])
def test_room_for_the_schedule(others: int, expected: int) -> None:
    """Of 16 runs one stays free; one of the backfill's own always goes on."""
    assert headroom.room(4, 16, others) == expected


def test_its_tasks_leave_what_follows_them_to_the_backfill(
    session: Session, dags: DagBag, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else both would change the run and its tasks, in two orders: PostgreSQL calls that a deadlock."""
    key = "AIRFLOW__SCHEDULER__SCHEDULE_AFTER_TASK_EXECUTION"
    for before in (None, "True"):
        monkeypatch.setenv(key, before) if before else monkeypatch.delenv(key, raising=False)
        follow_on: list[bool] = []
        fill(dags, 0, 0, lambda found=follow_on: (found.append(_follow_on()), finish(session, dags, 0)))  # type: ignore[misc]
        assert follow_on == [False]
        assert os.environ.get(key) == before


def _follow_on() -> bool:
    return conf.getboolean("scheduler", "schedule_after_task_execution", fallback=True)


def test_two_transactions_that_met_are_one_line_and_no_stack_trace(
    session: Session, dags: DagBag, caplog: pytest.LogCaptureFixture
) -> None:
    log = BackfillJobRunner(Job(), dags.dags[ARCHIVE]).log
    monkey = OperationalError("UPDATE", {}, Exception("deadlock detected\nDETAIL: Process 1 waits"))

    def met() -> None:
        for error in (monkey, ValueError("odd")):
            try:
                raise error
            except Exception:
                log.exception("Failed to commit task state change due to operational error")
        finish(session, dags, 0)

    log.addHandler(caplog.handler)
    try:
        fill(dags, 0, 0, met)
        log.exception("Failed to commit task state change due to operational error", exc_info=monkey)
    finally:
        log.removeHandler(caplog.handler)
    said = [(r.levelname, r.getMessage(), r.exc_info is not None) for r in caplog.records if r.name == log.name]
    plain = "the database did not take a change of a task's state, it is made again: deadlock detected"
    assert dict.fromkeys(said) == dict.fromkeys(
        [
            ("WARNING", plain, False),
            ("ERROR", "Failed to commit task state change due to operational error", True),
        ]
    )
