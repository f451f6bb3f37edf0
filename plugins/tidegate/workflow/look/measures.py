"""Measures of many pipelines at once: what `status` is made of, and what has been spent. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.core.base.errors import SourceError
from tidegate.core.look.measures import Measure, measures
from tidegate.core.look.status import PipelineStatus
from tidegate.core.look.survey import SurveyLedger
from tidegate.core.source.loss_warning import TimeToLoss
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.workflow.base.context import Context
from tidegate.workflow.look.status import due_since, looks


def measure_all(
    pipelines: Sequence[Pipeline], topics: Mapping[str, LogState], reads: SurveyLedger, now_ms: int
) -> list[Measure]:
    """`topics` by the pipeline's name, of those for which Kafka answered. Raises LedgerError."""
    return _of(looks(pipelines, {name: (topic, now_ms) for name, topic in topics.items()}, reads, now_ms), reads)


def _of(found: Mapping[str, PipelineStatus], reads: SurveyLedger) -> list[Measure]:
    since = due_since(reads, [(one.pipeline, one.due) for one in found.values()])
    spent = reads.window_steps([name for name, one in found.items() if one.survey is not None])
    each = ((replace(one, due_since_ms=since.get(name)), spent.get(name)) for name, one in found.items())
    return [measure for one, steps in each for measure in measures(one, steps)]


def measure_one(ctx: Context, reads: SurveyLedger) -> tuple[list[Measure], TimeToLoss | None]:
    """The context's pipeline; Kafka is asked, and left out if it gives no answer. Raises LedgerError."""
    now_ms = ctx.clock.now_ms()
    try:
        topics = {ctx.name: (ctx.log(), now_ms)}
    except SourceError:
        topics = {}
    found = looks([ctx.pipeline], topics, reads, now_ms)
    return _of(found, reads), found[ctx.name].loss
