"""How a pipeline stands, as tests of what is the matter with it begin with; no I/O, no adapter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core_values import HOUR, PIPELINE, T0

from tidegate.core.look import concerns as rules
from tidegate.core.look.overdue import Concern, Since
from tidegate.core.look.status import PipelineStatus
from tidegate.core.look.survey import NOTHING
from tidegate.core.source.port import Lane, LogState
from tidegate.core.source.progress import Progress
from tidegate.core.spec.pipeline import Delivery
from tidegate.core.tell.pauses import Pause
from tidegate.core.window.due import Due

SLA = 2 * HOUR
NOW = T0 + 100 * HOUR
DELIVERY = Delivery(kind="clickhouse", name="ch", conn_id="c", table="t", sla_ms=HOUR)
WINDOWS = replace(PIPELINE.windows, idle="wait", watermark_delay_ms=HOUR)
SPEC = replace(
    PIPELINE, name="p", windows=WINDOWS, archive=replace(PIPELINE.archive, sla_ms=SLA), deliver=(DELIVERY,),
    ingest=replace(PIPELINE.ingest, schedule="@hourly"),
)  # fmt: skip
TOPIC = LogState(topic="flights", topic_id="id", partitions={0: Lane(0, 9, 9)})
SURVEY = replace(NOTHING, progress=Progress("id"), begun=True)


def status(**more: Any) -> PipelineStatus:
    said = {
        "pipeline": SPEC,
        "remedy": lambda t: f"<{t.what} {t.topic}>",
        "now_ms": NOW,
        "due": Due(WINDOWS, ()),
        "survey": SURVEY,
    }
    return PipelineStatus(**(said | {"topic": TOPIC} | more))


def surveyed(**more: Any) -> PipelineStatus:
    return status(survey=replace(SURVEY, **more))


def found(one: PipelineStatus, free: Due | None = None, since: Since | None = None, front: Since | None = None) -> list:
    made = list(rules.concerns(one, free or one.due, since, front))
    assert all(c.what and c.advice for c in made)
    return made


def only(one: PipelineStatus, **more: Any) -> Concern:
    (made,) = found(one, **more)
    return made


def pause(*kinds: str, until_ms: int | None = None) -> Pause:
    return Pause(1, T0, "anna", "works", kinds, until_ms)
