"""Measures of many pipelines at once: a few statements of the ledger, and what Kafka has said. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.core.base.errors import SourceError
from tidegate.core.look.measures import Measure, measures
from tidegate.core.look.survey import Survey, SurveyLedger
from tidegate.core.source.loss import TimeToLoss, time_to_loss
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window import due as rules
from tidegate.core.window.due import Due
from tidegate.core.window.watermark import global_watermark, watermarks
from tidegate.workflow.base.context import Context
from tidegate.workflow.window.overdue import due_since


def measure_all(
    pipelines: Sequence[Pipeline], topics: Mapping[str, LogState], reads: SurveyLedger, now_ms: int
) -> list[Measure]:
    """`topics` by the pipeline's name, of those for which Kafka answered. Raises LedgerError."""
    return _measures(pipelines, topics, reads.survey([one.name for one in pipelines], now_ms), reads, now_ms)


def _measures(
    pipelines: Sequence[Pipeline],
    topics: Mapping[str, LogState],
    surveys: Mapping[str, Survey],
    reads: SurveyLedger,
    now_ms: int,
) -> list[Measure]:
    due, spent = _due(pipelines, surveys, reads, now_ms), reads.window_steps(list(surveys))
    since = due_since(reads, [(one, due[one.name]) for one in pipelines if one.name in due])
    found: list[Measure] = []
    for one in pipelines:
        survey, topic = surveys.get(one.name), topics.get(one.name)
        loss = None if survey is None or topic is None else loss_of(one, topic, survey, now_ms)
        found += measures(one, survey, topic, loss, due.get(one.name), now_ms, spent.get(one.name), since.get(one.name))
    return found


def measure_one(ctx: Context, reads: SurveyLedger) -> tuple[list[Measure], TimeToLoss | None]:
    """The context's pipeline; Kafka is asked, and left out if it gives no answer. Raises LedgerError."""
    pipeline, now_ms = ctx.pipeline, ctx.clock.now_ms()
    try:
        topics = {pipeline.name: ctx.source.look(pipeline.source.topic)}
    except SourceError:
        topics = {}
    surveys = reads.survey([pipeline.name], now_ms)
    found = _measures([pipeline], topics, surveys, reads, now_ms)
    if pipeline.name not in topics or pipeline.name not in surveys:
        return found, None
    return found, loss_of(pipeline, topics[pipeline.name], surveys[pipeline.name], now_ms)


def loss_of(pipeline: Pipeline, topic: LogState, survey: Survey, now_ms: int) -> TimeToLoss:
    """By `source.loss_warning`."""
    return time_to_loss(topic, survey.progress, now_ms, pipeline.source.loss_warning_ms)


def _due(
    pipelines: Sequence[Pipeline], surveys: Mapping[str, Survey], reads: SurveyLedger, now_ms: int
) -> dict[str, Due]:
    """Of those that have a watermark; one statement asks for all that is not remembered as published."""
    parts = {}
    for one in pipelines:
        survey = surveys.get(one.name)
        low = None if survey is None else global_watermark(watermarks(one.windows, survey.facts, now_ms))
        if survey is not None and low is not None:
            note = survey.note
            parts[one.name] = rules.unknown(one.windows, note.published if note else (), low)
    published = reads.published_within_each(parts)
    windows = {one.name: one.windows for one in pipelines}
    return {name: rules.due(windows[name], left, published[name]) for name, left in parts.items()}
