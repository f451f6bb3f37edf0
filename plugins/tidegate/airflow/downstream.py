"""`window_published`: a task that waits until the windows of its own data interval are in the table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout
from airflow.models.baseoperator import BaseOperator
from airflow.utils import timezone
from airflow.utils.context import Context

from tidegate.airflow.hub import GRACE_MS, HubTrigger
from tidegate.airflow.timetable import to_ms
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.plain import dumps, loads
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.waits import Answer, PublishedWait

DAY = timedelta(days=1)


def window_published(
    pipeline: str,
    *,
    task_id: str | None = None,
    at_least_generation: int = 1,
    timeout: timedelta = DAY,
    **operator_args: Any,
) -> WindowPublishedSensor:
    """A task that ends once every window of `pipeline` that overlaps this run's data interval is published.

    `pipeline` is its name, or the table as `database.table`. `timeout` counts from when the last of the windows could
    be ready at the earliest (its end and the watermark delay), or from the task's start if that is later."""
    name = task_id or f"published_{pipeline.replace('.', '_')}"
    return WindowPublishedSensor(
        task_id=name, pipeline=pipeline, at_least_generation=at_least_generation, timeout=timeout, **operator_args
    )


class WindowPublishedSensor(BaseOperator):
    """Look once; unless all windows are published, wait in the triggerer, with no worker and no pool slot.

    `start` and `end` are instants (templates; the end is exclusive): the run's data interval by default. A time-out
    fails the task without a retry, and says which windows are missing and what holds the oldest of them."""

    template_fields: Sequence[str] = ("pipeline", "start", "end")
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        pipeline: str,
        start: str = "{{ data_interval_start }}",
        end: str = "{{ data_interval_end }}",
        at_least_generation: int = 1,
        timeout: timedelta = DAY,
        **operator_args: Any,
    ) -> None:
        if at_least_generation < 1:
            raise ValueError(f"at_least_generation is {at_least_generation}: generations are counted from 1")
        super().__init__(**operator_args)
        self.pipeline, self.start, self.end = pipeline, start, end
        self.at_least_generation, self.timeout = at_least_generation, timeout

    def execute(self, context: Context) -> None:
        """Raises TaskDeferred while windows are missing."""
        try:
            name, answer, wait = self._look()
        except TidegateError as e:
            raise (AirflowException if e.retry else AirflowFailException)(str(e)) from None
        self.log.info(answer.text)
        if not answer.done:
            self._wait(name, wait)

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """After the trigger: all windows are published, or the task fails with those that are missing."""
        if event["outcome"] == "published":
            self.log.info(event["text"])
        elif event["outcome"] == "failed":
            raise AirflowFailException(event["text"])
        else:
            raise AirflowSensorTimeout(f"its time is up: {event['text']}")

    def _look(self) -> tuple[str, Answer, PublishedWait]:
        from tidegate.adapters.airflow_connections import airflow_connection
        from tidegate.wiring import ledger_address, open_specs, open_waits
        from tidegate.workflow.window import waits as awaiting

        url = ledger_address(airflow_connection)
        with open_specs(url) as specs:
            spec = awaiting.find(specs, self.pipeline)
        start_ms, end_ms = _instant_ms(self.start), _instant_ms(self.end)
        wait = awaiting.published_wait(spec.name, spec.windows, start_ms, end_ms, self.at_least_generation)
        waits = open_waits(url)
        try:
            return spec.name, *awaiting.ask(waits, wait, to_ms(timezone.utcnow()))
        finally:
            waits.close()

    def _wait(self, name: str, wait: PublishedWait) -> None:
        from tidegate.settings import load

        now = to_ms(timezone.utcnow())
        earliest = wait.missing[-1].end_ms + wait.windows.watermark_delay_ms
        deadline_ms = max(now, earliest) + self.timeout // timedelta(milliseconds=1)
        span = wait.missing[0].start_ms, wait.missing[-1].end_ms
        trigger = WindowPublishedTrigger(
            name, dumps(wait.windows), *span, self.at_least_generation, deadline_ms, load().poll_s
        )
        self.defer(trigger=trigger, method_name="resume", timeout=timedelta(milliseconds=deadline_ms - now + GRACE_MS))


class WindowPublishedTrigger(HubTrigger):
    """Waits until windows are published, as a generation `at_least`; `windows` is the pipeline's
    `core.spec.pipeline.Windows` as JSON."""

    done = "published"

    def __init__(
        self, pipeline: str, windows: str, start_ms: int, end_ms: int, at_least: int, deadline_ms: int, poll_s: float
    ) -> None:
        super().__init__(pipeline, start_ms, end_ms, deadline_ms, poll_s)
        self.windows, self.at_least = windows, at_least

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class and arguments, from which a triggerer makes it again."""
        place, arguments = super().serialize()
        return place, {**arguments, "windows": self.windows, "at_least": self.at_least}

    def wait(self) -> PublishedWait:
        """Whether all of them are published."""
        from tidegate.workflow.window.waits import published_wait

        windows = loads(Windows, self.windows)
        return published_wait(self.pipeline, windows, self.window.start_ms, self.window.end_ms, self.at_least)


def _instant_ms(text: str | datetime) -> int:
    """UTC ms of an instant, which is UTC without a zone. Raises AirflowFailException."""
    try:
        at = text if isinstance(text, datetime) else datetime.fromisoformat(text.strip())
    except ValueError:
        raise AirflowFailException(f"{text!r} is no instant such as 2013-01-05T04:00:00+00:00") from None
    return to_ms(at if at.tzinfo else at.replace(tzinfo=timezone.utc))  # type: ignore[arg-type]
