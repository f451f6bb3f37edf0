"""What Airflow's database and users' DAG files say after an upgrade from 0.1.0: the names of its modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pytest
from airflow.serialization.serialized_objects import SerializedDAG
from airflow.utils.module_loading import import_string

from tidegate.airflow.timetable import BackfillOnlyTimetable, WindowTimetable
from tidegate.airflow.weights import TodayFirst

DAGS = Path(__file__).parents[1] / "fixtures/airflow/dags_0.1.0.json"
"""The demo's pipeline as 0.1.0 serialised it."""


def test_dags_that_0_1_0_serialised_are_read() -> None:
    """The scheduler goes on with them until the DAG file has been parsed again."""
    found: dict[str, Any] = {
        name: SerializedDAG.from_dict(plain) for name, plain in json.loads(DAGS.read_text()).items()
    }
    assert set(found) == {"flights.ingest", "flights.archive", "flights.replay", "flights.maintain"}
    assert isinstance(found["flights.archive"].timetable, WindowTimetable)
    assert isinstance(found["flights.replay"].timetable, BackfillOnlyTimetable)
    publish = found["flights.archive"].get_task("publish")
    assert isinstance(publish.weight_rule, TodayFirst)
    assert {link.name for link in publish.operator_extra_links} == {"Tidegate"}


READY = {"pipeline": "{}", "start_ms": 0, "end_ms": 3_600_000, "deadline_ms": 7_200_000, "poll_s": 30.0}
PUBLISHED = READY | {"windows": "{}", "at_least": 1}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("sensors.WindowReadyTrigger", READY),
        ("sensors.WindowClosingTrigger", READY),
        ("downstream.WindowPublishedTrigger", PUBLISHED),
    ],
)
def test_tasks_that_0_1_0_deferred_are_waited_for(path: str, values: dict[str, Any]) -> None:
    """As the triggerer makes them: from a path and keyword arguments in Airflow's database."""
    made = import_string(f"tidegate.orchestration.{path}")(**values)
    now, again = made.serialize()
    assert again == values
    assert now == f"tidegate.airflow.{path}"


def test_dag_files_of_users_find_the_factory() -> None:
    from tidegate.airflow import factory
    from tidegate.orchestration.factory import build_dags

    assert build_dags is factory.build_dags


def test_the_plugin_file_of_0_1_0_finds_the_plugin() -> None:
    from tidegate.orchestration.plugin import TidegatePlugin
    from tidegate.plugin import TidegatePlugin as now

    assert TidegatePlugin is now
