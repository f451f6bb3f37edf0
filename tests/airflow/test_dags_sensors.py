"""Tasks that wait: the sensor, its trigger, and a close that waits for a batch."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pendulum
import pytest
from airflow.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.triggers.base import BaseTrigger, TriggerEvent

from tests.airflow.test_dags_operators import PIPELINE, WINDOW, context, ctx, published
from tidegate.airflow import hub, operators, sensors
from tidegate.core.base.errors import Alarm, StillClosing
from tidegate.core.base.plain import dumps
from tidegate.core.window.waits import Look, Standing
from tidegate.workflow.publish import archive

__all__ = ["ctx"]  # fixtures


def certificate(ready: bool, words: str = "partition 3 is 2 h short") -> SimpleNamespace:
    return SimpleNamespace(ready=ready, text=lambda: words)


def sensor() -> sensors.WindowReadySensor:
    return sensors.WindowReadySensor(task_id="ready", dag=None, pipeline=PIPELINE, poll_s=0.01)


def test_a_ready_window_does_not_wait(ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ready", lambda c, window: certificate(True))
    where = context()
    sensor().execute(where)
    assert ctx.closed == 1
    assert where["ti"].pushed == {"certificate": {"ready": True}}


def test_a_window_that_is_not_ready_waits_in_the_triggerer_with_an_end(
    ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "ready", lambda c, window: certificate(False))
    where = context()
    with pytest.raises(TaskDeferred) as deferred:
        sensor().execute(where)
    assert where["ti"].pushed == {"certificate": {"ready": False}}, "to be seen while it waits"
    trigger = deferred.value.trigger
    left_s = trigger.deadline_ms / 1000 - time.time()
    assert left_s == pytest.approx(PIPELINE.archive.sla_ms / 1000, abs=5)  # the window is long past
    assert deferred.value.timeout.total_seconds() > left_s  # the trigger ends first, and says who holds the window
    assert deferred.value.method_name == "resume"
    assert ctx.closed == 1
    path, arguments = trigger.serialize()
    assert path == "tidegate.airflow.sensors.WindowReadyTrigger"
    assert sensors.WindowReadyTrigger(**arguments).serialize() == (path, arguments)


def test_the_sla_counts_from_when_a_live_window_should_be_ready(
    ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "ready", lambda c, window: certificate(False))
    now = pendulum.now("UTC").start_of("hour")
    with pytest.raises(TaskDeferred) as deferred:
        sensor().execute(context(now))
    due = now.add(hours=1).timestamp() * 1000 + PIPELINE.windows.watermark_delay_ms + PIPELINE.archive.sla_ms
    assert deferred.value.trigger.deadline_ms == due


def trigger(deadline_in_s: float = 60.0) -> sensors.WindowReadyTrigger:
    deadline_ms = int((time.time() + deadline_in_s) * 1000)
    return sensors.WindowReadyTrigger(dumps(PIPELINE), WINDOW.start_ms, WINDOW.end_ms, deadline_ms, 0.01)


def first_event(one: BaseTrigger) -> dict[str, str]:
    async def first() -> TriggerEvent:
        async for event in one.run():
            return event
        raise AssertionError("no event")

    return asyncio.run(asyncio.wait_for(first(), 20)).payload


class StandingLedger:
    """A core.waiting.WaitLedger that knows one window's state."""

    def __init__(self, state: str | None, owes: int | None = None) -> None:
        self.state, self.owes = state, owes

    def look(self, pipelines: Any, windows: Any) -> Look:
        assert (set(pipelines), set(windows)) == ({PIPELINE.name}, {(PIPELINE.name, WINDOW.start_ms)})
        return Look({}, {} if self.state is None else {ref: Standing(self.state, None, self.owes) for ref in windows})

    def close(self) -> None:
        pass


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it with the state that the ledger has for the window."""
    monkeypatch.setattr(hub, "ledger_url", lambda: "here")
    return lambda *standing: monkeypatch.setattr(hub, "open_ledger", lambda url: StandingLedger(*standing))


def test_the_trigger_fires_once_the_window_is_ready(state: Any) -> None:
    state("CLOSED")
    event = first_event(trigger())
    assert event == {"outcome": "ready", "text": "readings 2013-01-05T04:00Z: ready: it is CLOSED now"}
    where = context()
    sensor().resume(where, event)
    assert where["ti"].pushed["certificate"] == {"ready": True, "reason": event["text"]}


def test_what_no_retry_mends_ends_the_wait(state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise Alarm("files contradict the ledger")

    state(None)
    monkeypatch.setattr("tidegate.core.window.waits.certify", fail)
    event = first_event(trigger())
    assert event["outcome"] == "failed"
    with pytest.raises(AirflowFailException, match="contradict"):
        sensor().resume(context(), event)


def test_at_the_deadline_the_error_says_who_holds_the_window(state: Any) -> None:
    state(None)
    event = first_event(trigger(deadline_in_s=0.05))
    assert event["outcome"] == "late"
    with pytest.raises(AirflowException, match="no batch has landed yet") as caught:
        sensor().resume(context(), event)
    assert type(caught.value) is AirflowException  # a retry waits on


def publisher() -> operators.PublishOperator:
    return operators.PublishOperator(task_id="publish", pipeline=PIPELINE, poll_s=0.01)


def closing(*_: Any) -> None:
    raise StillClosing("readings 2013-01-05T04:00Z is closing: batch 812 was planned before and must land")


def test_a_close_waits_for_a_batch_in_the_triggerer_not_in_retries(
    ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, state: Any
) -> None:
    """Retries last for twenty minutes, a batch that is being written may take longer."""
    monkeypatch.setattr(archive, "publish", closing)
    with pytest.raises(TaskDeferred) as deferred:
        publisher().execute(context())
    wait = deferred.value
    assert wait.method_name == "resume"
    assert wait.timeout.total_seconds() * 1000 > PIPELINE.archive.sla_ms
    path, arguments = wait.trigger.serialize()
    assert path == "tidegate.airflow.sensors.WindowClosingTrigger"
    restarted = sensors.WindowClosingTrigger(**arguments)
    assert abs(restarted.deadline_ms - time.time() * 1000 - PIPELINE.archive.sla_ms) < 60_000
    state("CLOSED")
    event = first_event(restarted)
    assert event["outcome"] == "ready"
    gone_on: list[Any] = []
    monkeypatch.setattr(archive, "publish", lambda c, window: gone_on.append(window) or published(True))
    task = publisher()
    monkeypatch.setattr(operators, "report", lambda *_: None)
    task.resume(context(), event)
    assert gone_on == [WINDOW]


def test_a_batch_that_never_lands_ends_the_try_by_name(state: Any) -> None:
    state("CLOSING", 812)
    one = sensors.WindowClosingTrigger(
        PIPELINE.name, WINDOW.start_ms, WINDOW.end_ms, int(time.time() * 1000) + 50, 0.01
    )
    event = first_event(one)
    assert event["outcome"] == "late"
    with pytest.raises(AirflowException, match="batch 812 was planned before") as caught:
        publisher().resume(context(), event)
    assert type(caught.value) is AirflowException  # a retry waits on
    with pytest.raises(AirflowFailException, match="contradict"):
        publisher().resume(context(), {"outcome": "failed", "text": "files contradict the ledger"})
