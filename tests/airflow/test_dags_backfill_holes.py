"""Windows that the schedule went past get runs."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.exceptions import AirflowException
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils import timezone
from airflow.utils.types import DagRunType
from sqlalchemy.orm import Session

from tests.airflow.test_dags_backfill import ARCHIVE, FIRST, INGEST, QUARTER, add_run, dag, session, set_task
from tidegate.airflow import runs as module
from tidegate.airflow.runs import MOST_AT_ONCE, Filled, create_missing_runs, trigger_after_backlog
from tidegate.airflow.timetable import from_ms, to_ms
from tidegate.core.window.due import RunsSeen
from tidegate.core.window.states import WindowKey

__all__ = ["session"]  # fixtures


def windows(*quarters: int) -> list[WindowKey]:
    return [WindowKey(to_ms(FIRST + QUARTER * q), to_ms(FIRST + QUARTER * (q + 1))) for q in quarters]


def front(session: Session, quarter: int | None) -> None:
    session.query(DagModel).filter_by(dag_id=ARCHIVE).update(
        {"next_dagrun": None if quarter is None else FIRST + QUARTER * quarter}
    )
    session.commit()


def fill(session: Session, *quarters: int, dag_id: str = ARCHIVE, held: bool = False) -> Filled:
    found = create_missing_runs(dag_id, windows(*quarters), to_ms(timezone.utcnow()) + 1, session, held=held)
    session.commit()
    return found


def test_windows_that_the_schedule_went_past_get_runs_once(session: Session) -> None:
    add_run(session, "success", DagRunType.SCHEDULED, QUARTER * 1)
    front(session, 40)
    made = fill(session, 0, 1, 2).created
    assert made == ("scheduled__2024-10-27T01:00:00+00:00", "scheduled__2024-10-27T01:30:00+00:00")
    run = session.query(DagRun).filter_by(run_id=made[1]).one()
    assert (run.state, run.run_type, run.external_trigger) == ("running", "scheduled", False)  # no slot to wait for
    assert (run.data_interval_start, run.data_interval_end) == (FIRST + QUARTER * 2, FIRST + QUARTER * 3)
    assert {t.task_id for t in run.get_task_instances(session=session)} == {"ready", "publish"}
    assert fill(session, 0, 1, 2).created == ()


def test_no_run_is_created_ahead_of_the_schedule(session: Session) -> None:
    front(session, 2)
    assert len(fill(session, 1, 2, 3).created) == 1


def test_a_backfill_ahead_of_the_schedule_is_its_front(session: Session) -> None:
    """The next run that Airflow has noted is an old one until the DAG is parsed again."""
    front(session, 2)
    add_run(session, "success", at=QUARTER * 5)
    assert len(fill(session, 1, 2, 3, 4, 6).created) == 4


def test_few_at_a_time(session: Session) -> None:
    front(session, 100)
    assert len(fill(session, *range(50)).created) == MOST_AT_ONCE
    assert fill(session, *range(50)).created == ()


def test_a_hole_behind_windows_that_have_failed_is_filled(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many due windows have a run: those without one are found, page by page."""
    monkeypatch.setattr(module, "PAGE", 3)
    for quarter in range(7):
        add_run(session, "failed", DagRunType.SCHEDULED, QUARTER * quarter)
    front(session, 100)
    found = fill(session, *range(9))
    assert found.created == tuple(f"scheduled__{(FIRST + QUARTER * q).isoformat()}" for q in (7, 8))
    assert found.seen == RunsSeen(False, tuple(key.start_ms for key in windows(*range(7))))


@pytest.mark.parametrize(
    ("states", "ended"),
    [
        (("failed",), True),
        (("success",), True),  # by hand: the ledger knows of no publication
        (("running",), False),
        (("failed", "running"), False),  # somebody tries it again by hand
    ],
)
def test_a_window_whose_run_has_ended_is_told_and_gets_no_other(
    session: Session, states: tuple[str, ...], ended: bool
) -> None:
    for n, state in enumerate(states):
        run = add_run(session, state, DagRunType.MANUAL if n else DagRunType.SCHEDULED, timedelta(minutes=n))
        run.data_interval_start, run.data_interval_end = FIRST, FIRST + QUARTER
    front(session, 100)
    found = fill(session, 0)
    assert found == Filled(seen=RunsSeen(False, (to_ms(FIRST),) if ended else ()))


def test_a_run_that_has_just_ended_may_have_published_since(session: Session) -> None:
    run = add_run(session, "success", DagRunType.SCHEDULED)
    run.end_date = timezone.utcnow()
    front(session, 100)
    found = create_missing_runs(ARCHIVE, windows(0), to_ms(timezone.utcnow()) - 60_000, session)
    assert found == Filled(seen=RunsSeen(False, ()))


def test_a_run_that_somebody_has_cleared_starts_although_others_hold_every_slot(session: Session) -> None:
    """Two wait for windows that are not due; max_active_runs would let the cleared one wait behind them."""
    for quarter, state in ((0, "queued"), (1, "running"), (20, "running"), (21, "running")):
        add_run(session, state, DagRunType.SCHEDULED, QUARTER * quarter)
    front(session, 22)
    found = fill(session, 0, 1, 2)
    assert found.started == (f"scheduled__{FIRST.isoformat()}",)
    assert found.created == (f"scheduled__{(FIRST + QUARTER * 2).isoformat()}",)
    session.expire_all()
    assert {run.state for run in session.query(DagRun)} == {"running"}


def test_the_newest_window_of_the_schedule_can_be_cleared_too(session: Session) -> None:
    add_run(session, "queued", DagRunType.SCHEDULED)
    front(session, 0)
    assert fill(session, 0).started == (f"scheduled__{FIRST.isoformat()}",)


def test_what_starts_is_few_at_a_time(session: Session) -> None:
    for quarter in range(MOST_AT_ONCE + 3):
        add_run(session, "queued", DagRunType.SCHEDULED, QUARTER * quarter)
    front(session, 100)
    assert len(fill(session, *range(20)).started) == MOST_AT_ONCE
    assert fill(session, *range(20)) == Filled(seen=RunsSeen(False, ()))


def test_runs_that_wait_for_something_else_do_not_keep_a_hole_open(session: Session) -> None:
    """The watermark has passed their windows, but another system has not counted them yet."""
    for quarter in range(MOST_AT_ONCE):
        set_task(session, add_run(session, "running", DagRunType.SCHEDULED, QUARTER * quarter), "ready", "deferred")
    front(session, 100)
    assert len(fill(session, *range(MOST_AT_ONCE + 2)).created) == 2


def test_a_run_by_hand_is_its_windows_run(session: Session) -> None:
    run = add_run(session, "running", DagRunType.MANUAL, timedelta(minutes=20))
    run.data_interval_start, run.data_interval_end = FIRST + QUARTER, FIRST + QUARTER * 2
    front(session, 100)
    assert fill(session, 1).created == ()


def test_a_paused_dag_gets_no_runs(session: Session) -> None:
    front(session, 100)
    session.query(DagModel).update({"is_paused": True})
    session.commit()
    assert fill(session, 0) == Filled(seen=RunsSeen(True, ()))
    assert "paused" in trigger_after_backlog(INGEST, 7)
    assert session.query(DagRun).count() == 0


def test_a_dag_that_the_scheduler_works_on_is_seen_and_gets_no_runs(session: Session) -> None:
    """Otherwise status would say that a paused DAG runs, until the next maintenance."""
    front(session, 100)
    session.query(DagModel).update({"is_paused": True})
    session.commit()
    assert fill(session, 0, held=True) == Filled(seen=RunsSeen(True, ()))
    session.query(DagModel).update({"is_paused": False})
    session.commit()
    assert fill(session, 0, held=True) == Filled(seen=RunsSeen(False, ()))
    assert session.query(DagRun).count() == 0


@pytest.mark.parametrize(("free_after", "held"), [(0.0, False), (3.0, False), (60.0, True)])
def test_the_schedulers_lock_is_waited_for(
    session: Session, monkeypatch: pytest.MonkeyPatch, free_after: float, held: bool
) -> None:
    waits: list[float] = []
    locked = module.locked

    def frozen(dag_id: str, session: Session) -> DagModel | None:
        return None if sum(waits) < free_after else locked(dag_id, session)

    monkeypatch.setattr(module, "locked", frozen)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: sum(waits), sleep=waits.append))
    with module.unless_held(ARCHIVE) as (_, found):
        assert found is held
    assert sum(waits) == pytest.approx(min(free_after, module.LOCK_S), abs=module.LOCK_LOOK_S)


def test_nobody_holds_a_dag_that_airflow_does_not_know(session: Session) -> None:
    with module.unless_held("gone.archive") as (_, held):
        assert not held


def test_an_unknown_dag_gets_no_runs(session: Session) -> None:
    assert fill(session, 0, dag_id="gone.archive") == Filled()


def test_a_backlog_triggers_one_run_however_often_it_is_asked_for(session: Session) -> None:
    assert "triggered backlog_after_batch_7" in trigger_after_backlog(INGEST, 7)
    assert "exists already" in trigger_after_backlog(INGEST, 7)
    assert "triggered backlog_after_batch_8" in trigger_after_backlog(INGEST, 8)  # within the same second
    assert {run.run_id for run in session.query(DagRun)} == {"backlog_after_batch_7", "backlog_after_batch_8"}


def lose(session: Session, monkeypatch: pytest.MonkeyPatch, back_after: int | None = None) -> None:
    """Airflow does not know the ingest DAG, until somebody has waited so many times."""
    session.query(SerializedDagModel).filter_by(dag_id=INGEST).delete()
    session.commit()
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == back_after:
            SerializedDagModel.write_dag(dag(INGEST), session=session)
            session.commit()

    monkeypatch.setattr(module.time, "sleep", sleep)
    if back_after is None:
        monkeypatch.setattr(module, "LOST_S", 0.0)


def test_a_dag_that_airflow_has_lost_for_a_moment_is_waited_for(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(session, monkeypatch, back_after=2)
    assert "triggered backlog_after_batch_7" in trigger_after_backlog(INGEST, 7)
    assert session.query(DagRun).one().run_id == "backlog_after_batch_7"


def test_a_dag_that_stays_lost_is_left_to_its_schedule(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    lose(session, monkeypatch)
    assert "the next run by its schedule goes on" in trigger_after_backlog(INGEST, 7, scheduled=True)
    with pytest.raises(AirflowException, match="what to do: airflow dags list-import-errors"):
        trigger_after_backlog(INGEST, 7)
    with pytest.raises(AirflowException, match=r"doesn't know gone\.ingest"):
        trigger_after_backlog("gone.ingest", 7)


def test_a_run_created_here_has_the_window_that_the_schedule_would_give_it(session: Session) -> None:
    front(session, 100)
    fill(session, 3)
    run = session.query(DagRun).one()
    scheduled = dag().timetable.infer_manual_data_interval(run_after=from_ms(windows(3)[0].start_ms))
    assert (run.data_interval_start, run.data_interval_end) == scheduled
