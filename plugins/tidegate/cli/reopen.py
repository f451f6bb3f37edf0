"""`tidegate reopen`: take late rows up into a published window, by its next generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import outcomes, surroundings
from tidegate.cli.failures import INTERRUPTED, NOT_WELL, WELL
from tidegate.cli.output import json_option, print_json, progress, why_option
from tidegate.cli.progress_bar import following
from tidegate.cli.windows import first_option, last_option, named_windows, parse_window
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many

if TYPE_CHECKING:
    from tidegate.core.late.reopen import Choice
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.core.window.states import WindowKey
    from tidegate.workflow.base.outcome import Outcome


@click.command()
@surroundings.pipeline_argument
@click.argument("window", required=False)
@first_option
@last_option
@click.option("--dry-run", is_flag=True, help="Show what would be taken up, and change nothing.")
@click.option("--stop-on-failure", is_flag=True, help="Begin no further window of the range once one has failed.")
@click.option("--over-budget", is_flag=True, help="Even if a window is over its budget (`late:`); needs --why.")
@why_option
@json_option
def reopen(
    pipeline: str,
    window: str | None,
    first: str | None,
    last: str | None,
    dry_run: bool,
    stop_on_failure: bool,
    over_budget: bool,
    why: str,
    as_json: bool,
) -> None:
    """Let a published window, or a range of them, take up the late rows that wait.

    WINDOW is an instant in it, its partition or its id; without one, windows with late rows are listed.

    The next generation holds the rows of the one in force and all late rows that wait, proved row by row; then the
    late rows leave the late table. Rows come from the files, so that Kafka's retention does not matter. One reopening
    makes one generation, for any number of rows.

    The command reopens the windows of a range one after the other, the oldest first, and leaves those without late rows
    alone. A refused window stops no other; a ledger, Hive or storage that gives no answer stops the rest.

    After a death or Ctrl-C this command continues, and so does clearing the window's publish task.
    DAGs that are scheduled by the table hear of the new generation by the next run of the maintenance DAG.

    \b
    Examples:
      tidegate reopen flights
      tidegate reopen flights 2013-01-26T16:00Z --dry-run
      tidegate reopen flights 2013-01-26T16:00Z --over-budget --why "the outage of airport JFK"
      tidegate reopen flights -s 2013-01-26 -e 2013-01-27T23:00 --why "the outage of airport JFK"

    \b
    Exit code: 0 done, or no late rows wait; 1 refused, over budget, or it could not be finished; 2 usage, or rows
    without offsets (kafka_columns: false); 3 the ledger or Hive gives no answer; 130 Ctrl-C. A dry run ends with 1 if
    a window would be refused.
    """
    if stop_on_failure and first is None:
        raise click.UsageError("--stop-on-failure needs a range by -s and -e")
    if over_budget and not why:
        raise click.UsageError("--over-budget needs --why: it is written to the event log")
    spec = surroundings.pipeline_named(pipeline)
    keys = named_windows(spec, window, first, last) if first or last else ()
    if keys and dry_run:
        raise SystemExit(_preview_range(spec, keys, over_budget, as_json))
    if keys:
        raise SystemExit(_run_range(spec, keys, over_budget, why, stop_on_failure, as_json))
    if window is None:
        _list(spec, as_json)
    elif dry_run:
        _preview(spec, parse_window(spec, window), over_budget, as_json)
    else:
        _run(spec, parse_window(spec, window), over_budget, why, as_json)


def _list(spec: Pipeline, as_json: bool) -> None:
    from tidegate.workflow.late import reopen as workflow

    with surroundings.looking(spec, progress) as ctx:
        found = workflow.waiting(ctx)
    if as_json:
        print_json({"pipeline": spec.name, "windows": [_told(c) for c in found]})
    elif not found:
        click.echo(f"{spec.name}: no late rows wait")
    else:
        for choice in found:
            click.echo(_words(spec, choice))


def _preview(spec: Pipeline, window: WindowKey, over_budget: bool, as_json: bool) -> None:
    from tidegate.workflow.late import reopen as workflow

    with surroundings.looking(spec, progress) as ctx:
        choice = workflow.preview(ctx, window)
    if as_json:
        print_json({"pipeline": spec.name, **_told(choice)})
    elif choice.late is None:
        click.echo(f"{spec.name}: no late rows wait for this window")
    else:
        click.echo(_words(spec, choice))
        for batch in choice.late.batches:
            left = "" if batch.settled else ", not in the late table yet"
            click.echo(f"  batch {batch.batch_id}: {many(batch.rows, 'row')}{left}")
    raise SystemExit(NOT_WELL if choice.over and not over_budget else WELL)


def _run(spec: Pipeline, window: WindowKey, over_budget: bool, why: str, as_json: bool) -> None:
    from tidegate.workflow.late import reopen as workflow

    with surroundings.working(spec, progress) as ctx:
        published = workflow.reopen(ctx, window, why, over_budget)
    outcomes.published(spec.name, published, as_json)


# ---------------------------------------------------------------- a range


def _preview_range(spec: Pipeline, keys: Sequence[WindowKey], over_budget: bool, as_json: bool) -> int:
    from tidegate.workflow.late import reopen as workflow

    with surroundings.looking(spec, progress) as ctx:
        found = workflow.preview_range(ctx, keys)
    if as_json:
        print_json({"pipeline": spec.name, "windows": [_told(c) for c in found]})
    else:
        for choice in found:
            click.echo(_words(spec, choice))
        rows = sum(c.late.rows for c in found if c.late is not None)
        click.echo(f"{many(len(keys), 'window')}: {many(rows, 'late row')} of {len(found):,} of them would be taken up")
    refused = any(c.late is None or c.late.current is None or (c.over and not over_budget) for c in found)
    return NOT_WELL if refused else WELL


def _run_range(
    spec: Pipeline, keys: Sequence[WindowKey], over_budget: bool, why: str, stop_on_failure: bool, as_json: bool
) -> int:
    from tidegate.workflow.base.outcome import LEFT, Outcome
    from tidegate.workflow.late import reopen as workflow

    found: list[Outcome] = []
    interrupted = False
    with following(f"{spec.name}: reopen", len(keys)) as seen, surroundings.working(spec, seen.say) as ctx:

        def told(o: Outcome) -> None:
            found.append(o)
            seen.next("" if o.what == workflow.IDLE else outcomes.line(o))

        try:
            workflow.reopen_range(ctx, keys, why, over_budget, stop_on_failure=stop_on_failure, told=told)
        except KeyboardInterrupt:
            interrupted = True
    found += [Outcome(key, LEFT, why="interrupted", advice=workflow.AGAIN) for key in keys[len(found) :]]
    outcomes.tell(spec.name, found, as_json)
    return INTERRUPTED if interrupted else outcomes.exit_code(found)


# ---------------------------------------------------------------- what it says


def _words(spec: Pipeline, choice: Choice) -> str:
    late = choice.late
    assert late is not None
    rows = f"{many(late.rows, 'late row')} of {many(len(late.batches), 'batch')}"
    wait = "waits" if late.rows == 1 else "wait"
    words = f"{iso(choice.window.start_ms)}: {rows} {wait} since {iso(late.waiting_since_ms // 1000 * 1000)}"
    if late.current is None and choice.window.end_ms <= spec.windows.start_ms:
        return f"{words}; it ends before windows.start: they stay in {spec.sink.table}__late"
    if late.current is None:
        return f"{words}; the window was never published"
    if late.working:
        words += "; a generation of the window is being built"
    if late.blocked:
        words += f"; blocked: {late.blocked}"
    if choice.over:
        return f"{words}; over its budget: {'; '.join(choice.over)}"
    return f"{words}; generation {late.current} is in force"


def _told(choice: Choice) -> dict[str, Any]:
    late = choice.late
    return {
        "window_start_ms": choice.window.start_ms,
        "window_end_ms": choice.window.end_ms,
        "rows": 0 if late is None else late.rows,
        "batches": [] if late is None else [{"batch_id": b.batch_id, "rows": b.rows} for b in late.batches],
        "waiting_since_ms": None if late is None else late.waiting_since_ms,
        "generation": None if late is None else late.current,
        "over_budget": list(choice.over),
    }
