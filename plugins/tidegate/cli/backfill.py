"""`tidegate backfill`: publish or rebuild a range of windows by the scheduler's own runs."""

from __future__ import annotations

import time
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.airflow_library import airflow_library
from tidegate.cli.failures import CANNOT_TELL, INTERRUPTED, NOT_WELL, WELL, Failed
from tidegate.cli.output import json_option, print_json, progress
from tidegate.cli.wait import DurationType
from tidegate.cli.windows import last_option, parse_range
from tidegate.core.base.errors import LedgerError
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import those
from tidegate.core.publish.backfill import unfinished_mark

if TYPE_CHECKING:
    from tidegate.airflow.backfill.range_runs import RangeRuns
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.core.window.states import WindowKey
    from tidegate.workflow.base.context import Context
    from tidegate.workflow.publish.backfill import Asked, Progress

STILL_S = 30.0
"""Seconds without progress after which the command says who holds the pool."""
PATIENCE_S = 600.0
"""Seconds that the ledger and Airflow's database may be silent while runs are at work."""


@click.command()
@surroundings.pipeline_argument
@click.option("-s", "--start", "first", required=True, metavar="WINDOW", help="The first window.")
@last_option
@click.option("--replay", is_flag=True, help="Rebuild windows that are published, as new generations.")
@click.option(
    "--at-once", type=click.IntRange(1), metavar="N", help="Runs at a time.  [default: half of what there is]"
)
@click.option("--newest-first", is_flag=True, help="Begin with the newest window.")
@click.option("--stop-on-failure", is_flag=True, help="Begin nothing more once a window has failed.")
@click.option("--wait", "wait_ms", type=DurationType(), default="0", help="Wait so long for windows to become ready.")
@click.option("--fresh", is_flag=True, help="With --replay: don't go on with one that was interrupted, begin anew.")
@click.option("--unpause", is_flag=True, help="Unpause the DAG first.")
@click.option("--dry-run", is_flag=True, help="Show what would be done with each window, and change nothing.")
@click.option("--poll", "poll_ms", type=DurationType(), default="5s", show_default=True, help="How often to look.")
@json_option
def backfill(
    pipeline: str,
    first: str,
    last: str | None,
    replay: bool,
    at_once: int | None,
    newest_first: bool,
    stop_on_failure: bool,
    wait_ms: int,
    fresh: bool,
    unpause: bool,
    dry_run: bool,
    poll_ms: int,
    as_json: bool,
) -> None:
    """Publish all windows of a range, or rebuild them, by runs of Airflow's scheduler; watch until they have ended.

    WINDOW is an instant in it, its partition or its id. The command leaves a published window alone, clears one whose
    run has ended without a publication, makes a run for one without, and waits for one that is being published.
    It takes as many runs at a time as leave room for the schedule, and they are the scheduler's: if this command
    ends, they go on, and the same command continues with the rest. If twenty or more windows are ready and have
    no run, the task catch_up of <pipeline>.maintain publishes them and makes their runs (not with --replay,
    --at-once, --newest-first, --stop-on-failure, or while that DAG is paused).

    It runs where Airflow is installed, with its scheduler's database. `airflow dags backfill` still works:
    docs/scheduling.md has the differences.

    \b
    Examples:
      tidegate backfill flights -s 2013-01-05T00:00Z -e 2013-01-05T23:00Z --dry-run
      tidegate backfill flights -s 2013-01-01 -e 2013-01-31T23:00
      tidegate backfill flights -s 2013-01-01 -e 2013-01-07T23:00 --replay --at-once 2

    \b
    Exit code: 0 every window of the range is published (with --replay: rebuilt); 1 one is not, or the DAG is paused;
    2 wrong usage, or no Airflow is installed here; 3 the ledger or Airflow's database gives no answer, or no scheduler
    is alive; 130 Ctrl-C, and windows are left. A dry run ends with 0 if all windows could be done.
    """
    from tidegate.workflow.publish.backfill import Asked, look

    if fresh and not replay:
        raise click.UsageError("--fresh needs --replay: a window that is published is never published again")
    spec = surroundings.pipeline_named(pipeline)
    if newest_first and spec.windows.follows:
        raise click.UsageError(
            f"--newest-first: each window of {pipeline} is built on the one before it; the oldest goes first"
        )
    keys = parse_range(spec, first, last)
    with airflow_library("backfill"), surroundings.ledger() as ledger, redirect_stdout(click.get_text_stream("stderr")):
        ctx = surroundings.context(spec, ledger, progress)
        runs = _runs(spec, replay)
        runs.settles = not dry_run
        mark, note = _mark_and_note(keys, runs, replay, fresh)
        asked = Asked(keys, note, mark, at_once, newest_first, stop_on_failure)
        if dry_run:
            found, interrupted = look(ctx, runs, asked, set()), False
        else:
            _check_ground(runs, unpause)
            found, interrupted = _run(ctx, runs, asked, max(poll_ms / 1000, 0.05), wait_ms / 1000)
    _tell(spec, runs, asked, found, dry_run, as_json)
    well = not any(found.counts.get(one) for one in ("not ready", "not published")) if dry_run else found.done
    raise SystemExit(WELL if well else INTERRUPTED if interrupted else NOT_WELL)


# ---------------------------------------------------------------- Airflow


def _runs(spec: Pipeline, replay: bool) -> RangeRuns:
    from tidegate.airflow.backfill.range_runs import RangeRuns

    return RangeRuns(f"{spec.name}.{'replay' if replay else 'archive'}", [spec.archive.pool])


def _mark_and_note(keys: tuple[WindowKey, ...], runs: RangeRuns, replay: bool, fresh: bool) -> tuple[str | None, str]:
    """Of the runs' notes: with --replay the mark of the backfill that it continues, or of a new one; and all of it."""
    from tidegate.airflow.backfill.range_runs import OURS

    now_ms = time.time_ns() // 1_000_000  # two may begin in one second
    what = f"{OURS} {iso(keys[0].start_ms)} to {iso(keys[-1].start_ms)}"
    mark = None
    if replay:
        prefix = f"{what} --replay, begun "
        old = None if fresh else unfinished_mark(runs.look(keys), keys, prefix)
        if old is not None:
            progress(f"going on with the replay {old.removeprefix(prefix)}; --fresh begins anew")
        mark = old or f"{prefix}{iso(now_ms)}"
    return mark, f"{mark or f'{what}, begun {iso(now_ms)}'} by {surroundings.actor().rpartition(' ')[2]}"


def _check_ground(runs: RangeRuns, unpause: bool) -> None:
    """Check that Airflow would carry on with new runs, and unpause the DAG on demand. Raises Failed."""
    ground = runs.ground()
    if ground.unknown:
        raise Failed(
            f"Airflow has no DAG {runs.dag_id}\n"
            "  what to do: `airflow dags list-import-errors` says why; a new YAML is seen by the next parse",
            NOT_WELL,
        )
    if ground.missing_pools:
        raise Failed(
            f"there is no pool {ground.missing_pools[0]}: the tasks of {runs.dag_id} would wait forever\n"
            "  what to do: tidegate doctor --fix, or in the UI under Admin, Pools",
            NOT_WELL,
        )
    if not ground.scheduler:
        raise Failed(
            "no scheduler of this Airflow is alive: nothing would run\n"
            "  what to do: start it; or `airflow dags backfill`, which runs tasks by itself",
            CANNOT_TELL,
        )
    if ground.paused and not unpause:
        raise Failed(
            f"{runs.dag_id} is paused: the scheduler would not touch its runs\n"
            f"  what to do: the same command with --unpause, or airflow dags unpause {runs.dag_id}",
            NOT_WELL,
        )
    if ground.paused:
        runs.unpause()


# ---------------------------------------------------------------- the work


def _run(ctx: Context, runs: RangeRuns, asked: Asked, poll_s: float, wait_s: float) -> tuple[Progress, bool]:
    """Work until nothing moves any more, or Ctrl-C; `wait_s` for windows that are not ready. Returns the last look, and
    whether it was Ctrl-C."""
    from sqlalchemy.exc import OperationalError

    from tidegate.cli.backfill_report import shown
    from tidegate.workflow.publish.backfill import advance, look

    tried: set[int] = set()
    still = _Still()
    found, answered, give_up = look(ctx, runs, asked, tried), time.monotonic(), time.monotonic() + wait_s
    with shown(runs.dag_id, asked) as show:
        try:
            while True:
                try:
                    found = advance(ctx, runs, asked, tried)
                    answered = time.monotonic()
                    show(found, _hindrance(runs, still.stands(found)))
                except (LedgerError, OperationalError) as e:
                    if time.monotonic() - answered > PATIENCE_S or (isinstance(e, LedgerError) and not e.retry):
                        raise
                    progress(f"no answer, trying again: {str(e).splitlines()[0]}")
                stopped = asked.stop_on_failure and bool(found.counts.get("failed"))
                waiting = not found.done and not stopped and time.monotonic() < give_up
                if not found.moving(asked.stop_on_failure) and not (waiting and found.counts.get("not ready")):
                    return found, False
                time.sleep(poll_s)
        except KeyboardInterrupt:
            left = found.counts.get("working", 0)
            progress(f"interrupted: {those(left, 'run', 'go')} on in Airflow; the same command goes on with the rest")
            return found, True


class _Still:
    """Notices that no window has been finished for a while."""

    def __init__(self) -> None:
        self._done, self._since = -1, time.monotonic()

    def stands(self, found: Progress) -> bool:
        """Whether none has been finished for STILL_S."""
        done = found.counts.get("done", 0)
        if done != self._done:
            self._done, self._since = done, time.monotonic()
        return time.monotonic() - self._since >= STILL_S


def _hindrance(runs: RangeRuns, stands: bool) -> str:
    """Why no run goes on, in words; empty where one does. `stands`: also look for who holds the pool."""
    ground = runs.ground()
    if ground.unknown:
        return f"Airflow has no DAG {runs.dag_id} any more: `airflow dags list-import-errors` says why"
    if ground.missing_pools:
        return f"there is no pool {ground.missing_pools[0]}: its runs wait until there is one"
    if ground.paused:
        return f"{runs.dag_id} is paused: its runs wait until it is unpaused"
    if stands and ground.full:
        return f"{ground.full}: its runs wait for a slot"
    return "" if ground.scheduler else "no scheduler has given a sign for a minute: runs wait until one does"


# ---------------------------------------------------------------- what it says


def _tell(spec: Pipeline, runs: RangeRuns, asked: Asked, found: Progress, dry_run: bool, as_json: bool) -> None:
    from tidegate.cli.backfill_report import dry_lines, summary

    if as_json:
        windows = [
            {"start_ms": line.key.start_ms, "is": line.verdict, "run_id": line.run.run_id if line.run else None}
            for line in found.lines
        ]
        print_json({
            "pipeline": spec.name, "dag_id": runs.dag_id, "dry_run": dry_run, "done": found.done,
            "first_ms": asked.keys[0].start_ms, "last_ms": asked.keys[-1].start_ms,
            "counts": found.counts, "windows": windows,
        })  # fmt: skip
        return
    for line in dry_lines(found, asked) if dry_run else summary(found, asked, spec.name, runs):
        click.echo(line)
