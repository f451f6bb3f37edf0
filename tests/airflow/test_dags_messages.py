"""Messages from Airflow's processes: which tasks send them, and that nothing of it fails a task."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow_home  # (before airflow)
import pytest
from airflow.serialization.serialized_objects import SerializedDAG

from tests.tell.test_webhook import Receiver
from tests.world import World, make_pipeline
from tidegate.adapters.connections import ConnectionMissing
from tidegate.airflow import factory, messages
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import LedgerError
from tidegate.core.spec.pipeline import Notify

LOG = logging.getLogger("task")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(200)
    yield made
    made.close()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> Iterator[World]:
    made = World(tmp_path)
    made.change_spec(webhook_conn_id="alerts")
    monkeypatch.setattr("tidegate.wiring.open_ledger", lambda *_: made.context().ledger)
    monkeypatch.setattr("tidegate.inspection.context", lambda *_: made.context())
    connection = Connection(conn_id="alerts", conn_type="http", host=receiver.url, extra={"path": "hush"})
    monkeypatch.setattr("tidegate.airflow.messages.airflow_connection", lambda _: connection)
    yield made
    made.close()


def failed(
    world: World, error: object = "it broke\n  what to do: look", attempt: int = 7, begun_here: bool = True
) -> None:
    ti = SimpleNamespace(
        dag_id="readings.ingest", task_id="write", run_id="r1", try_number=attempt, log_url="http://af/log"
    )
    task = SimpleNamespace(pipeline=world.pipeline, log=LOG, begun_here=begun_here)
    messages.on_failure({"task": task, "ti": ti, "exception": error})  # type: ignore[arg-type]


def test_a_failed_task_says_so_at_once(world: World, receiver: Receiver) -> None:
    failed(world, ValueError("it broke\n  what to do: look"))
    failed(world)  # the callback may be called again
    ((path, _, message),) = receiver.got
    assert (path, message["kind"], message["pipeline"]) == ("/hush", "task_failed", "readings")
    assert message["what"] == "readings.ingest.write of run r1 has failed for good: it broke what to do: look"
    assert message["links"]["log"] == "http://af/log"
    assert message["links"]["board"].endswith("/tidegate/readings")
    failed(world, attempt=14)
    assert len(receiver.got) == 2, "it was cleared, and has failed for good again"


def test_of_a_task_whose_process_died_maintenance_tells(world: World, receiver: Receiver) -> None:
    """The DAG processor calls for it, and is ended with all that it has not saved when that takes 50 s: a receiver that
    hangs would keep dead tasks from being noted as failed."""
    failed(world, "heartbeat timeout", begun_here=False)
    assert receiver.got == []
    ctx = world.context()
    messages.tell(ctx, LOG)
    assert [message["kind"] for _, _, message in receiver.got] == ["task_failed"]


def test_without_an_error_the_log_says_more(world: World, receiver: Receiver) -> None:
    failed(world, None)
    assert "ended from outside" in receiver.got[0][2]["what"]


def test_a_pipeline_that_tells_nobody_does_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.change_spec(webhook_conn_id=None)
    monkeypatch.setattr("tidegate.wiring.open_ledger", lambda *_: pytest.fail("not needed"))
    failed(world)


def test_a_ledger_that_is_away_fails_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise LedgerError("the ledger is\n away")

    monkeypatch.setattr("tidegate.wiring.open_ledger", away)
    failed(world)
    assert "no message of this failure was sent: LedgerError: the ledger is away" in caplog.text


def test_a_connection_that_is_missing_leaves_the_message_for_later(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, receiver: Receiver
) -> None:
    with monkeypatch.context() as patch:

        def missing(_: str) -> None:
            raise ConnectionMissing("connection alerts is not there", advice="make it")

        patch.setattr("tidegate.airflow.messages.airflow_connection", missing)
        failed(world)
    assert "the webhook is not used: connection alerts is not there" in caplog.text
    assert receiver.got == []
    messages.tell(world.context(), LOG)
    assert [m["kind"] for _, _, m in receiver.got] == ["task_failed"]


def test_a_task_that_fails_for_a_missing_connection_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    """Every task of the pipeline fails at once, maintenance too, so that nobody else tells of it."""
    there = {
        "alerts": Connection(conn_id="alerts", conn_type="http", host=receiver.url),
        "tidegate_ledger": Connection(conn_id="tidegate_ledger", conn_type="sqlite", host=str(world.database)),
    }

    def lookup(conn_id: str) -> Connection:
        if conn_id not in there:
            raise ConnectionMissing(f"Airflow has no connection {conn_id!r}")
        return there[conn_id]

    monkeypatch.undo()
    monkeypatch.setattr("tidegate.airflow.messages.airflow_connection", lookup)
    world.context()
    failed(world, ConnectionMissing("Airflow has no connection 'hive'"))
    assert [(m["kind"], m["what"].rpartition(": ")[2]) for _, _, m in receiver.got] == [
        ("task_failed", "Airflow has no connection 'hive'")
    ]


def test_maintenance_checks_and_tells(world: World, receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    failed(world)
    receiver.answers[:] = [500]
    ctx = world.context()
    messages.tell(ctx, LOG)
    assert "daily check: the sums balance" in caplog.text
    assert "hush" not in caplog.text


def test_neither_fails_the_task_nor_the_other(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("tidegate.workflow.audit.checkup.if_due", broken)
    monkeypatch.setattr("tidegate.workflow.tell.notices.tell", broken)
    messages.tell(world.context(), LOG)
    assert "nothing is checked: RuntimeError: odd" in caplog.text
    assert "no message was sent: RuntimeError: odd" in caplog.text


def test_who_is_configured() -> None:
    plain = make_pipeline("file:///x")
    assert not messages.configured(plain)
    assert messages.configured(replace(plain, webhook_conn_id="a"))
    assert messages.configured(replace(plain, notify=Notify(callback="a:b")))
    found = messages.channels_of(replace(plain, notify=Notify(callback="a:b")), LOG)
    assert [channel.who for channel in found] == ["a:b"]


@pytest.mark.parametrize("notify", ["", "notify: {webhook_conn_id: alerts}\n", "notify: {callback: 'a:b'}\n"])
def test_every_task_of_a_pipeline_that_tells_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notify: str
) -> None:
    """And a DAG that names a function is serialized all the same."""
    text = (airflow_home.CHECKOUT / "tests/fixtures/pipelines/tram_positions.yaml").read_text()
    assert "notify:" not in text
    (tmp_path / "tram_positions.yaml").write_text(text + "\n" + notify)
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_LAKE", "/lake")
    dags = factory.build_dags()
    assert len(dags) == 4
    for dag in dags.values():
        for task in dag.tasks:
            assert task.on_failure_callback == (messages.on_failure if notify else None)
            assert messages.configured(task.pipeline) is bool(notify)
        again = SerializedDAG.from_dict(SerializedDAG.to_dict(dag))
        assert again.task_ids == dag.task_ids
