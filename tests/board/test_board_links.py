"""From Airflow's pages to the board."""

from __future__ import annotations

from typing import Any

import board_app  # first: it sets Airflow's home
import pytest

from tests.board.test_board_pages import fill, viewer, world
from tests.world import World, make_pipeline
from tidegate.board.words import Subject, subject

__all__ = ["viewer", "world"]  # fixtures


# ---------------------------------------------------------------- from Airflow to the board


@pytest.mark.parametrize(
    ("dag_id", "run_id", "page"),
    [
        ("readings.ingest", "run 2", "/tidegate/readings/batch/2"),
        ("readings.ingest", "another", "/tidegate/readings"),
        ("readings.archive", "another", "/tidegate/readings"),
        ("readings", "", "/tidegate/readings"),
    ],
)
def test_a_runs_link_leads_to_what_it_worked_on(world: World, viewer: Any, dag_id: str, run_id: str, page: str) -> None:
    fill(world)
    answer = viewer.get("/tidegate/-/run", query_string={"dag_id": dag_id, "run_id": run_id})
    assert answer.status_code == 302
    assert answer.location == page


def test_every_task_has_a_link_to_the_board_which_survives_serialisation() -> None:
    from airflow.models.dag import DAG
    from airflow.models.taskinstancekey import TaskInstanceKey
    from airflow.serialization.serialized_objects import SerializedDAG

    from tidegate.airflow.operators import PlanOperator

    with DAG("readings.ingest", schedule=None) as dag:
        PlanOperator(task_id="plan", pipeline=make_pipeline("file:///lake"))
    task = SerializedDAG.from_dict(SerializedDAG.to_dict(dag)).get_task("plan")
    key = TaskInstanceKey("readings.ingest", "plan", "run 1")
    with board_app.application().test_request_context():
        found = task.operator_extra_links[0].get_link(task, ti_key=key)
    assert found == "/tidegate/-/run?dag_id=readings.ingest&run_id=run+1"


# ---------------------------------------------------------------- from the event log


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("batch 12", Subject(batch_id=12)),
        ("window 20130105T040000Z", Subject(window_ms=1_357_358_400_000)),
        ("delivery shop 2013-01-05T04:00Z", Subject(window_ms=1_357_358_400_000)),
        ("delivery shop 2013-01-05T04:00:30Z", Subject(window_ms=1_357_358_430_000)),
        ("delivery shop.late batch 12", Subject(batch_id=12)),
        ("delivery shop", Subject()),
        ("delivery shop 2013-13-05T04:00Z", Subject()),
        ("copy 2", Subject()),
    ],
)
def test_what_an_event_is_of_has_a_page(text: str, of: Subject) -> None:
    assert subject(text) == of
