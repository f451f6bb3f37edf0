"""Who gets a slot first: Airflow's own scheduler decides, on its own tables, with tasks that are never started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import airflow_home
import pytest
from airflow.executors.base_executor import BaseExecutor
from airflow.executors.executor_utils import ExecutorName
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.dag import DagModel
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from sqlalchemy.orm import Session

from tidegate.airflow import pools, weights

HOUR = timedelta(hours=1)
PIPELINES = 7


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> DagBag:
    """Pipelines with windows of an hour."""
    airflow_home.make_database()
    folder: Path = tmp_path_factory.mktemp("pipelines")
    text = (airflow_home.CHECKOUT / "tests/fixtures/pipelines/tram_positions.yaml").read_text()
    text = text.replace("size: 15m", "size: 1h").replace("timezone: Europe/Berlin", "timezone: UTC")
    text = text.replace("partition_by: [date, hour, minute]", "partition_by: [date, hour]")
    for n in range(PIPELINES):
        more = "\ndeliver: [{kind: postgresql, name: shop, conn_id: pg, table: shop}]\n" if n == 5 else ""
        (folder / f"p{n:02}.yaml").write_text(text.replace("tram_positions", f"p{n:02}") + more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(folder))
        bag = DagBag(str(airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"), include_examples=False)
    assert bag.import_errors == {}
    with create_session() as session:
        bag.sync_to_db(session=session)
        for dag in bag.dags.values():
            SerializedDagModel.write_dag(dag, session=session)
    return bag


@pytest.fixture
def session(dags: DagBag) -> Iterator[Session]:
    with create_session() as session:
        for table in (TaskInstance, DagRun, Job):
            session.query(table).delete()
        session.query(Pool).filter(Pool.pool != "default_pool").delete()
        for name in ("tidegate_ingest", "tidegate_archive"):
            session.add(Pool(pool=name, slots=4, include_deferred=False))
        session.query(DagModel).update({"is_paused": False, "is_active": True})
        session.commit()
        yield session


THIS_HOUR = timezone.utcnow().replace(minute=0, second=0, microsecond=0)
"""Once for all of them: it may end in the middle of a test."""


def hour(ago: int) -> datetime:
    return THIS_HOUR - HOUR * ago


def wants(session: Session, dags: DagBag, dag_id: str, task_id: str, at: datetime) -> None:
    """A run of the schedule; this task of it waits for a slot."""
    dag = SerializedDagModel.get_dag(dag_id, session=session)  # as the scheduler has it
    assert dag is not None
    run = dag.create_dagrun(
        run_type=DagRunType.SCHEDULED,
        execution_date=at,
        data_interval=(at, at + HOUR),
        state=DagRunState.RUNNING,
        session=session,
    )
    session.flush()
    session.query(TaskInstance).filter_by(dag_id=dag_id, run_id=run.run_id, task_id=task_id).update(
        {"state": "scheduled"}
    )


class NoExecutor(BaseExecutor):
    """Has room for everything, and starts nothing."""

    def __init__(self, slots: int) -> None:
        super().__init__(parallelism=slots)
        self.name = ExecutorName("NoExecutor", "no_executor")


def queued(session: Session, slots: int = 32) -> list[tuple[str, str, datetime]]:
    """What the scheduler gives slots to now, in its order: DAG, task, logical date."""
    session.commit()
    runner = SchedulerJobRunner(job=Job())
    executor = NoExecutor(slots)
    runner.job.__dict__["executors"] = [executor]
    runner._try_to_load_executor = lambda _name: executor  # type: ignore[method-assign]
    found = runner._executable_task_instances_to_queued(max_tis=slots, session=session)
    session.commit()
    return [(ti.dag_id, ti.task_id, ti.execution_date) for ti in found]


def free(session: Session) -> None:
    """Every task that has a slot succeeds."""
    session.query(TaskInstance).filter(TaskInstance.state == "queued").update({"state": "success"})


def test_fifty_ingests_do_not_starve_archives(session: Session, dags: DagBag) -> None:
    for n in range(50):
        wants(session, dags, f"p{n % PIPELINES:02}.ingest", "plan", hour(1 + n))
    for n in range(6):
        wants(session, dags, f"p{n:02}.archive", "publish", hour(2))
    kinds = Counter(dag_id.partition(".")[2] for dag_id, _, _ in queued(session))
    assert kinds == {"archive": 4, "ingest": 4}


def test_a_month_that_one_pipeline_catches_up_with_comes_after_todays_windows(session: Session, dags: DagBag) -> None:
    """By Airflow's own order, oldest first, the month would come before all of them."""
    for n in range(20):
        wants(session, dags, "p00.archive", "publish", hour(24 * 30 - n))
    for n in range(1, 5):
        wants(session, dags, f"p{n:02}.archive", "ready", hour(n))
    first = queued(session)
    assert [dag_id for dag_id, _, _ in first] == ["p04.archive", "p03.archive", "p02.archive", "p01.archive"]
    free(session)
    assert [at for _, _, at in queued(session)] == [hour(24 * 30 - n) for n in range(4)]


def test_the_order_in_the_archives_pool(session: Session, dags: DagBag) -> None:
    """What has begun is finished first; maintenance does not wait behind a month; replays come last."""
    wants(session, dags, "p00.replay", "replay", hour(2))
    wants(session, dags, "p01.archive", "publish", hour(100))
    wants(session, dags, "p02.maintain", "maintain", hour(1))
    wants(session, dags, "p03.archive", "ready", hour(3))
    wants(session, dags, "p04.archive", "publish", hour(2))
    order = []
    for _ in range(3):
        order += [(dag_id, task) for dag_id, task, _ in queued(session, 2)]
        free(session)
    assert order == [
        ("p04.archive", "publish"),
        ("p03.archive", "ready"),
        ("p02.maintain", "maintain"),
        ("p01.archive", "publish"),
        ("p00.replay", "replay"),
    ]


def test_deliveries_come_between_todays_windows_and_a_catch_up(session: Session, dags: DagBag) -> None:
    """Published hours wait for no month that another pipeline catches up with."""
    wants(session, dags, "p00.archive", "publish", hour(100))
    wants(session, dags, "p01.maintain", "catch_up", hour(1))
    wants(session, dags, "p05.deliver", "shop", hour(1))
    wants(session, dags, "p02.archive", "ready", hour(2))
    order = []
    for _ in range(4):
        order += [(dag_id, task) for dag_id, task, _ in queued(session, 1)]
        free(session)
    assert order == [
        ("p02.archive", "ready"),
        ("p05.deliver", "shop"),
        ("p01.maintain", "catch_up"),
        ("p00.archive", "publish"),
    ]


def test_a_turn_that_is_over_stays_over(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks once more, to tell why it has ended, hears the same."""
    looks = iter([False, True, False])
    monkeypatch.setattr(pools, "starves", lambda *_: next(looks))
    turn = pools.Turn("tidegate_archive", weights.DELIVER)
    assert not turn.over(), "it has just begun"
    assert next(looks) is False, "and nobody has looked"
    monkeypatch.setattr(pools, "URGENT_S", 0.0)
    assert [turn.over(), turn.over()] == [True, True]


def test_batches_that_have_begun_land_before_new_ones_are_planned(session: Session, dags: DagBag) -> None:
    for n, task in enumerate(("plan", "land", "plan", "write", "land", "plan")):
        wants(session, dags, f"p{n:02}.ingest", task, hour(9 - n))
    assert [task for _, task, _ in queued(session)] == ["land", "land", "write", "plan"]


def test_a_cleared_task_of_an_old_window_stays_behind_todays(session: Session, dags: DagBag) -> None:
    """However far back: Clear gives a task its weight anew."""
    at = hour(24 * 40)
    wants(session, dags, "p00.archive", "publish", at)
    dags.dags["p00.archive"].clear(start_date=at, end_date=at, session=session)
    session.flush()
    found = {ti.task_id: ti.priority_weight for ti in session.query(TaskInstance)}
    assert found == {"ready": weights.READY // weights.OLD, "publish": weights.PUBLISH // weights.OLD}


def test_without_the_pool_nothing_runs(session: Session, dags: DagBag) -> None:
    """What Airflow does about it: a line in the scheduler's log. So backfills and `tidegate doctor` say it."""
    session.query(Pool).filter_by(pool="tidegate_archive").delete()
    wants(session, dags, "p00.archive", "publish", hour(2))
    assert queued(session) == []


@pytest.mark.parametrize(
    "run_id", [None, "", "backlog_after_batch_7", "scheduled__", "scheduled__2024-01-01", "x__y__z"]
)
def test_a_run_that_somebody_has_named_has_its_full_weight(run_id: str | None) -> None:
    assert weights.logical_date(run_id) is None


def test_a_scheduler_of_an_earlier_version_gets_a_rule_that_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow import plugins_manager

    assert weights.rule() == "tidegate.airflow.weights.TodayFirst"
    monkeypatch.setattr(plugins_manager, "priority_weight_strategy_classes", {})
    assert weights.rule() == "absolute"
