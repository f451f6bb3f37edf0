"""Messages to people from Airflow's processes: findings of maintenance, and tasks that have failed for good.

No message fails a task: an unsent one is a warning in the log, and the maintenance DAG sends it again.
"""

from __future__ import annotations

from logging import Logger
from typing import TYPE_CHECKING

from airflow.configuration import conf

from tidegate.adapters.airflow_connections import airflow_connection
from tidegate.adapters.connections import resolve
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.wording import in_one_line
from tidegate.core.spec.pipeline import Pipeline

if TYPE_CHECKING:
    from airflow.utils.context import Context

    from tidegate.core.source.port import Source
    from tidegate.workflow.base.context import Context as PipelineContext
    from tidegate.workflow.tell.notices import Channel

FAILURE_DEADLINE_S = 15.0
"""Seconds for the messages that a failed task sends itself; maintenance sends the rest."""
MOST_WORDS = 1_000


def tell(ctx: PipelineContext, log: Logger) -> None:
    """End maintenance: the daily check, then messages."""
    from tidegate.workflow.audit import checkup
    from tidegate.workflow.tell import notices

    try:
        _say(checkup.if_due(ctx, ctx.ledger.reads), log)  # type: ignore[attr-defined]
    except Exception as e:
        log.warning("nothing is checked: %s: %s", type(e).__name__, in_one_line(e))
    try:
        reads, channels = ctx.ledger.reads, channels_of(ctx.pipeline, log)  # type: ignore[attr-defined]
        _say(notices.tell(ctx, reads, channels, board_url(ctx.name)), log)
    except Exception as e:  # people are told next time; the data does not wait for it
        log.warning("no message was sent: %s: %s", type(e).__name__, in_one_line(e))


def on_failure(context: Context) -> None:
    """Tell of a task that has failed for good. Airflow calls it when no retry is left, before it saves that.

    For a task whose process died the DAG processor calls it, which has seconds for all tasks of a file: there the
    failure is only recorded, and the maintenance DAG tells of it."""
    task = context["task"]
    pipeline: Pipeline = task.pipeline  # type: ignore[attr-defined]
    if not configured(pipeline):
        return
    try:
        _failed(pipeline, context)
    except Exception as e:
        task.log.warning("no message of this failure was sent: %s: %s", type(e).__name__, in_one_line(e))


def configured(pipeline: Pipeline) -> bool:
    return pipeline.webhook_conn_id is not None or pipeline.notify.callback is not None


def channels_of(pipeline: Pipeline, log: Logger) -> list[Channel]:
    """The channels, the webhook first. One that cannot be made is a warning."""
    from tidegate.adapters.webhook import Function, Webhook

    found: list[Channel] = []
    if pipeline.webhook_conn_id is not None:
        try:
            found.append(Webhook(resolve(pipeline.webhook_conn_id, airflow_connection)))
        except TidegateError as e:
            log.warning("the webhook is not used: %s", in_one_line(e))
    if pipeline.notify.callback is not None:
        found.append(Function(pipeline.notify.callback))
    return found


def board_url(name: str) -> str:
    """The pipeline's page in the Airflow UI."""
    return f"{conf.get('webserver', 'base_url', fallback='').rstrip('/')}/tidegate/{name}"


def _failed(pipeline: Pipeline, context: Context) -> None:
    """Record and tell, with the ledger's connection alone: another one may be why the task failed."""
    from tidegate import inspection, wiring
    from tidegate.workflow.tell import notices

    ti, log = context["ti"], context["task"].log
    words = in_one_line(context.get("exception") or "ended from outside; its log says more")[:MOST_WORDS]
    finding = notices.failed_task(f"{ti.dag_id}.{ti.task_id}", ti.run_id, ti.try_number, words, ti.log_url)
    ledger = wiring.open_ledger(f"airflow {ti.dag_id}/{ti.run_id}", airflow_connection)
    try:
        ctx = inspection.context(pipeline, ledger, airflow_connection, _no_kafka)
        notices.happened(ctx, finding)
        channels = channels_of(pipeline, log) if context["task"].begun_here else []  # type: ignore[attr-defined]
        if channels:
            _say(notices.deliver(ctx, channels, board_url(pipeline.name), FAILURE_DEADLINE_S), log)
    finally:
        ledger.close()


def _no_kafka(pipeline: Pipeline) -> Source:
    raise NotImplementedError("a message asks no broker")


def _say(lines: list[str], log: Logger) -> None:
    for line in lines:
        (log.warning if line.startswith("WARNING") else log.info)(line)
