"""The DAG of deliveries: its schedule, which windows a run is about, and what its tasks tell Airflow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow_home
import pendulum
import pytest
from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.models.dagbag import DagBag
from airflow.serialization.serialized_objects import SerializedDAG
from airflow.timetables.base import DataInterval, TimeRestriction

from tests.cli.test_cli_commands import YAML
from tests.deliver.lab import SHOP, Lab
from tests.deliver.test_commands import BESIDE, LIST
from tests.world import HOUR, T0
from tidegate.airflow import deliveries, runs, task, weights
from tidegate.airflow.deliveries import DeliverOperator
from tidegate.airflow.timetable import DeliveryTimetable, to_ms
from tidegate.core.base.errors import DeliveryRefused, DeliveryUnsure

FOUR = pendulum.datetime(2013, 1, 5)


@pytest.fixture
def bag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DagBag:
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    text = YAML.format(name="readings", folder=tmp_path, zone="UTC") + LIST
    (tmp_path / "readings.yaml").write_text(text)
    dag_file = airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"
    return DagBag(dag_folder=str(dag_file), include_examples=False, read_dags_from_db=False)


def test_a_task_for_each_delivery(bag: DagBag) -> None:
    assert bag.import_errors == {}
    dag = bag.dags["readings.deliver"]
    assert (dag.task_ids, dag.max_active_runs, dag.catchup) == (["shop", "other"], 1, False)
    assert all(not t.upstream_task_ids and not t.downstream_task_ids for t in dag.tasks)
    assert [d.uri for _, d in dag.timetable.dataset_condition.iter_datasets()] == ["tidegate://lake.readings/"]
    assert SerializedDAG.from_dict(SerializedDAG.to_dict(dag)).task_ids == dag.task_ids
    assert "one that is down holds up no other" in (dag.doc_md or "")
    assert "sends what differs" in (dag.tasks[0].doc_md or "")


def test_a_task_for_each_side_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    text = YAML.format(name="readings", folder=tmp_path, zone="UTC") + BESIDE.format(there="file:///there/readings")
    (tmp_path / "readings.yaml").write_text(text)
    dag_file = airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"
    bag = DagBag(dag_folder=str(dag_file), include_examples=False, read_dags_from_db=False)
    assert bag.import_errors == {}
    dag = bag.dags["readings.deliver"]
    assert dag.task_ids == ["site.late", "site"]
    assert SerializedDAG.from_dict(SerializedDAG.to_dict(dag)).task_ids == dag.task_ids


def test_the_scheduler_ticks_and_a_backfill_takes_windows(bag: DagBag) -> None:
    dag = bag.dags["readings.deliver"]
    found = list(dag.iter_dagrun_infos_between(FOUR, FOUR.add(hours=2)))
    assert [info.data_interval for info in found] == [
        DataInterval(FOUR.add(hours=h), FOUR.add(hours=h + 1)) for h in range(3)
    ]
    table, now = DeliveryTimetable(HOUR, "UTC", T0), pendulum.now("UTC")
    none = TimeRestriction(earliest=FOUR, latest=None, catchup=False)
    first = table.next_dagrun_info(last_automated_data_interval=None, restriction=none)
    assert first is not None
    assert first.data_interval.start == first.data_interval.end == first.run_after
    assert abs(first.run_after - now).total_seconds() <= 600
    second = table.next_dagrun_info(last_automated_data_interval=first.data_interval, restriction=none)
    assert second is not None
    assert (second.run_after - first.run_after).total_seconds() == 600
    assert to_ms(second.run_after) % 60_000, "no window begins there: its backfill's run has that date for itself"
    old = DataInterval(FOUR, FOUR.add(hours=1))
    after_backfill = table.next_dagrun_info(last_automated_data_interval=old, restriction=none)
    assert after_backfill == first
    assert table.infer_manual_data_interval(run_after=FOUR) == DataInterval.exact(FOUR)
    over = TimeRestriction(earliest=FOUR, latest=FOUR, catchup=False)
    assert table.next_dagrun_info(last_automated_data_interval=None, restriction=over) is None


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path)
    made.hours(2)
    return made


class Run:
    """A run's task, in the lab's world."""

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = lab
        monkeypatch.setattr(task.PipelineOperator, "_open", lambda self, where: lab.world.context())
        self.triggered: list[Any] = []
        monkeypatch.setattr(runs, "trigger", lambda *said: self.triggered.append(said))
        monkeypatch.setattr(deliveries, "trigger", lambda *said: self.triggered.append(said))

    def __call__(
        self,
        start: pendulum.DateTime = FOUR,
        end: pendulum.DateTime | None = None,
        tries: int = 1,
        run_id: str = "scheduled__x",
        conf: Any = None,
    ) -> None:
        run = SimpleNamespace(dag_id="readings.deliver", run_id=run_id, conf=conf or {}, logical_date=start)
        where: dict[str, Any] = {
            "dag_run": run,
            "ti": SimpleNamespace(
                dag_id="readings.deliver", run_id=run_id, task_id="shop", try_number=tries, map_index=-1
            ),
            "data_interval_start": start,
            "data_interval_end": end or start,
        }
        made = DeliverOperator(task_id="shop", dag=None, pipeline=self.lab.pipeline, delivery="shop")
        made.execute(where)


@pytest.fixture
def run(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(lab, monkeypatch)


def test_a_scheduled_run_sends_what_is_due_and_skips_when_nothing_is(run: Run, lab: Lab) -> None:
    run()
    assert lab.server.ids(T0) == ["0-0", "0-1"]
    with pytest.raises(AirflowSkipException, match="nothing is due at shop"):
        run()
    assert len(lab.server.sent) == 2


def test_a_backfill_compares_its_window_alone(run: Run, lab: Lab) -> None:
    run(FOUR, FOUR.add(hours=1), run_id="backfill__x")
    assert (lab.server.ids(T0), lab.server.ids(T0 + HOUR)) == (["0-0", "0-1"], [])
    del lab.server.rows[T0]
    run(FOUR, FOUR.add(hours=1), run_id="scheduled__x")  # what a backfill's run is afterwards
    assert lab.server.ids(T0) == ["0-0", "0-1"]
    run(FOUR, FOUR.add(hours=1), run_id="backfill__x")
    assert len(lab.server.sent) == 2


def test_a_run_by_a_publication_sends_what_is_due(run: Run, lab: Lab) -> None:
    """Its data interval is that of the run which has published."""
    run(FOUR, FOUR.add(hours=1), run_id="dataset_triggered__x")
    assert lab.server.ids(T0 + HOUR) == ["1-0", "1-1"]


def test_clear_compares_what_the_run_has_sent(run: Run, lab: Lab) -> None:
    at = pendulum.from_timestamp(lab.world.clock.now_ms() / 1000)
    run(at)
    del lab.server.rows[T0]
    run(at, tries=2)
    assert lab.server.ids(T0) == ["0-0", "0-1"]
    del lab.server.rows[T0]
    with pytest.raises(AirflowSkipException):
        run(at.subtract(hours=9), tries=2)
    assert lab.server.ids(T0) == []


def test_the_conf_names_windows(run: Run, lab: Lab) -> None:
    run(conf={"window": "2013-01-05T01:00Z"})
    assert (lab.server.ids(T0), lab.server.ids(T0 + HOUR)) == ([], ["1-0", "1-1"])
    run(conf={"from": "2013-01-05", "until": "2013-01-06"})
    run(conf={"window": "2013-01-05T01:00Z", "again": True, "why": "doubts"})
    assert len(lab.server.sent) == 3
    with pytest.raises(AirflowSkipException, match="shop: none of the windows that this run is about is published"):
        run(conf={"window": "2013-01-05T17:00Z"})


def test_a_run_that_is_about_windows_sends_no_batches(run: Run, lab: Lab) -> None:
    side = replace(SHOP, name="shop.late", side="late")
    lab.world.change_spec(deliver=(side, SHOP))
    with lab.context() as ctx:
        for start, end, conf in ((FOUR, FOUR.add(hours=1), {}), (FOUR, FOUR, {"window": "2013-01-05T01:00Z"})):
            where: dict[str, Any] = {
                "dag_run": SimpleNamespace(run_id="backfill__x", conf=conf, logical_date=start),
                "ti": SimpleNamespace(try_number=1),
                "data_interval_start": start,
                "data_interval_end": end,
            }
            assert deliveries.about(lab.pipeline, side, ctx, where) == ((), True)  # type: ignore[arg-type]
            assert len(deliveries.about(lab.pipeline, SHOP, ctx, where)[0]) == 1  # type: ignore[arg-type]
    with pytest.raises(AirflowSkipException, match=r"shop\.late sends batches, and this run is about windows"):
        deliveries._tell(SimpleNamespace(delivery="shop.late"), [], True)  # type: ignore[arg-type]


def test_a_failure_is_tried_again_and_a_refusal_is_not(run: Run, lab: Lab) -> None:
    def fail(name: str, do: Any) -> None:
        raise DeliveryUnsure("no answer")

    def refuse(name: str, do: Any) -> None:
        raise DeliveryRefused("it does not fit", advice="make it fit", retry=False)

    lab.server.around = fail
    with pytest.raises(AirflowException, match="2 of 2 windows not delivered, 2013-01-05T00:00Z for one: no answer"):
        run()
    lab.server.around = refuse
    with pytest.raises(AirflowFailException, match="it does not fit\n  what to do: make it fit"):
        run()
    lab.server.around = lambda name, do: do()
    with pytest.raises(AirflowSkipException):
        run()


@pytest.fixture
def short(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window takes all the time that a run has."""
    now = [0.0]
    monkeypatch.setattr(deliveries, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def takes_long(name: str, do: Any) -> None:
        now[0] += deliveries.LONGEST_S
        do()

    lab.server.around = takes_long


@pytest.mark.usefixtures("short")
def test_time_that_is_up_triggers_the_next_run(run: Run, lab: Lab) -> None:
    run()
    assert (lab.server.ids(T0), lab.server.ids(T0 + HOUR)) == (["0-0", "0-1"], [])
    run(run_id="after_1_scheduled__x")
    assert [said[1:] for said in run.triggered] == [("after_1_scheduled__x", {}), ("after_2_scheduled__x", {})]


@pytest.mark.usefixtures("short")
def test_what_time_did_not_suffice_for_of_named_windows_is_what_the_next_run_is_about(run: Run, lab: Lab) -> None:
    named = {"from": "2013-01-05T00:00Z", "until": "2013-01-05T02:00Z", "again": True, "why": "a test"}
    run(run_id="manual__x", conf=named)
    assert lab.server.ids(T0 + HOUR) == []
    [(_, run_id, conf)] = run.triggered
    assert (run_id, conf) == ("after_1_shop_manual__x", named | {"from": "2013-01-05T01:00Z", "to": "shop"})
    run(run_id=run_id, conf=conf)
    assert lab.server.ids(T0 + HOUR) == ["1-0", "1-1"]
    assert len(run.triggered) == 1, "nothing is left"
    with pytest.raises(AirflowSkipException, match="this run is about the delivery other"):
        run(run_id=run_id, conf=conf | {"to": "other"})


def test_a_run_ends_early_for_more_urgent_tasks(run: Run, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before its first window, so that each run gets on."""
    asked: list[Any] = []
    monkeypatch.setattr(deliveries, "Turn", lambda *of: asked.append(of) or SimpleNamespace(over=lambda: True))
    run()
    assert (lab.server.ids(T0), lab.server.ids(T0 + HOUR)) == (["0-0", "0-1"], [])
    assert asked == [("default_pool", weights.DELIVER)]
    assert [run_id for _, run_id, _ in run.triggered] == ["after_1_scheduled__x"]
