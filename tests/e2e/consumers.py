"""Other people's DAGs: one is scheduled by the table, one waits for its own hour, in a triggerer that is replaced."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from airflow_api import AirflowApi, eventually

BY_TABLE, BY_HOUR = "each_window", "each_hour"
WAIT = "published_transit_tram_positions"
DAG_FILE = '''\
"""An airflow dag file of a consumer."""

import json
from datetime import datetime

from airflow.models.dag import DAG
from airflow.operators.python import PythonOperator
from airflow.timetables.interval import CronDataIntervalTimetable

from tidegate.downstream import table, window_published

TRAMS = table("tram_positions")


def told(triggering_dataset_events):
    for event in triggering_dataset_events[TRAMS.uri]:
        print("told", json.dumps(event.extra))


with DAG("each_window", schedule=[TRAMS], start_date=datetime(2024, 1, 1), catchup=False):
    PythonOperator(task_id="report", python_callable=told)

with DAG(
    "each_hour",
    schedule=CronDataIntervalTimetable("30 * * * *", timezone="UTC"),
    start_date=datetime(2024, 10, 27, 0, 30),
    end_date=datetime(2024, 10, 27, 0, 30),
    catchup=True,
):
    window_published("transit.tram_positions") >> PythonOperator(task_id="report", python_callable=print)
'''


def add_dag_file(dags: Path) -> None:
    (dags / "consumers.py").write_text(DAG_FILE)


@contextmanager
def waiting(air: AirflowApi, work: Path) -> Iterator[None]:
    """The consumer of an hour waits, in a triggerer that has taken the wait over from one that was stopped."""
    for dag_id in (BY_TABLE, BY_HOUR):
        eventually(f"{dag_id} is parsed", lambda dag_id=dag_id: dag_id in dag_ids(air))
        air.pause(dag_id, False)
    run = eventually("the hour's run exists", lambda: next(iter(air.runs(BY_HOUR)), None))
    eventually("it waits in the triggerer", lambda: trigger_logs(air, run))
    (old,) = triggerers(air)
    old.terminate()
    old.wait(240)
    with (work / "triggerer.log").open("wb") as log:
        new = subprocess.Popen(
            ["airflow", "triggerer", "--skip-serve-logs"], env=air.info.env, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            eventually("the new triggerer waits", lambda: len(trigger_logs(air, run)) == 2)
            yield
        finally:
            new.terminate()
            new.wait(240)


def dag_ids(air: AirflowApi) -> set[str]:
    return {dag["dag_id"] for dag in air.call("GET", "/dags")["dags"]}


def trigger_logs(air: AirflowApi, run: str) -> list[Path]:
    """Each triggerer that has had the wait writes one."""
    folder = Path(air.info.root) / "airflow/logs" / f"dag_id={BY_HOUR}" / f"run_id={run}" / f"task_id={WAIT}"
    return sorted(folder.glob("attempt=1.log.trigger.*.log"), key=lambda log: int(log.name.split(".")[-2]))


def triggerers(air: AirflowApi) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        try:
            if "triggerer" in words and process.environ().get("AIRFLOW_HOME") == air.info.env["AIRFLOW_HOME"]:
                found.append(process)
        except psutil.Error:
            continue
    return found


def told(air: AirflowApi) -> list[dict[str, Any]]:
    """What the consumer of the table has read of each event, in all its runs."""
    lines = [
        line.partition("told ")[2]
        for run, state in air.runs(BY_TABLE).items()
        if state["state"] == "success"
        for line in air.log(BY_TABLE, run, "report", 1).splitlines()
        if "told {" in line
    ]
    return [json.loads(line) for line in lines]
