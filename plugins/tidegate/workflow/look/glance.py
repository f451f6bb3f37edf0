"""Many pipelines at a glance, in a number of statements that does not grow with them. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tidegate.core.base.instants import iso, span
from tidegate.core.base.offsets import Interval
from tidegate.core.base.wording import those
from tidegate.core.look.blocking import oddities
from tidegate.core.look.glance import GlanceLedger, Head, Told
from tidegate.core.look.survey import Survey, SurveyLedger
from tidegate.core.source.loss import CRITICAL, TimeToLoss, remedy, sentence
from tidegate.core.source.port import LogState
from tidegate.core.source.progress import Progress, begins
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.tell.pauses import silent
from tidegate.core.window import due as rules
from tidegate.core.window import watermark
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.due import Due
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import Certificate
from tidegate.kinds import source_kind
from tidegate.workflow.look import pauses
from tidegate.workflow.look.measures import loss_of
from tidegate.workflow.look.overview import after_refusal, first_line, refusal_kind
from tidegate.workflow.window import overdue
from tidegate.workflow.window.overdue import Concern


class GlanceReads(GlanceLedger, SurveyLedger, Protocol):
    """What is asked."""


@dataclass(frozen=True)
class Lag:
    """`records` offsets wait to be read; `asked_ms` is when Kafka said so, by itself or to the newest plan."""

    records: int
    asked_ms: int
    by_plan: bool
    lost: int = 0


@dataclass(frozen=True)
class Glance:
    """`next_window` is the oldest one that is not published and not due; `behind_ms`: how far the watermark is behind
    the clock. `survey` is None for a pipeline that no run has registered."""

    pipeline: Pipeline
    head: Head | None
    survey: Survey | None
    lag: Lag | None
    watermark_ms: int | None
    behind_ms: int | None
    due: Due
    next_window: Certificate | None
    loss: TimeToLoss | None
    counts: Mapping[str, int] = field(default_factory=dict)
    concerns: tuple[Concern, ...] = ()


def glances(
    pipelines: Sequence[Pipeline],
    heads: Mapping[str, Head],
    topics: Mapping[str, tuple[LogState, int]],
    reads: GlanceReads,
    now_ms: int,
) -> dict[str, Glance]:
    """`topics` by the pipeline's name: what Kafka said, and when (UTC ms). Raises LedgerError."""
    names = [one.name for one in pipelines]
    surveys = reads.survey(names, now_ms)
    counts = reads.published_counts(names)
    marks = {
        one.name: watermark.watermarks(one.windows, surveys[one.name].facts, now_ms)
        for one in pipelines
        if one.name in surveys
    }
    lows = {name: low for name, its in marks.items() if (low := watermark.global_watermark(its)) is not None}
    unknown = {one.name: _unknown(one, surveys[one.name], lows[one.name]) for one in pipelines if one.name in lows}
    nexts = {one.name: _first_open(one, lows.get(one.name)) for one in pipelines if one.name in surveys}
    ahead = {one.name: _ahead(one, surveys[one.name], nexts[one.name]) for one in pipelines if one.name in surveys}
    asked = {name: [*unknown.get(name, ()), *ahead[name]] for name in ahead}
    published = reads.published_within_each({name: parts for name, parts in asked.items() if parts})
    dues = {
        one.name: rules.due(one.windows, unknown.get(one.name, ()), [s for s in published.get(one.name, []) if s < at])
        for one in pipelines
        if (at := nexts.get(one.name)) is not None
    }
    late = overdue.late(reads, [(one, dues[one.name]) for one in pipelines if one.name in dues], now_ms)
    found = {}
    for one in pipelines:
        survey, topic = surveys.get(one.name), topics.get(one.name)
        if survey is None:
            found[one.name] = Glance(
                one, heads.get(one.name), None, _lag(None, topic), None, None, _nothing(one), None, None
            )
            continue
        there = published.get(one.name, [])
        waits = _waits(one, survey, nexts[one.name], set(there), now_ms, heads.get(one.name))
        loss = loss_of(one, topic[0], survey, now_ms) if topic is not None else None
        low = lows.get(one.name)
        glance = Glance(
            one,
            heads.get(one.name),
            survey,
            _lag(survey, topic),
            low,
            None if low is None else max(0, now_ms - low),
            dues[one.name],
            waits,
            loss,
            counts.get(one.name, {}),
        )
        concerns = _concerns(glance, topic, one.name in late, now_ms)
        found[one.name] = replace(glance, concerns=tuple(concerns))
    return found


def _nothing(pipeline: Pipeline) -> Due:
    return Due(pipeline.windows, ())


def _unknown(pipeline: Pipeline, survey: Survey, low: int) -> tuple[Interval, ...]:
    return rules.unknown(pipeline.windows, survey.note.published if survey.note else (), low)


def _first_open(pipeline: Pipeline, low: int | None) -> int:
    """Where the window begins that the watermark lies in."""
    start = pipeline.windows.start_ms
    return window_start(start if low is None else max(low, start), pipeline.windows)


def _ahead(pipeline: Pipeline, survey: Survey, start: int) -> tuple[Interval, ...]:
    """A watermark may fall back behind windows that are published: only then they are asked for."""
    newest = survey.published.newest_start_ms
    if newest is None or newest < start:
        return ()
    return (Interval(start, window_end(newest, pipeline.windows)),)


def _waits(
    pipeline: Pipeline, survey: Survey, start: int, published: set[int], now_ms: int, head: Head | None
) -> Certificate:
    while start in published:
        start = window_end(start, pipeline.windows)
    key = WindowKey(start, window_end(start, pipeline.windows))
    first = ""
    if head is not None and head.open and head.batch_id is not None and head.state is not None:
        first = watermark.first_batch(head.batch_id, head.state, bool(head.refused or head.blocked))
    return watermark.certify(pipeline.name, pipeline.windows, survey.facts, key, now_ms, first=first)


def _lag(survey: Survey | None, topic: tuple[LogState, int] | None) -> Lag | None:
    """By Kafka if it has answered, else as the newest plan met the topic: what it left unread."""
    progress = None if survey is None else survey.progress
    if topic is not None:
        state, asked_ms = topic
        ends: dict[int, int] = {}
        if progress is not None and progress.newest is not None and progress.topic_id == state.topic_id:
            ends = {p: look.end for p, look in progress.newest.partitions.items()}
        parts = state.partitions.items()
        records = sum(max(0, o.last_stable_offset - max(begins(ends, p, o.log_start), o.log_start)) for p, o in parts)
        lost = sum(max(0, o.log_start - begins(ends, p, o.log_start)) for p, o in parts)
        return Lag(records, asked_ms, False, lost)
    return plan_lag(progress)


def plan_lag(progress: Progress | None) -> Lag | None:
    """What the newest plan left unread, as it met the topic."""
    newest = None if progress is None else progress.newest
    if newest is None:
        return None
    looks = newest.partitions.values()
    ends = ((x.high_watermark if x.last_stable_offset is None else x.last_stable_offset) - x.end for x in looks)
    return Lag(sum(max(0, left) for left in ends), newest.clock_ms, True)


TOLD = ("late_window", "unready_window", "audit_failed", "held_window", "late_rows", "replay_left")
"""Kinds of notices that nothing else here would show."""


def _concerns(glance: Glance, topic: tuple[LogState, int] | None, late: bool, now_ms: int) -> list[Concern]:
    """As `status` says them, but for those that need many statements: the pipeline's own page has all."""
    pipeline, head, survey, lag = glance.pipeline, glance.head, glance.survey, glance.lag
    name, found = pipeline.name, list[Concern]()
    repair = f"look at it, then `tidegate repair {name}`"
    if head is not None:
        if head.open and head.blocked:
            found.append(Concern(f"batch {head.batch_id} is blocked: {first_line(head.blocked)}", repair, "alarm"))
        alarms = [(iso(at), first_line(why)) for at, why in head.alarms]
        found += [Concern(f"window {at} is blocked: {why}", repair, "alarm") for at, why in alarms]
        if head.open and head.refused and head.batch_id is not None:
            what = f"batch {head.batch_id} was refused: {first_line(head.refused)}"
            found.append(Concern(what, after_refusal(name, head.batch_id, head.refused), refusal_kind(head.refused)))
    told = head.told if head is not None else ()
    if survey is None:
        return with_told(found, told)
    if topic is not None and topic[0].is_another(survey.progress.topic_id):
        what = f"topic {pipeline.source.topic} was recreated: it is {topic[0].topic_id}"
        found.append(Concern(what, f"if that was on purpose: tidegate source reset {name}", "source_reset"))
    elif lag is not None and lag.lost:
        what = f"{those(lag.lost, 'offset')} gone from the topic before they were read"
        found.append(Concern(what, "source.on_data_loss: record goes on without them", "data_loss"))
    elif glance.loss is not None and glance.loss.level == CRITICAL:
        advice = remedy(glance.loss, pipeline.source.topic, name, source_kind(pipeline.source.kind).remedy)
        found.append(Concern(sentence(glance.loss), advice, "loss_ahead"))
    unread = lag.records if lag is not None and not lag.by_plan else None
    found += [Concern(*odd, "watermark") for odd in oddities(pipeline.windows, survey.facts, now_ms, unread)]
    quiet = silent(survey.pause, now_ms)
    waited = f"more than {span(pipeline.archive.sla_ms)}" if late and "late_window" not in quiet else ""
    found += overdue.concerns(pipeline, glance.due, None, survey.note, now_ms, waited=waited)
    found += pauses.concerns(pipeline, survey.pause, glance.loss, now_ms)
    return with_told(found, told, quiet)


def with_told(found: Sequence[Concern], told: Sequence[Told], quiet: Collection[str] = ()) -> list[Concern]:
    """What is the matter now, and what people were told of and nothing else here shows; nothing of the kinds `quiet`,
    which a pause on purpose explains."""
    kinds = {c.kind for c in found}
    told = [t for t in told if t.kind not in quiet]
    more = [t for t in told if t.kind not in kinds and (t.kind in TOLD or not kinds)]
    return [*found, *(Concern(t.what, t.advice, t.kind) for t in more)]
