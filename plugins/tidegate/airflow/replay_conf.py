"""Work that the conf of a `<pipeline>.replay` run asks for, from the board or a manual trigger."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from logging import Logger
from typing import TYPE_CHECKING

from airflow.utils import timezone

from tidegate.airflow.task import PipelineOperator, report, window_of
from tidegate.airflow.timetable import to_ms
from tidegate.core.base.errors import AskedWrong, NotReady, ReplayRefused, TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.replay.request import REOPEN, REPLAY, REREAD, ROLLBACK, Asked, asked
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.states import WindowKey

if TYPE_CHECKING:
    from airflow.utils.context import Context

    from tidegate.workflow.base.context import Context as PipelineContext
    from tidegate.workflow.base.context import Published


def carry_out(task: PipelineOperator, ctx: PipelineContext, context: Context) -> None:
    """Work window by window, and announce each once it is published; a refused window holds up no other. Raises
    AskedWrong for a conf that names nothing that exists."""
    it = of_run(task.pipeline, context, to_ms(timezone.utcnow()))
    task.about = _about(it)
    task.log.info("%s", words(it))
    if it.do == REPLAY and len(it.windows) > 1:
        _range(ctx, it, lambda published: report(task, ctx, published, context), task.log)
        return
    for published in _each(ctx, it, task.log.error):
        report(task, ctx, published, context)


def of_run(pipeline: Pipeline, context: Context, now_ms: int) -> Asked:
    """The request of a run. Raises AskedWrong; SpecError where the run's data interval counts and is not a window."""
    conf = getattr(context["dag_run"], "conf", None) or {}
    names_windows = isinstance(conf, dict) and bool({"window", "from", "until"} & conf.keys())
    own = None if names_windows else window_of(pipeline, context)
    found = asked(conf, pipeline.windows, own)
    if found.windows[0].start_ms > now_ms or (own is not None and own.end_ms > now_ms):
        raise AskedWrong(
            f"{pipeline.name}: the window {iso(found.windows[0].start_ms)} is not over yet",
            advice="a run without a window in its conf means the one that its logical date lies in: trigger a new run "
            'with that date, or with the conf {"window": "2013-01-05T04:00Z"}',
        )
    return found


def words(it: Asked) -> str:
    """The request in words for the log; claims of the conf are quoted as such."""
    first, last = iso(it.windows[0].start_ms), iso(it.windows[-1].start_ms)
    which = first if len(it.windows) == 1 else f"{many(len(it.windows), 'window')}, {first} to {last}"
    to = "" if it.generation is None else f" to generation {it.generation}"
    return f"asked to {it.do} {which}{to}; by (so the conf says): {it.by or 'not said'}; why: {it.why or 'not said'}"


def _about(it: Asked) -> str:
    """Subject of a failed try's last line: not the run's own date, which may be that of its trigger."""
    first, last = iso(it.windows[0].start_ms), iso(it.windows[-1].start_ms)
    return f"window {first}" if len(it.windows) == 1 else f"windows {first} to {last}"


def _step(it: Asked) -> Callable[[PipelineContext, WindowKey], Published]:
    if it.do == REOPEN:
        from tidegate.workflow.late import reopen

        return lambda ctx, key: reopen.reopen(ctx, key, it.why, it.over_budget)
    if it.do == ROLLBACK:
        from tidegate.workflow.replay import rollback

        return lambda ctx, key: rollback.rollback(ctx, key, it.generation, it.why)
    if it.do == REREAD:
        from tidegate.workflow.replay import reread

        return reread.read_again
    from tidegate.workflow.replay import replay

    return lambda ctx, key: replay.replay(ctx, key)


def _each(ctx: PipelineContext, it: Asked, say: Callable[..., None]) -> Iterable[Published]:
    """Work on each window. Raises at once an error that stops every window; refusals after the last window.

    Of a range that is reopened, windows that were never published have nothing to take up."""
    step, refused = _step(it), list[TidegateError]()
    windows = it.windows
    if it.do == REOPEN and len(windows) > 1:
        published = ctx.ledger.windows.published_starts(ctx.name)
        windows = tuple(key for key in windows if key.start_ms in published)
    for key in windows:
        try:
            yield step(ctx, key)
        except TidegateError as e:
            if len(it.windows) == 1 or (e.retry and not isinstance(e, NotReady)):
                raise
            say("%s: %s", iso(key.start_ms), e)
            refused.append(e)
    if refused:
        raise next((e for e in refused if e.retry), refused[0])


def _range(ctx: PipelineContext, it: Asked, told: Callable[[Published], None], log: Logger) -> None:
    """Replay windows by one reading of Kafka. Skips those that a replay by today's spec has rebuilt, so that the next
    try goes on where this one ended. Raises ReplayRefused, NotReady where a retry can help."""
    from tidegate.workflow.base.outcome import REFUSED, Outcome
    from tidegate.workflow.replay import replay

    def hear(found: Outcome) -> None:
        log.info("%s: %s%s", iso(found.window.start_ms), found.what, f": {found.why}" if found.why else "")
        if found.published is not None:
            told(found.published)

    outcomes = replay.replay_range(ctx, it.windows, told=hear)
    bad = [o for o in outcomes if not o.well]
    if not bad:
        return
    first = next((o for o in bad if o.what != REFUSED), bad[0])
    what = (
        f"{len(bad):,} of {len(outcomes):,} windows are not rebuilt, {iso(first.window.start_ms)} for one: {first.why}"
    )
    raise (ReplayRefused if first.what == REFUSED else NotReady)(what, advice=first.advice)
