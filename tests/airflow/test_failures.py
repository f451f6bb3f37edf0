"""A task that has failed for good is named by status and board until it ends well; a task of a window is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pendulum
import pytest
from airflow.exceptions import AirflowSkipException

from tests.world import World
from tidegate.airflow import last_line, operators, task
from tidegate.core.base.errors import DeliveryRefused, LedgerError
from tidegate.workflow.look import status as looking

FOUR = pendulum.datetime(2013, 1, 5, 4)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path)
    made.context()
    monkeypatch.setattr("tidegate.wiring.open_ledger", lambda *_: made.context().ledger)
    monkeypatch.setattr(task.PipelineOperator, "_open", lambda self, context: made.context())
    yield made
    made.close()


def ends(world: World, monkeypatch: pytest.MonkeyPatch, error: Exception | None, kind: Any = operators.MaintainOperator,
         state: str = "failed") -> None:  # fmt: skip
    """The task `readings.maintain maintain` ends, as Airflow lets it."""
    more = {"dag_ids": [], "archive_dag_id": None} if kind is operators.MaintainOperator else {}
    one = kind(task_id="maintain", dag=None, pipeline=world.pipeline, **more)
    next_try = {"next_retry_datetime": lambda: FOUR}
    ti = SimpleNamespace(
        dag_id="readings.maintain", task_id="maintain", run_id="r", state=state, try_number=1, max_tries=6, **next_try
    )
    context: dict[str, Any] = {
        "ti": ti, "task": one, "dag_run": SimpleNamespace(dag_id="readings.maintain", run_id="r", execution_date=FOUR),
        "data_interval_start": FOUR, "data_interval_end": FOUR.add(hours=1), "exception": error,
    }  # fmt: skip

    def work(*_: Any) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(kind, "work", work)
    try:
        one.perform(context)
    except AirflowSkipException:
        return
    except Exception as e:
        last_line.what_to_do(context | {"exception": e})  # type: ignore[arg-type]


def said(world: World) -> list[tuple[str, str]]:
    ctx = world.context()
    return [(c.what, c.advice) for c in looking.status(ctx, ctx.ledger.reads, None).concerns]


DENIED = DeliveryRefused("access denied", advice="check the connection")


def test_it_is_named_until_it_ends_well(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(world, monkeypatch, DENIED, state="up_for_retry")
    assert said(world) == []
    ends(world, monkeypatch, DENIED)
    ((what, advice),) = said(world)
    assert what.startswith("readings.maintain maintain failed for good ")
    assert what.endswith(" ago: access denied")
    assert advice.startswith(
        "check the connection; run: tidegate status readings ; then: airflow tasks clear readings."
    )
    ends(world, monkeypatch, AirflowSkipException("nothing to do"))
    assert said(world) == []
    ends(world, monkeypatch, None)
    assert said(world) == []


def test_a_window_says_itself_what_has_become_of_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(world, monkeypatch, DENIED, operators.PublishOperator)
    assert said(world) == []


def test_a_ledger_that_is_away_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: Any) -> None:
        raise LedgerError("the ledger is\n away")

    ledger = type(world.context().ledger.notices)
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "task_works", away)
        patch.setattr(ledger, "task_failed", away)
        ends(world, patch, None)
        ends(world, patch, DENIED)
    assert "status may go on naming an earlier failure: the ledger is away" in caplog.text
    assert "status will not name this failure: the ledger is away" in caplog.text
