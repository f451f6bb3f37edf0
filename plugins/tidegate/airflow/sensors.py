"""`ready`: wait until the watermark has passed a window's end, in the triggerer, without a worker or a pool slot."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.exceptions import AirflowException, AirflowFailException
from airflow.utils import timezone

from tidegate.airflow.counts import until_let_through
from tidegate.airflow.hub import GRACE_MS, HubTrigger
from tidegate.airflow.task import CERTIFICATE, PipelineOperator, window_of
from tidegate.airflow.timetable import to_ms
from tidegate.core.base.plain import dumps, from_plain
from tidegate.core.completeness.rules import longest_wait_ms
from tidegate.core.spec.pipeline import Pipeline, Windows
from tidegate.core.window.states import WindowKey
from tidegate.core.window.waits import Answer, ClosedWait, ReadyWait

if TYPE_CHECKING:
    from airflow.utils.context import Context

    from tidegate.workflow.base.context import Context as PipelineContext


class WindowReadySensor(PipelineOperator):
    """Ask once; unless the window is ready, wait in the triggerer.

    It gives up `archive.sla` after the moment at which the window should have been ready (its end and the watermark
    delay), or that long after its try began if this is later, and says which Kafka partition holds it. Where another
    system counts too, `completeness.patience` comes on top.
    """

    of = "window"

    def __init__(self, *, pipeline: Pipeline, poll_s: float, **operator_args: Any) -> None:
        super().__init__(pipeline=pipeline, **operator_args)
        self.poll_s = poll_s

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Raises TaskDeferred while the window is not ready."""
        from tidegate.workflow.look import certificates
        from tidegate.workflow.publish import archive

        window = window_of(self.pipeline, context)
        certificate = archive.ready(ctx, window)
        shown = certificates.readiness(ctx, certificate)
        self.log.info(shown.text)
        context["ti"].xcom_push(CERTIFICATE, shown.plain)  # to be seen in the UI, while it waits too
        if not certificate.ready:
            self._wait(window)

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """After the trigger: the window is ready, or the task fails with what holds it."""
        if event["outcome"] == "ready":
            self.log.info(event["text"])
            context["ti"].xcom_push(CERTIFICATE, {"ready": True, "reason": event["text"]})
        elif event["outcome"] == "failed":
            raise AirflowFailException(event["text"])
        else:
            raise AirflowException(f"still not ready, and its time is up: {event['text']}")

    def _wait(self, window: WindowKey) -> None:
        now = to_ms(timezone.utcnow())
        windows, sla_ms = self.pipeline.windows, self.pipeline.archive.sla_ms
        deadline_ms = max(now, window.end_ms + windows.watermark_delay_ms) + sla_ms
        if self.pipeline.completeness is not None:
            deadline_ms += longest_wait_ms(self.pipeline.completeness)
        self.defer(
            trigger=WindowReadyTrigger(dumps(self.pipeline), window.start_ms, window.end_ms, deadline_ms, self.poll_s),
            method_name="resume",
            timeout=timedelta(milliseconds=deadline_ms - now + GRACE_MS),
        )


class WindowReadyTrigger(HubTrigger):
    """Waits until the window is ready. `pipeline` is the compiled spec as JSON: the triggerer needs no DAG folder."""

    def wait(self) -> ReadyWait:
        """Whether the watermark has passed the window's end."""
        name, windows = _windows_of(self.pipeline)
        return ReadyWait(name, windows, self.window)

    async def afterwards(self, answer: Answer) -> Answer:
        """Wait for another system's count, where the spec names one; `done` is False after `deadline_ms`."""
        return await until_let_through(self.pipeline, self.window, answer, self.deadline_ms, self.poll_s, self.log.info)


class WindowClosingTrigger(HubTrigger):
    """Waits until the batches that were planned before the window's close have landed. `pipeline` is its name."""

    def wait(self) -> ClosedWait:
        """Whether no batch stands in the way."""
        return ClosedWait(self.pipeline, self.window)


def defer_until_closed(task: PipelineOperator, poll_s: float, window: WindowKey) -> NoReturn:
    """Raises TaskDeferred: `task` is resumed when no batch stands in the way of the window's close, or after
    `archive.sla`; its retry waits again."""
    now, sla_ms = to_ms(timezone.utcnow()), task.pipeline.archive.sla_ms
    trigger = WindowClosingTrigger(task.pipeline.name, window.start_ms, window.end_ms, now + sla_ms, poll_s)
    task.defer(trigger=trigger, method_name="resume", timeout=timedelta(milliseconds=sla_ms + GRACE_MS))
    raise AssertionError("defer() raises")


@lru_cache(maxsize=128)
def _windows_of(pipeline: str) -> tuple[str, Windows]:
    """Name and windows of a compiled spec; parsed once for all waits, in the hub's thread."""
    plain = json.loads(pipeline)
    return plain["name"], from_plain(Windows, plain["windows"])
