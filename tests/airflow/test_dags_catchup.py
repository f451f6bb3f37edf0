"""The runs that a catch-up makes, on Airflow's own tables: as if each window's tasks had run."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import airflow_home
import pytest
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.dataset import DatasetEvent
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.models.xcom import XCom
from airflow.utils import timezone
from airflow.utils.types import DagRunType
from sqlalchemy.orm import Session

from tests.airflow.test_dags_backfill import ARCHIVE, FIRST, QUARTER, add_run, dag, session, set_task
from tests.airflow.test_dags_backfill_holes import front, windows
from tidegate.airflow import catchup, gauges, messages, pools, runs, switches
from tidegate.airflow.clear import leftovers
from tidegate.airflow.operators import CatchUpOperator, MaintainOperator
from tidegate.airflow.timetable import to_ms
from tidegate.core.base.offsets import Interval
from tidegate.core.tell.announcement import Notice
from tidegate.workflow.base.context import Published
from tidegate.workflow.look import certificates
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.tell import announcements

__all__ = ["airflow_home", "session"]
MAINTAIN = "tram_positions.maintain"
RUN = "scheduled__2024-10-28T00:00:00+00:00"


@pytest.fixture
def maintenance(session: Session) -> DagRun:
    """A maintenance run whose first task is at work."""
    session.query(DatasetEvent).delete()
    run = add_run(session, "running", DagRunType.SCHEDULED, dag_id=MAINTAIN)
    set_task(session, run, "maintain", "running")
    return run


def instance(session: Session, run: DagRun, task_id: str) -> TaskInstance:
    session.expire_all()
    return session.query(TaskInstance).filter_by(dag_id=run.dag_id, run_id=run.run_id, task_id=task_id).one()


@pytest.fixture
def ctx(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A pipeline of which every window is ready, and published when it is asked for; `told` are announcements."""
    task = dag(MAINTAIN).get_task("catch_up")
    found = SimpleNamespace(name="tram_positions", pipeline=task.pipeline, told=[], asked=[], due=[], said=[])
    found.say = found.said.append
    found.target = SimpleNamespace(series=nullcontext)
    certificate = SimpleNamespace(ready=True)
    monkeypatch.setattr(archive, "ready", lambda c, key: certificate)

    def publish(c: Any, key: Any) -> Published:
        found.asked.append(key)
        return Published(window=key, generation=1, new=True, rows=100, digest="d", location="file:///there")

    monkeypatch.setattr(archive, "publish", publish)
    monkeypatch.setattr(certificates, "readiness", lambda c, it: SimpleNamespace(plain={"ready": True}))
    monkeypatch.setattr(certificates, "published", lambda c, key, number: {"generation": number})
    now = to_ms(timezone.utcnow())
    more = dict.fromkeys((f.name for f in fields(Notice)), 0) | {"published_ms": now, "certificate": None}
    monkeypatch.setattr(
        announcements, "notice", lambda c, key, number: Notice(**more | {"window": key, "number": number})
    )
    monkeypatch.setattr(announcements, "told", lambda c, notice: found.told.append(notice.window))
    monkeypatch.setattr(reconcile, "look", lambda c: SimpleNamespace(due=found.due))
    return found


def catch_up(session: Session, ctx: Any, run: DagRun, conf: dict[str, str] | None = None) -> None:
    task = dag(MAINTAIN).get_task("catch_up")
    assert isinstance(task, CatchUpOperator)
    ti = instance(session, run, "catch_up")
    catchup.carry_out(
        task, task.archive_dag_id, ctx, {"ti": ti, "dag_run": SimpleNamespace(conf=conf, run_id=ti.run_id)}
    )
    session.expire_all()


def archive_runs(session: Session) -> list[DagRun]:
    return session.query(DagRun).filter_by(dag_id=ARCHIVE).order_by(DagRun.execution_date).all()


def test_each_window_has_a_run_as_if_its_tasks_had_run(session: Session, maintenance: DagRun, ctx: Any) -> None:
    ctx.due = windows(*range(24))
    add_run(session, "queued", DagRunType.SCHEDULED, QUARTER * 3)  # the schedule has come to it
    catch_up(session, ctx, maintenance)
    assert ctx.asked == ctx.told == [key for key in ctx.due if key != windows(3)[0]]
    found = archive_runs(session)
    assert [run.execution_date for run in found] == [FIRST + QUARTER * n for n in range(24)]
    assert [run.state for run in found] == ["queued" if n == 3 else "success" for n in range(24)]
    run = found[5]
    assert (run.run_id, run.run_type, run.external_trigger) == (
        "scheduled__2024-10-27T02:15:00+00:00", "scheduled", False,
    )  # fmt: skip
    assert (run.data_interval_start, run.data_interval_end) == (FIRST + QUARTER * 5, FIRST + QUARTER * 6)
    assert run.note == (
        f"published by {MAINTAIN} {maintenance.run_id}; its log: 2024-10-27T02:15Z published: generation 1, 100 rows"
    )
    tis = run.get_task_instances(session=session)
    assert {(ti.task_id, ti.state, ti.try_number) for ti in tis} == {("ready", "success", 1), ("publish", "success", 1)}
    assert all(ti.end_date is not None and ti.operator for ti in tis)
    shown = {task: XCom.get_one(key="certificate", task_id=task, dag_id=ARCHIVE, run_id=run.run_id, session=session)
             for task in ("ready", "publish")}  # fmt: skip
    assert shown == {"ready": {"ready": True}, "publish": {"generation": 1}}
    events = session.query(DatasetEvent).all()
    assert {(e.source_dag_id, e.source_task_id) for e in events} == {(ARCHIVE, "publish")}
    assert sorted(e.source_run_id for e in events) == sorted(run.run_id for run in found if run.state == "success")


def test_the_schedule_goes_past_the_runs_and_clear_works_on_them(
    session: Session, maintenance: DagRun, ctx: Any
) -> None:
    ctx.due = windows(*range(20))
    front(session, 0)
    catch_up(session, ctx, maintenance)
    dag().bulk_write_to_db([dag()], session=session)
    session.commit()
    model = session.query(DagModel).filter_by(dag_id=ARCHIVE).one()
    assert model.next_dagrun == FIRST + QUARTER * 20
    run = archive_runs(session)[4]
    clear_task_instances(run.get_task_instances(session=session), session, dag=dag())
    session.commit()
    assert (run.state, {ti.state for ti in run.get_task_instances(session=session)}) == ("queued", {None})
    assert runs.create_missing_runs(ARCHIVE, windows(4), to_ms(timezone.utcnow()) + 1, session).started == (run.run_id,)


def test_a_second_time_there_is_nothing_to_do(session: Session, maintenance: DagRun, ctx: Any) -> None:
    from airflow.exceptions import AirflowSkipException

    ctx.due = windows(*range(20))
    catch_up(session, ctx, maintenance)
    with pytest.raises(AirflowSkipException):
        catch_up(session, ctx, maintenance)
    assert len(archive_runs(session)) == len(ctx.asked) == 20


def test_a_paused_dag_is_not_caught_up_with(session: Session, maintenance: DagRun, ctx: Any) -> None:
    from airflow.exceptions import AirflowSkipException

    ctx.due = windows(*range(40))
    session.query(DagModel).filter_by(dag_id=ARCHIVE).update({"is_paused": True})
    session.commit()
    with pytest.raises(AirflowSkipException):
        catch_up(session, ctx, maintenance)
    assert archive_runs(session) == []


def test_what_is_left_is_the_next_runs_once(
    session: Session, maintenance: DagRun, ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.core.publish.catchup.in_turn", lambda ready, part=None, most=5: list(ready)[:most])
    ctx.due = windows(*range(30))
    part = Interval(windows(0)[0].start_ms, windows(29)[0].end_ms)
    conf = {"from": "2024-10-27T01:00Z", "until": "2024-10-27T08:30Z"}
    assert part == catchup.rules.asked_part(conf)
    catch_up(session, ctx, maintenance, conf)
    assert len(ctx.asked) == 5
    (following,) = session.query(DagRun).filter(DagRun.dag_id == MAINTAIN, DagRun.run_type == "manual").all()
    assert (following.run_id, following.conf) == ("catch_up_from_2024-10-27T02:15Z", conf)
    assert following.state == "queued"
    assert "exists already" in catchup.trigger(MAINTAIN, windows(5)[0], part)


def test_the_run_that_goes_on_publishes_the_few_that_are_left(
    session: Session, ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both of its tasks: the first neither makes their runs nor has the second skipped."""
    ctx.due = windows(*range(3))
    task = dag(MAINTAIN).get_task("maintain")
    assert isinstance(task, MaintainOperator)
    run_id = catchup.trigger(MAINTAIN, windows(0)[0], None).split()[-1]
    session.expire_all()
    run = session.query(DagRun).filter_by(dag_id=MAINTAIN, run_id=run_id).one()
    for module, name in ((gauges, "tell"), (messages, "tell"), (switches, "settle")):
        monkeypatch.setattr(module, name, lambda *given: None)
    for module, name in ((reconcile, "maintain"), (announcements, "due")):
        monkeypatch.setattr(module, name, lambda *given: ())
    monkeypatch.setattr(reconcile, "due", lambda c: c.due)
    task.work(ctx, {"ti": instance(session, run, "maintain"), "dag_run": run})  # type: ignore[typeddict-item]
    assert task._catches_up
    assert archive_runs(session) == []
    catch_up(session, ctx, run)
    assert [run.state for run in archive_runs(session)] == ["success"] * 3


def test_a_window_whose_catch_up_died_before_its_run_was_made_gets_it(
    session: Session, maintenance: DagRun, ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx.due = windows(*range(1, 22))
    ctx.ledger = SimpleNamespace(windows=SimpleNamespace(get=lambda name, key: SimpleNamespace(current=1)))
    monkeypatch.setattr(reconcile, "published_since", lambda c, seen: iter(windows(0)))
    ti = instance(session, maintenance, "catch_up")
    ti.try_number = 2
    session.commit()
    catch_up(session, ctx, maintenance)
    assert archive_runs(session)[0].execution_date == FIRST
    assert (len(archive_runs(session)), len(ctx.asked)) == (22, 21)


def test_without_anything_to_do_catch_up_gets_no_process(session: Session, maintenance: DagRun) -> None:
    """And a Clear of it alone gets one: nothing is left that Airflow would skip it by."""
    ti = instance(session, maintenance, "maintain")
    leftovers.skip(ti, {"catch_up"})
    later = instance(session, maintenance, "catch_up")
    assert later.state == "skipped"
    set_task(session, maintenance, "maintain", "success")
    run = session.get(DagRun, maintenance.id)
    assert run is not None
    run.dag = dag(MAINTAIN)
    run.update_state(session=session)
    assert run.state == "success"
    clear_task_instances([later], session, dag=dag(MAINTAIN))
    session.commit()
    run.state = "running"
    run.dag = dag(MAINTAIN)
    decided = run.task_instance_scheduling_decisions(session=session)
    assert [ti.task_id for ti in decided.schedulable_tis] == ["catch_up"]


def test_who_holds_the_slots_of_a_pool(session: Session, maintenance: DagRun) -> None:
    pool = "tidegate_archive"
    session.query(Pool).filter(Pool.pool == pool).delete()
    session.add(Pool(pool=pool, slots=2, include_deferred=False))
    session.commit()
    assert pools.full(pool, session) == ""
    run = add_run(session, "running", DagRunType.SCHEDULED)
    set_task(session, run, "publish", "running")
    said = pools.full(pool, session)
    assert said.startswith(f"tram_positions holds the 2 slots of {pool} (")
    assert {"tram_positions.maintain 1", "tram_positions.archive 1"} == set(said[:-1].partition("(")[2].split(", "))
    assert not pools.starves(pool, 10, session)
    set_task(session, run, "ready", "scheduled")
    weight = instance(session, run, "ready").priority_weight
    assert pools.starves(pool, weight - 1, session)
    assert not pools.starves(pool, weight, session)
    session.query(DagModel).filter_by(dag_id=ARCHIVE).update({"is_paused": True})
    session.commit()
    assert not pools.starves(pool, weight - 1, session)
    assert pools.full("gone", session) == ""


def test_a_run_that_could_not_be_made_at_once_is_made_in_the_end(
    session: Session, maintenance: DagRun, ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler is frozen and holds the lock while one window is published."""
    ctx.due = windows(*range(20))
    ctx.ledger = SimpleNamespace(windows=SimpleNamespace(get=lambda name, key: SimpleNamespace(current=1)))
    locked, asked = runs.locked, []

    def held(dag_id: str, session: Session) -> Any:
        asked.append(dag_id)
        return None if len(asked) == 4 else locked(dag_id, session)

    monkeypatch.setattr(runs, "locked", held)
    monkeypatch.setattr(runs, "LOCK_S", 0.0)
    catch_up(session, ctx, maintenance)
    assert [run.state for run in archive_runs(session)] == ["success"] * 20
    assert len(ctx.told) == 20
