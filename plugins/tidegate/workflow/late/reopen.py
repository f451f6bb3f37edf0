"""Reopen a published window: one new generation takes up all late rows that wait for it, within the spec's budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.core.base.errors import LedgerError, LostComparison, NotReady, OverBudget, SpecError, TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many, those
from tidegate.core.late import reopen as reopening
from tidegate.core.late.reopen import Choice, is_abandoned
from tidegate.core.look.overdue import backfill
from tidegate.core.window.cut import window_from
from tidegate.core.window.states import REOPEN, PublishedGeneration, WindowKey
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import ATTEMPTS, Context, Published, guard
from tidegate.workflow.base.outcome import FAILED, LEFT, Outcome, first_line, not_done
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.base.turn import Turn
from tidegate.workflow.batch import landing
from tidegate.workflow.publish import archive
from tidegate.workflow.window.unfinished import in_the_way

MOST = 3
"""Windows that one run of the maintenance DAG reopens; the next run goes on."""

AGAIN = "the same command goes on with the rest"
REOPENED, IDLE = "reopened", "without late rows"
"""What became of a window of a range, beside what `outcome` has. IDLE: no late rows wait for it; it was left alone."""

SILENT_AT_MOST = 3
"""So many windows in a row may fail because Hive or storage gives no answer: each of them costs a time-out."""


def preview(ctx: Context, window: WindowKey) -> Choice:
    """Looks only. Raises SpecError, NotReady."""
    _refuse_spec(ctx)
    state = ctx.ledger.windows.get(ctx.name, window)
    if state.current is None:
        never = window.end_ms <= ctx.pipeline.windows.start_ms
        raise NotReady(
            f"{ctx.name} {iso(window.start_ms)} "
            + ("ends before windows.start" if never else "was never published")
            + ": there is nothing to reopen",
            advice=f"late rows of it stay where they are: query {ctx.pipeline.sink.table}__late"
            if never
            else f"publish it first: {backfill(ctx.name, window, window)}",
        )
    found = ctx.ledger.reopenings.candidates(ctx.name, window.start_ms)
    if not found:
        return Choice(window, None)
    return reopening.choice(ctx.pipeline.windows, found[0], ctx.pipeline.reopening, ctx.clock.now_ms())


def waiting(ctx: Context) -> list[Choice]:
    """Every window for which late rows wait, oldest first; also those that were never published. Looks only."""
    windows, budget, now_ms = ctx.pipeline.windows, ctx.pipeline.reopening, ctx.clock.now_ms()
    return [reopening.choice(windows, late, budget, now_ms) for late in ctx.ledger.reopenings.candidates(ctx.name)]


def preview_range(ctx: Context, windows: Sequence[WindowKey]) -> list[Choice]:
    """Choices for those of the windows for which late rows wait, oldest first. Looks only. Raises SpecError."""
    _refuse_spec(ctx)
    asked = set(windows)
    return [choice for choice in waiting(ctx) if choice.window in asked]


def reopen(ctx: Context, window: WindowKey, why: str = "", over_budget: bool = False) -> Published:
    """Publish the window's next generation with the late rows that wait; what an earlier try began is gone on with.

    Its `new` is False if no late rows wait. Raises OverBudget unless `over_budget`; NotReady for a window that was
    never published, or whose late rows are not in their table yet; ReplayRefused where the rows cannot be proved to be
    what they were; what a publication raises."""
    guard(ctx)
    _refuse_spec(ctx)
    preflight.check_publications(ctx)
    return _alone(ctx, window, why, over_budget)


def reopen_range(
    ctx: Context,
    windows: Sequence[WindowKey],
    why: str = "",
    over_budget: bool = False,
    *,
    stop_on_failure: bool = False,
    told: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Reopen those of the windows for which late rows wait, one after the other; what became of each, in order.

    `told` hears of each window as soon as it is known. A window that is refused or fails stops no other, unless
    `stop_on_failure`; a ledger that gives no answer stops the rest, and so do Hive or storage that gave none for
    SILENT_AT_MOST windows in a row. The same range, asked for again, goes on with the rest. Raises SpecError,
    StorageAhead, LedgerError before the first window."""
    guard(ctx)
    _refuse_spec(ctx)
    preflight.check_publications(ctx)
    wanted = {choice.window.start_ms for choice in preview_range(ctx, windows)}
    found: list[Outcome] = []
    stopped: Outcome | None = None  # by this one
    silent = 0
    for key in windows:
        if key.start_ms not in wanted:
            outcome = Outcome(key, IDLE)
        elif stopped is not None:
            outcome = Outcome(key, LEFT, why=f"not begun: {stopped.why}", advice=AGAIN, silent=stopped.silent)
        else:
            outcome, down = _outcome(ctx, key, why, over_budget)
            silent = silent + 1 if outcome.silent else 0
            if down or silent == SILENT_AT_MOST or (stop_on_failure and not outcome.well):
                stopped = outcome
        found.append(outcome)
        told(outcome)
    return found


def _outcome(ctx: Context, key: WindowKey, why: str, over_budget: bool) -> tuple[Outcome, bool]:
    """What became of it, and whether the ledger gives no answer."""
    try:
        published = _alone(ctx, key, why, over_budget)
    except LostComparison as e:
        return Outcome(key, FAILED, why=first_line(e), advice=e.advice or AGAIN), False
    except LedgerError as e:
        return Outcome(key, FAILED, why=first_line(e), advice=e.advice or AGAIN, silent=True), True
    except TidegateError as e:
        return not_done(key, e), False
    return Outcome(key, REOPENED if published.new else IDLE, published), False


def _alone(ctx: Context, window: WindowKey, why: str, over_budget: bool) -> Published:
    turn = Turn(ctx, window)
    for _ in range(ATTEMPTS):
        try:
            published = _reopen_once(ctx, window, why, over_budget)
        except (MovedOn, LostComparison):
            turn.give_way()
            continue
        landing.finish_side_duties(ctx)
        return published
    raise LostComparison(f"{ctx.name} {iso(window.start_ms)}: another task keeps working on this window")


def by_itself(ctx: Context) -> list[str]:
    """What the spec's `late.reopen_after` asks for, the oldest windows first, at most MOST; what was done, in words.

    Before that, whatever the spec says by now, reopenings that somebody began and did not finish. What one window is
    refused for holds up no other duty."""
    budget, now_ms = ctx.pipeline.reopening, ctx.clock.now_ms()
    done = _gone_on_with(ctx)
    if budget.after_ms is None or not ctx.pipeline.kafka_columns:
        return done
    # what is too old is not even looked for; a local day may have 25 hours
    since_ms = None if budget.age_ms is None else now_ms - budget.age_ms - 2 * ctx.pipeline.windows.size_ms
    for late in ctx.ledger.reopenings.candidates(ctx.name, since_ms=since_ms):
        key = window_from(late.start_ms, ctx.pipeline.windows)
        if not reopening.is_due(late, budget, now_ms) or reopening.over_budget(late, key.end_ms, budget, now_ms):
            continue
        if len(done) >= MOST:
            break
        try:
            published = reopen(ctx, key, "late.reopen_after")
        except TidegateError as e:
            done.append(f"{iso(key.start_ms)} could not be reopened: {e}")
            if e.retry:
                break  # what is down costs each window its time-out: the rest waits for the next run
            continue
        done.append(
            f"{iso(key.start_ms)} was reopened as generation {published.generation}: {many(published.rows, 'row')}"
        )
    return done


def _gone_on_with(ctx: Context) -> list[str]:
    done: list[str] = []
    left = [one for one in ctx.ledger.reopenings.unfinished(ctx.name) if is_abandoned(one, ctx.ledger.now_ms())]
    for one in left[:MOST]:
        key = window_from(one.start_ms, ctx.pipeline.windows)
        try:
            preflight.check_publications(ctx)
            published = archive.finish(ctx, ctx.ledger.windows.generation(ctx.name, key, one.number))
            landing.finish_side_duties(ctx)
        except (MovedOn, LostComparison):
            continue  # somebody else goes on with it
        except TidegateError as e:
            done.append(f"{iso(key.start_ms)} could not be reopened: {e}")
            if e.retry:
                break
            continue
        done.append(f"{iso(key.start_ms)} was reopened as generation {one.number}: {many(published.rows, 'row')}")
    return done


def _reopen_once(ctx: Context, key: WindowKey, why: str, over_budget: bool) -> Published:
    choice = preview(ctx, key)
    window = ctx.ledger.windows.get(ctx.name, key)
    newest = ctx.ledger.windows.generation(ctx.name, key, window.newest)
    if not isinstance(newest, PublishedGeneration):
        if newest.kind == REOPEN:
            return archive.finish(ctx, newest)
        raise in_the_way(newest, "reopen the window")
    if choice.late is None:
        return archive.standing(ctx, newest, "no late rows wait")
    landing.finish_side_duties(ctx)
    choice = preview(ctx, key)
    if choice.late is None:
        return archive.standing(ctx, newest, "no late rows wait")
    if not choice.late.settled:
        raise NotReady(
            f"{ctx.name} {iso(key.start_ms)}: {those(choice.late.rows, 'late row')} not in the late table yet",
            advice="the lines above say why; try again once the tables' catalogue answers",
        )
    if choice.over and not over_budget:
        raise OverBudget(
            f"{ctx.name} {iso(key.start_ms)} is over its budget: {'; '.join(choice.over)}",
            advice="raise that key; or, for once: "
            f"tidegate reopen {ctx.name} {iso(key.start_ms)} --over-budget --why ...",
        )
    ctx.target.prepare()  # before the job, not after it
    number = ctx.ledger.windows.begin_generation(ctx.name, key, newest.number, REOPEN, why)
    rows = sum(b.rows for b in choice.late.settled)
    ctx.say(f"reopening {iso(key.start_ms)}: {those(rows, 'late row', 'become')} part of generation {number}")
    return archive.finish(ctx, ctx.ledger.windows.generation(ctx.name, key, number))


def _refuse_spec(ctx: Context) -> None:
    if not ctx.pipeline.kafka_columns:
        raise SpecError(
            f"{ctx.name}: its rows do not carry their Kafka offsets: a row that was taken up could not be told from a "
            "double",
            field="kafka_columns: false",
            advice="late rows stay in the late table: query it beside the table",
        )
