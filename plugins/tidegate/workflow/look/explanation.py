"""Where one window stands and what to do next, for people. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.core.base.instants import iso
from tidegate.core.base.wording import first_line, many
from tidegate.core.completeness.rules import remedy
from tidegate.core.deliver import units
from tidegate.core.deliver.due import of_window_in_words
from tidegate.core.deliver.states import WANTED, Delivered, Due
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.late.reopen import over_budget
from tidegate.core.look import concerns as rules
from tidegate.core.look import overdue
from tidegate.core.look.concerns import stuck_batch, unblocking
from tidegate.core.look.overdue import backfill, finishing
from tidegate.core.look.port import LedgerReads
from tidegate.core.look.status import PipelineStatus, certify
from tidegate.core.look.survey import NOTHING, Survey
from tidegate.core.look.views import WindowView
from tidegate.core.publish.grounds import Grounds
from tidegate.core.replay.reread import read_by, reading_of
from tidegate.core.replay.rollback import Origin
from tidegate.core.source.port import LogState
from tidegate.core.tell.subjects import of_window
from tidegate.core.window import forecast
from tidegate.core.window.cut import time_values
from tidegate.core.window.forecast import Forecast
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import CLOSING, CURRENT, DISCARDED, OPEN, REOPEN, RETIRED, WindowKey, WindowState
from tidegate.core.window.watermark import TopicFacts
from tidegate.workflow.base.context import Context
from tidegate.workflow.completeness import ask
from tidegate.workflow.deliver import content
from tidegate.workflow.look.status import looks
from tidegate.workflow.window import turn


@dataclass(frozen=True, kw_only=True)
class BatchShare:
    """What one batch brought for the window; `partitions`: Kafka partition -> (rows, first, last offset).

    `rerouted` of the rows belong to earlier windows, which were not open any more when the batch was planned.
    `sources`: of a redrive, the batches whose dirty rows these were. `taken_up` of the late rows are in the generation
    in force since a reopening."""

    batch_id: int
    landed_ms: int | None
    rows: int
    late: int
    partitions: dict[int, tuple[int, int, int]]
    sources: tuple[int, ...] = ()
    rerouted: int = 0
    taken_up: int = 0


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """`now` is a certificate made from today's ledger, `stored` the one that was acted on. `waits_for` are batches;
    `forecast` says when a blocked window is expected, `grounds` what the generation in force rests on."""

    pipeline: str
    window: WindowKey
    partition: str
    state: WindowState
    summary: str
    next_step: str
    published: bool
    now: Certificate
    stored: Certificate | None
    waits_for: tuple[int, ...]
    shares: tuple[BatchShare, ...]
    view: WindowView
    forecast: Forecast | None = None
    grounds: Grounds | None = None
    deliveries: tuple[Reached, ...] = ()

    @property
    def read_again(self) -> int | None:
        """The generation whose reading of a table the rows in force are of; None: the first one, as `grounds` is."""
        current = next((g for g in self.view.generations if g.state == CURRENT), None)
        return None if current is None else reading_of(self.view.generations, current.number)


@dataclass(frozen=True)
class Reached:
    """What stands of the window in a further system; `said` in words. `held_by`: batches of side tables that it waits
    for there (D11), with the `next_step` then."""

    name: str
    said: str
    row: Delivered | None
    held_by: tuple[tuple[str, int], ...] = ()
    next_step: str = ""


def explain(
    ctx: Context, reads: LedgerReads, key: WindowKey, topic: LogState | None = None, view: WindowView | None = None
) -> Explanation:
    """`topic`: what Kafka has said; None where it was not asked, or gave no answer. `view`: the window, where it has
    been read already. Raises LedgerError."""
    name, now_ms = ctx.name, ctx.clock.now_ms()
    view = view or reads.window(name, key)
    topics = {} if topic is None else {name: (topic, now_ms)}
    status = looks([ctx.pipeline], topics, reads, now_ms)[name]
    survey = status.survey or NOTHING
    certificate = certify(ctx.pipeline, survey, key, status.lag, now_ms)
    if view.window is None:
        certificate = turn.in_turn(ctx.ledger, ctx.pipeline.windows, certificate)
        certificate = ask.as_known(ask.counts_of(ctx), certificate)
    expected = forecast_of(ctx, certificate, survey.facts) if view.window is None else None
    waits_for = _waits_for(survey, view)
    summary, step = _words(ctx, status, view, certificate, waits_for, expected)
    values = time_values(key.start_ms, ctx.pipeline.time_partitions, ctx.pipeline.windows.timezone)
    return Explanation(
        pipeline=name,
        window=key,
        partition="/".join(f"{column}={value}" for column, value in values),
        state=view.window.state if view.window is not None else OPEN,
        summary=summary,
        next_step=step,
        published=any(g.state == CURRENT for g in view.generations),
        now=certificate,
        stored=ctx.ledger.windows.certificate(name, key),
        waits_for=waits_for,
        shares=_shares(view),
        view=view,
        forecast=expected,
        grounds=_grounds(ctx, view, key),
        deliveries=_deliveries(ctx, view, key),
    )


def forecast_of(ctx: Context, certificate: Certificate, facts: TopicFacts) -> Forecast | None:
    """When the window of this certificate, made of `facts`, is expected to be ready; None if no partition blocks it."""
    if certificate.ready or not certificate.blockers:
        return None
    before = ctx.ledger.windows.earlier_facts(ctx.name)
    return forecast.forecast(ctx.pipeline.windows, facts, before, certificate, ctx.clock.now_ms())


def _grounds(ctx: Context, view: WindowView, key: WindowKey) -> Grounds | None:
    current = next((g for g in view.generations if g.state == CURRENT), None)
    if current is None:
        return None
    return ctx.ledger.windows.grounds(ctx.name, key, current.batches, current.late)


def _deliveries(ctx: Context, view: WindowView, key: WindowKey) -> tuple[Reached, ...]:
    current = next((g.number for g in view.generations if g.state == CURRENT), None)
    if current is None:
        return ()
    return tuple(_reached(ctx, one.name, key, current) for one in ctx.pipeline.deliver if not one.side)


def _reached(ctx: Context, delivery: str, key: WindowKey, current: int) -> Reached:
    row = ctx.ledger.deliveries.get(ctx.name, delivery, key.start_ms)
    said = of_window_in_words(row, current)
    if row is not None and row.generation == current and row.state not in WANTED:
        return Reached(delivery, said, row)
    due = Due(window_ms=key.start_ms, generation=current, published_ms=0, row=row)
    held = tuple(content.held_by(ctx, delivery, due))
    if not held:
        return Reached(delivery, said, row)
    said = "; ".join([said, units.held_in_words(delivery, held), *_refused(ctx, delivery, held)])
    return Reached(delivery, said, row, held, units.held_way_on(ctx.name, delivery, held))


def _refused(ctx: Context, delivery: str, held: units.HeldBy) -> Iterator[str]:
    """Why the first of these batches does not get on by itself."""
    side, batch_id = held[0]
    name = units.name_of(units.base_of(delivery), side)
    row = ctx.ledger.deliveries.get(ctx.name, name, batch_id)
    if row is not None and row.why:
        yield f"{row.unit} is {row.state} for {name}: {row.why}"


def _waits_for(survey: Survey, view: WindowView) -> tuple[int, ...]:
    """Batches that must land before a closing window is closed."""
    batch, window = survey.open_batch, view.window
    if window is None or window.state != CLOSING or batch is None or batch.batch_id >= window.closing_batch:
        return ()
    return (batch.batch_id,)


def _shares(view: WindowView) -> tuple[BatchShare, ...]:
    landed = {b.batch_id: b.landed_ms for b in view.batches}
    sources = {b.batch_id: b.sources for b in view.batches}
    shares = []
    for batch_id in sorted({t.batch_id for t in view.totals}):
        mine = [t for t in view.totals if t.batch_id == batch_id]
        data = {t.partition: (t.rows, t.min_offset, t.max_offset) for t in mine if t.kind == DATA}
        late = sum(t.rows for t in mine if t.kind == LATE)
        rows, rerouted = sum(r for r, _, _ in data.values()), sum(t.rerouted for t in mine)
        taken_up = late if any(g.took_up(batch_id) for g in view.generations) else 0
        shares.append(
            BatchShare(
                batch_id=batch_id,
                landed_ms=landed.get(batch_id),
                rows=rows,
                late=late,
                partitions=data,
                sources=sources.get(batch_id, ()),
                rerouted=rerouted,
                taken_up=taken_up,
            )
        )
    return tuple(shares)


def _words(
    ctx: Context,
    status: PipelineStatus,
    view: WindowView,
    now: Certificate,
    waits_for: tuple[int, ...],
    expected: Forecast | None,
) -> tuple[str, str]:
    """(where it stands, what to do next)."""
    name, key = ctx.name, now.window
    if view.window is not None and view.window.blocked:
        words = f"blocked by an alarm: {first_line(view.window.blocked)}"
        return words, unblocking(name, of_window(key.start_ms))
    current = next((g for g in view.generations if g.state == CURRENT), None)
    working = [g for g in view.generations if g.state not in (CURRENT, RETIRED, DISCARDED)]
    late = sum(t.rows for t in view.totals if t.kind == LATE)
    if current is not None:
        rows = current.rows or 0
        words = f"published: generation {current.number} ({current.kind}), {many(rows, 'row')}"
        if current.origin is not None:
            told = Origin(current.origin, current.why or "")
            words = f"published: generation {current.number}, {rows:,} {told.words()}"
        again = read_by(view.generations, current.number)
        if again is not None:
            words += f"; generation {again.number} is a {again.why or 'second reading of the table, another snapshot'}"
        if working:
            words += f"; generation {working[-1].number} ({working[-1].kind}) is {working[-1].state}"
            step = f"nothing if its run is at work; otherwise: {finishing(name, key.start_ms, working[-1].kind)}"
            return words, step
        taken_up = sum(t.rows for t in view.totals if t.kind == LATE and current.took_up(t.batch_id))
        if taken_up:
            words += f", of which {taken_up:,} came late and were taken up"
        rows_of = ctx.kind.title if ctx.kind.traits.rereadable else "its files"
        step = f"nothing; to rebuild it from {rows_of}: {backfill(name, key, key).replace('.archive', '.replay')}"
        if late > taken_up:
            words += f"; rows that came late ({late - taken_up:,}) are in {ctx.pipeline.sink.table}__late"
            step += _take_up(ctx, key)
        return words, step
    if key.end_ms <= ctx.pipeline.windows.start_ms and view.window is None:
        words = f"it ends before windows.start ({iso(ctx.pipeline.windows.start_ms)}): nothing belongs here"
        return words + (f"; rows that came late ({late:,}) are in {ctx.pipeline.sink.table}__late" if late else ""), (
            "nothing"
        )
    survey = status.survey or NOTHING
    run, closing = overdue.run(name, survey.note, key), rules.closing_step(status, key)
    if waits_for:
        return f"closing, waits for batch {', '.join(map(str, waits_for))}, which was planned before", closing
    if working:
        return f"closed, generation {working[-1].number} is {working[-1].state}", closing
    if view.window is not None:
        return f"{view.window.state.lower()}, not published", run
    if now.ready:
        newest = max((b.landed_ms for b in view.batches if b.landed_ms is not None), default=None)
        ended = survey.note is not None and key.start_ms in survey.note.ended
        soon = not ended and overdue.just_now(newest, survey.note, status.now_ms)
        return "ready, but no run has published it", overdue.by_itself(run) if soon else run
    if now.blockers:
        when = f"; {expected.text()}" if expected is not None else ""
        blockers = len(now.blockers)
        who = (
            f"blocked by {now.reason}"
            if blockers == 1
            else f"blocked by {blockers} of {len(now.partitions)}: {now.reason}"
        )
        return f"{who}{when}", rules.step(status, now)
    if now.after is not None:
        oldest = next(iter(status.due), now.after)
        return f"not ready: {now.reason}", f"`tidegate explain {name} {iso(oldest.start_ms)}` says what that waits for"
    if now.completeness is not None and now.completeness.asked_ms is None:
        return f"not ready: {now.reason}", f"its archive run asks: {run}"
    if now.completeness is not None:
        return f"not ready: {now.reason}", f"to publish it as it is: {remedy(name, key.start_ms)}"
    return f"not ready: {now.reason}", stuck_batch(name, survey.blocks, survey.open_batch) or (
        f"look at the runs of {name}.ingest"
    )


def _take_up(ctx: Context, key: WindowKey) -> str:
    """How late rows that wait come into the window, if they can."""
    found = ctx.ledger.reopenings.candidates(ctx.name, key.start_ms) if ctx.pipeline.kafka_columns else []
    if not found:
        return ""
    over = over_budget(found[0], key.end_ms, ctx.pipeline.reopening, ctx.clock.now_ms())
    if not over:
        return f"; to take the late rows up: {finishing(ctx.name, key.start_ms, REOPEN)}"
    words = f"; to take the late rows up although they are over the budget: {'; '.join(over)}"
    return f"{words}: {finishing(ctx.name, key.start_ms, REOPEN)} --over-budget --why '...'"
