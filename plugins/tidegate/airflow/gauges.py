"""A pipeline's measures through Airflow's own metrics, and a line in the log when records are about to be lost."""

from __future__ import annotations

from collections.abc import Iterable
from logging import Logger
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.stats import Stats

from tidegate.core.base.errors import TidegateError
from tidegate.core.look.measures import Measure
from tidegate.core.source.loss_warning import CRITICAL, WARN, TimeToLoss, remedy, sentence
from tidegate.kinds import source_kind

if TYPE_CHECKING:
    from tidegate.workflow.base.context import Context

PREFIX = "tidegate_"
TIME_TO_LOSS = "time_to_loss"
"""XCom key for people; no code reads it."""


def tell(ctx: Context, ti: Any, log: Logger) -> None:
    """Send the pipeline's measures, and show the time to loss among the task instance's XComs.

    What cannot be measured fails no task: the log says why."""
    from tidegate.workflow.look.measures import measure_one

    try:
        found, loss = measure_one(ctx, ctx.ledger.reads)  # type: ignore[attr-defined]
    except TidegateError as e:
        log.warning("nothing is measured: %s", e)
        return
    send(found)
    if loss is not None:
        ti.xcom_push(TIME_TO_LOSS, {"level": loss.level, "text": sentence(loss)})
        warn(ctx, loss, log)


def warn(ctx: Context, loss: TimeToLoss, log: Logger) -> None:
    """Log a loss ahead: level warn as a warning, critical as an error."""
    if loss.level not in (WARN, CRITICAL):
        return
    say = log.error if loss.level == CRITICAL else log.warning
    say("time to loss: %s: %s", loss.level, sentence(loss))
    say(
        "  what to do: %s",
        remedy(loss, ctx.pipeline.source.topic, ctx.name, source_kind(ctx.pipeline.source.kind).remedy),
    )


def send(found: Iterable[Measure]) -> None:
    """Send measures as gauges, counters too: each value is a total, and no backend of Airflow's sets a counter."""
    tagged = _has_tags()
    for measure in found:
        labels = dict(measure.labels)
        name = measure.name.removeprefix(PREFIX)
        if tagged:
            Stats.gauge(f"tidegate.{name}", measure.value, tags=labels)
        else:
            place = [labels[k] for k in ("fate", "step", "dag", "reason", "pipeline") if k in labels]
            place = [word.replace(" ", "_") for word in place]  # a name with a space is refused
            Stats.gauge(".".join(["tidegate", name, *place]), measure.value)


def _has_tags() -> bool:
    """Whether the backend takes tags; plain StatsD does not: there the pipeline is part of the name."""
    keys = ("otel_on", "statsd_datadog_enabled", "statsd_influxdb_enabled")
    return any(conf.getboolean("metrics", key, fallback=False) for key in keys)
