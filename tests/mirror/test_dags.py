"""The DAGs of a mirror: which there are, what the tasks do, and what a backfill says. The merge itself is a stub."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow_home
import pendulum
import pytest
from airflow.exceptions import AirflowSkipException
from airflow.models.dagbag import DagBag
from airflow.serialization.serialized_objects import SerializedDAG
from airflow.utils.types import DagRunType

from tests.airflow.test_dags_operators import NOTICES, context
from tests.mirror.worlds import YAML, mirror
from tidegate.airflow import factory, gauges, messages, operators, runs, switches, task
from tidegate.airflow.operators import ApplyOperator
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import NOTHING, Complete, Copied
from tidegate.workflow.apply import apply as workflow
from tidegate.workflow.apply.apply import Applied
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.tell import announcements


@pytest.fixture
def bag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DagBag:
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    (tmp_path / "readings.yaml").write_text(YAML.format(location="file:///lake/readings"))
    dag_file = airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"
    return DagBag(dag_folder=str(dag_file), include_examples=False, read_dags_from_db=False)


def test_a_mirror_has_no_windows_and_no_runs_of_them(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["readings.apply", "readings.ingest", "readings.maintain"]
    apply = bag.dags["readings.apply"]
    assert (apply.max_active_runs, apply.catchup, apply.task_ids) == (1, False, ["apply"])
    assert bag.dags["readings.maintain"].task_ids == ["maintain"]
    assert "catch_up" not in (bag.dags["readings.maintain"].doc_md or "")
    assert "Merges all batches that have landed" in (apply.doc_md or "")
    for dag in bag.dags.values():
        assert SerializedDAG.from_dict(SerializedDAG.to_dict(dag)).task_ids == dag.task_ids


def test_a_task_that_runs_parses_its_own_dag_only(bag: DagBag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "readings.apply")
    assert list(factory.build_dags()) == ["readings.apply"]
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "readings.archive")
    assert list(factory.build_dags()) == []


# ---------------------------------------------------------------- the tasks


@pytest.fixture
def triggered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the tasks have triggered; their context is empty."""
    made = SimpleNamespace(
        ledger=SimpleNamespace(batches=SimpleNamespace(bound=lambda name, run: 7), close=lambda: None, notices=NOTICES)
    )
    monkeypatch.setattr(task.PipelineOperator, "_open", lambda self, context: made)
    found: list[Any] = []
    monkeypatch.setattr(runs, "trigger_apply", lambda *said: found.append(said) or "triggered")
    monkeypatch.setattr(runs, "trigger_after_backlog", lambda *said: found.append(said) or "triggered")
    return found


def run(
    kind: Any, tmp_path: Path, run_type: Any = DagRunType.SCHEDULED, conf: Any = None, attempt: int = 1, **more: Any
) -> Any:
    where = context()
    where["ti"].try_number = attempt
    where["dag_run"].run_type, where["dag_run"].conf = run_type, conf
    where["outlet_events"] = EVENTS
    made = kind(task_id="t", dag=None, pipeline=mirror(tmp_path), **more)
    made.execute(where)
    return made


EVENTS: dict[Any, Any] = defaultdict(SimpleNamespace)
"""What the last run has given to its dataset events."""


def done(merges: int, left: bool = False, copied: Copied = NOTHING) -> Applied:
    return Applied(merges=merges, events=merges, told=Told(upto=9, copied=copied), left=left)


def test_a_landing_triggers_the_merge(triggered: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "land", lambda ctx, run: False)
    run(operators.LandOperator, tmp_path)
    assert triggered == [("readings.apply", "landed_batch_7")]
    monkeypatch.setattr(ingest, "land", lambda ctx, run: True)
    run(operators.LandOperator, tmp_path)
    assert len(triggered) == 3, "the merge, and the run for the backlog"


def test_a_merge_that_found_nothing_is_skipped_so_that_nobody_hears_of_it(
    triggered: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "apply", lambda ctx, **_: done(0))
    with pytest.raises(AirflowSkipException, match="up to batch 9"):
        run(ApplyOperator, tmp_path)
    monkeypatch.setattr(workflow, "apply", lambda ctx, **_: done(2))
    assert [o.uri for o in run(ApplyOperator, tmp_path).outlets] == ["tidegate://lake.readings/"]
    assert triggered == []


def test_the_event_says_since_when_nothing_is_older(
    triggered: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = Complete((7, 0), 1_000)
    monkeypatch.setattr(workflow, "apply", lambda ctx, **_: done(2, copied=Copied(complete=complete)))
    (outlet,) = run(ApplyOperator, tmp_path).outlets
    said = EVENTS[outlet].extra
    assert (said["table"], said["upto"], said["complete_to"]) == ("lake.readings", 9, "7,0")
    assert said["complete_at"] == "1970-01-01T00:00:01+00:00"


def test_nobody_hears_of_a_table_that_readers_see_empty(
    triggered: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "apply", lambda ctx, **_: done(2, copied=Copied(hidden=True)))
    assert run(ApplyOperator, tmp_path).outlets == []


def test_a_further_try_says_so_even_if_it_found_nothing(
    triggered: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try before may have died between its commit and Airflow's note of it: nobody has heard of the merge."""
    monkeypatch.setattr(workflow, "apply", lambda ctx, **_: done(0))
    run(ApplyOperator, tmp_path, attempt=2)


def test_what_is_left_is_for_the_next_run(
    triggered: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def apply(ctx: Any, go_on: Any, again: bool) -> Applied:
        asked.append((go_on(), again))
        return done(1, left=True)

    monkeypatch.setattr(workflow, "apply", apply)
    run(ApplyOperator, tmp_path)
    assert triggered == [("readings.apply", "after_batch_9")]
    run(ApplyOperator, tmp_path, conf={"again": True})
    assert asked == [(True, False), (True, True)]
    monkeypatch.setattr(operators, "LONGEST_APPLY_S", -1)
    run(ApplyOperator, tmp_path)
    assert asked[-1] == (False, False)


def test_a_backfill_is_refused_in_one_line(bag: DagBag) -> None:
    at = pendulum.datetime(2026, 1, 1)
    with pytest.raises(SystemExit, match="readings has no windows, so there is nothing to backfill"):
        bag.dags["readings.apply"].run(start_date=at, end_date=at)


def test_maintenance_asks_for_no_archive_runs(
    triggered: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.airflow.backfill import stranded_runs
    from tidegate.airflow.clear import leftovers

    seen: list[Any] = []
    monkeypatch.setattr(stranded_runs, "sweep", lambda *_: [])
    monkeypatch.setattr(leftovers, "revive", lambda *_: [])
    for name in ("hand_on", "start"):
        monkeypatch.setattr(leftovers, name, lambda *_: pytest.fail("there is no archive DAG"))
    for name in ("without_run", "create_missing_runs"):
        monkeypatch.setattr(runs, name, lambda *_, **__: pytest.fail("there is no archive DAG"))
    monkeypatch.setattr(switches, "settle", lambda *_: None)
    monkeypatch.setattr(reconcile, "due", lambda ctx: [])
    monkeypatch.setattr(reconcile, "maintain", lambda ctx, runs, at_work: seen.append(runs) or [])
    monkeypatch.setattr(announcements, "due", lambda ctx: [])
    monkeypatch.setattr(gauges, "tell", lambda *_: None)
    monkeypatch.setattr(messages, "tell", lambda *_: None)
    run(operators.MaintainOperator, tmp_path, dag_ids=["readings.ingest"], archive_dag_id=None)
    assert seen == [None]
