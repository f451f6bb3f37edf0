"""Retries outlast a five-minute outage: Airflow's own arithmetic, on the DAGs as they are built."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import airflow_home
import pendulum
import pytest
from airflow.models.baseoperator import BaseOperator
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance

from tidegate.airflow import factory
from tidegate.cli import examination
from tidegate.core.base import patience

START = pendulum.datetime(2024, 10, 27)
RUNS = 25


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[BaseOperator]:
    """Every task of every DAG of a pipeline whose YAML says nothing of retries."""
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_LAKE", "/lake")
    shutil.copy(airflow_home.CHECKOUT / "tests/fixtures/pipelines/tram_positions.yaml", tmp_path)
    assert "retries" not in (tmp_path / "tram_positions.yaml").read_text()
    bag = DagBag(str(airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"), include_examples=False)
    assert bag.import_errors == {}
    return [task for dag in bag.dags.values() for task in dag.tasks]


def delay_s(task: BaseOperator, try_number: int, run: int) -> float:
    """What Airflow waits after that try; the jitter follows from the run and the try."""
    instance = TaskInstance(task, run_id=f"run_{run}")
    instance.dag_run = DagRun(task.dag_id, f"run_{run}", execution_date=START + timedelta(hours=run))
    instance.try_number, instance.end_date = try_number, START
    return (instance.next_retry_datetime() - START).total_seconds()


def test_every_task_begins_its_last_try_more_than_five_minutes_after_its_first(tasks: list[BaseOperator]) -> None:
    names = {"plan", "write", "land", "ready", "publish", "replay", "maintain", "catch_up"}
    assert {task.task_id for task in tasks} == names
    for task in tasks:
        for run in range(RUNS):
            waits = [delay_s(task, n, run) for n in range(1, task.retries + 1)]
            assert sum(waits) >= patience.OUTAGE_S, (task.dag_id, task.task_id, run, waits)


def test_the_core_counts_as_airflow_does(tasks: list[BaseOperator]) -> None:
    for task in tasks[:2]:
        first, longest = task.retry_delay.total_seconds(), task.max_retry_delay.total_seconds()
        for n, (least, most) in enumerate(patience.delays(10, first, longest), 1):
            found = [delay_s(task, n, run) for run in range(RUNS)]
            assert least <= min(found) <= max(found) <= most, n
            assert min(found) < least + 0.5 * (most - least) or least == most, "the bounds are those of the jitter"


def test_no_task_is_ended_by_the_clock(tasks: list[BaseOperator]) -> None:
    """A time-out of Airflow's would count a slow Hive or Kafka as a failed try."""
    assert all(task.execution_timeout is None for task in tasks)
    assert all(task.dag.dagrun_timeout is None for task in tasks)


def test_the_doctor_counts_with_the_factorys_delays() -> None:
    delays = (factory.RETRY_DELAY.total_seconds(), factory.LONGEST_RETRY_DELAY.total_seconds())
    assert delays == (examination.FIRST_RETRY_S, examination.LONGEST_RETRY_S)
