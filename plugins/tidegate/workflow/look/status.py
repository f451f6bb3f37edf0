"""How pipelines stand: the ledger is asked once for all of them, in a number of statements that does not grow with
them, and `core.look` decides. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tidegate.core.base.offsets import Interval
from tidegate.core.completeness.rules import held
from tidegate.core.late import reopen
from tidegate.core.look import concerns as rules
from tidegate.core.look import status as standing
from tidegate.core.look.blocking import silence_ms
from tidegate.core.look.overdue import Concern, Since
from tidegate.core.look.port import LedgerReads
from tidegate.core.look.status import PipelineStatus
from tidegate.core.look.survey import NOTHING, Landed, Survey, SurveyLedger
from tidegate.core.source.loss_warning import TimeToLoss, time_to_loss
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window import watermark
from tidegate.core.window.due import Due, due
from tidegate.core.window.forecast import Forecast, forecast
from tidegate.core.window.watermark import TopicFacts
from tidegate.kinds import source_kind
from tidegate.workflow.base.context import Context, contradiction

Topics = Mapping[str, tuple[LogState, int]]
"""By the pipeline's name: what Kafka said, and when (UTC ms)."""
_NO_FACTS = TopicFacts(None, None, ())


def status(ctx: Context, reads: LedgerReads, topic: LogState | None, events: int = 5) -> PipelineStatus:
    """The context's pipeline. `topic` is None when Kafka was not asked or gave no answer. Raises LedgerError."""
    now_ms = ctx.clock.now_ms()
    topics = {} if topic is None else {ctx.name: (topic, now_ms)}
    return statuses([ctx.pipeline], topics, reads, now_ms, events)[ctx.name]


def statuses(
    pipelines: Sequence[Pipeline], topics: Topics, reads: LedgerReads, now_ms: int, events: int = 5
) -> dict[str, PipelineStatus]:
    """Statuses with everything that is shown of a pipeline, and the newest `events`. Raises LedgerError."""
    found = looks(pipelines, topics, reads, now_ms)
    since = due_since(reads, [(one.pipeline, one.due) for one in found.values()])
    found = {name: replace(one, due_since_ms=since.get(name)) for name, one in found.items()}
    details = reads.overviews([name for name, one in found.items() if one.survey is not None], events)
    found = {name: replace(one, overview=details.get(name)) for name, one in found.items()}
    return _with_concerns(_with_contradictions(found, reads), reads, now_ms, exact=True)


def _with_contradictions(found: Mapping[str, PipelineStatus], reads: LedgerReads) -> dict[str, PipelineStatus]:
    """With what every task would refuse before it does anything: a spec that contradicts what has landed."""
    specs = reads.newest_specs([name for name, one in found.items() if one.survey is not None])
    errors = {name: contradiction(old, found[name].pipeline) for name, old in specs.items()}
    first = {n: Concern(str(e.args[0]).removeprefix(f"{n}: "), e.advice) for n, e in errors.items() if e is not None}
    return {name: replace(one, contradiction=first.get(name)) for name, one in found.items()}


def glances(
    pipelines: Sequence[Pipeline], topics: Topics, reads: LedgerReads, now_ms: int
) -> dict[str, PipelineStatus]:
    """Statuses for a list: in fewer statements, because how long ago something was is told only as `more than`."""
    found = _with_contradictions(looks(pipelines, topics, reads, now_ms), reads)
    return _with_concerns(found, reads, now_ms, exact=False)


def looks(pipelines: Sequence[Pipeline], topics: Topics, reads: SurveyLedger, now_ms: int) -> dict[str, PipelineStatus]:
    """Statuses without concerns, and what only these need."""
    by_name = {one.name: one for one in pipelines}
    surveys = reads.survey(list(by_name), now_ms)
    lows, unknown, parts, starts = {}, {}, dict[str, list[Interval]](), {}
    for name, survey in surveys.items():
        one = by_name[name]
        low = watermark.global_watermark(watermark.watermarks(one.windows, survey.facts, now_ms))
        lows[name], starts[name] = low, standing.first_open(one, low)
        unknown[name] = standing.not_remembered(one, survey, low)
        parts[name] = [*unknown[name], *standing.ahead(one, survey, starts[name])]
    keyed = [name for name in surveys if not by_name[name].windows.closes]
    merging = reads.merging(keyed) if keyed else {}
    copied = [name for name in surveys if by_name[name].copy is not None]
    readings = reads.readings(copied) if copied else {}
    by_days = [name for name in surveys if by_name[name].windows.follows]
    kept_out = reads.kept_out(by_days) if by_days else {}
    delivering = {name: by_name[name].deliver for name in surveys if by_name[name].deliver}
    backlogs = reads.backlogs(delivering) if delivering else {}
    published = reads.published_within_each({name: some for name, some in parts.items() if some})
    found = {}
    for name, one in by_name.items():
        remedy = source_kind(one.source.kind).remedy
        known, (topic, asked_ms) = surveys.get(name), topics.get(name, (None, now_ms))
        if known is None:
            lag = standing.lag_of(NOTHING.progress, topic, asked_ms)
            found[name] = PipelineStatus(
                pipeline=one, remedy=remedy, now_ms=now_ms, due=Due(one.windows, ()), topic=topic, lag=lag
            )
            continue
        topic = None if topic is None else topic.known_as(known.progress.topic_id)
        there, lag = published.get(name, []), standing.lag_of(known.progress, topic, asked_ms)
        found[name] = PipelineStatus(
            pipeline=one,
            remedy=remedy,
            now_ms=now_ms,
            due=due(one.windows, unknown[name], [start for start in there if start < starts[name]]),
            survey=known,
            topic=topic,
            lag=lag,
            watermark_ms=lows[name],
            next_window=standing.waits(one, known, starts[name], set(there), lag, now_ms)
            if one.windows.closes
            else None,
            loss=loss_of(one, topic, known, now_ms),
            merging=merging.get(name),
            reading=readings.get(name),
            kept_out=kept_out.get(name),
            backlogs=backlogs.get(name, ()),
        )
    return found


def loss_of(pipeline: Pipeline, topic: LogState | None, survey: Survey, now_ms: int) -> TimeToLoss | None:
    """The forecast by `source.loss_warning`; None too where there is no log that could lose anything."""
    if topic is None or topic.traits.windowed:
        return None
    return time_to_loss(topic, survey.progress, now_ms, pipeline.source.loss_warning_ms)


def _with_concerns(
    found: Mapping[str, PipelineStatus], reads: SurveyLedger, now_ms: int, exact: bool
) -> dict[str, PipelineStatus]:
    found = _with_windows(found, reads, exact)
    free = {
        name: due(one.pipeline.windows, one.due.parts, [h.window_ms for h in one.held]) for name, one in found.items()
    }
    since = _ready_since(found, free, reads, now_ms, exact)
    fronts = _fronts([one for one in found.values() if rules.may_be_unready(one)], reads, now_ms, exact)
    return {
        name: replace(one, concerns=rules.concerns(one, free[name], since.get(name), fronts.get(name)))
        for name, one in found.items()
    }


def _with_windows(found: Mapping[str, PipelineStatus], reads: SurveyLedger, all_: bool) -> dict[str, PipelineStatus]:
    """With the windows that wait for something: each is asked for only where there may be any; when the next one is
    expected, of all of them or where it is late."""
    asking = [n for n, one in found.items() if one.pipeline.completeness is not None and one.survey is not None]
    late = [
        n
        for n, one in found.items()
        if one.pipeline.reopening.after_ms is not None and one.survey and one.survey.late_now
    ]
    blocked = {n for n, one in found.items() if (rules.is_blocked(one) if all_ else rules.may_be_unready(one))}
    answers = reads.answers(asking) if asking else {}
    reopened = reads.late_windows(late) if late else {}
    before = reads.earlier_each(blocked) if blocked else {}
    return {
        name: replace(
            one,
            expected=_expected(one, before.get(name, _NO_FACTS)) if name in blocked else None,
            held=held(one.pipeline.completeness, answers.get(name, {}), one.now_ms),
            late_left=reopen.left(one.pipeline.windows, reopened.get(name, []), one.pipeline.reopening, one.now_ms),
        )
        for name, one in found.items()
    }


def _expected(one: PipelineStatus, before: TopicFacts) -> Forecast | None:
    if one.survey is None or one.next_window is None:
        return None
    return forecast(one.pipeline.windows, one.survey.facts, before, one.next_window, one.now_ms)


# ---------------------------------------------------------------- since when


def due_since(reads: SurveyLedger, dues: Iterable[tuple[Pipeline, Due]]) -> dict[str, int]:
    """Times by pipeline, of those with a window that is due: when the first batch landed after which the oldest could
    be published (UTC ms)."""
    return _passed_ms(reads, [(pipeline, next(iter(due)).end_ms) for pipeline, due in dues if due])


def _ready_since(
    found: Mapping[str, PipelineStatus], free: Mapping[str, Due], reads: SurveyLedger, now_ms: int, exact: bool
) -> dict[str, Since]:
    """Since when the oldest window that no count holds has been ready, of those where that matters."""
    same = {name: one.due_since_ms for name, one in found.items() if exact and free[name] == one.due}
    known = {name: Since(ms) for name, ms in same.items() if ms is not None}
    asked = [
        (one.pipeline, next(iter(free[name])).end_ms) for name, one in found.items() if free[name] and name not in known
    ]
    return known | _passed(reads, asked, {p.name: now_ms - p.archive.sla_ms - 1 for p, _ in asked}, exact)


def _fronts(late: Sequence[PipelineStatus], reads: SurveyLedger, now_ms: int, exact: bool) -> dict[str, Since]:
    """When the windows before the next one were ready, of those where that is more than `archive.sla` ago; the first
    batch counts where there are none."""
    passed = [(one.pipeline, one.next_window.window.start_ms) for one in late if one.passed_before and one.next_window]
    upto = {p.name: now_ms - p.archive.sla_ms - silence_ms(p.windows) - 1 for p, _ in passed}
    found = _passed(reads, passed, upto, exact)
    firsts = {one.name: 1 for one in late if not one.passed_before}
    landed = reads.landed_upto_each(dict.fromkeys(firsts)) if firsts else {}
    landed |= reads.landed_upto_each(firsts) if firsts else {}
    return found | {name: Since(one.landed_ms) for name, one in landed.items()}


def _passed(
    reads: SurveyLedger, asked: Sequence[tuple[Pipeline, int]], upto_ms: Mapping[str, int], exact: bool
) -> dict[str, Since]:
    """Since when the watermark has passed an instant; where that need not be `exact`, only of those that it had passed
    at `upto_ms`, by a number of statements that does not grow with batches."""
    if exact:
        return {name: Since(ms) for name, ms in _passed_ms(reads, asked).items()}
    old = {p.name: (p, at_ms) for p, at_ms in asked if at_ms < upto_ms[p.name]}
    landed = reads.landed_before_each({name: upto_ms[name] for name in old}) if old else {}
    return {name: Since(upto_ms[name], False) for name, one in landed.items() if _has_passed(*old[name], one)}


def _passed_ms(reads: SurveyLedger, asked: Iterable[tuple[Pipeline, int]]) -> dict[str, int]:
    """By pipeline: when the batch landed that carried the watermark over an instant which it has passed by now. One
    that no batch has landed for is left out. Watermarks only rise, so batches are halved, all pipelines' at once."""
    by_name = {pipeline.name: (pipeline, instant_ms) for pipeline, instant_ms in asked}
    ready = reads.landed_upto_each(dict.fromkeys(by_name)) if by_name else {}
    unready = dict.fromkeys(ready, 0)
    while middles := {n: (unready[n] + x.batch_id) // 2 for n, x in ready.items() if x.batch_id - unready[n] > 1}:
        found = reads.landed_upto_each(middles)
        for name, middle in middles.items():
            one = found.get(name)
            if one is None or one.batch_id <= unready[name] or not _has_passed(*by_name[name], one):
                unready[name] = middle
            else:
                ready[name] = one
    return {name: one.landed_ms for name, one in ready.items()}


def _has_passed(pipeline: Pipeline, instant_ms: int, landed: Landed) -> bool:
    low = watermark.global_watermark(watermark.watermarks(pipeline.windows, landed.facts))
    return low is not None and low >= instant_ms
