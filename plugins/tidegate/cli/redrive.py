"""`tidegate redrive`: turn dirty rows into data, by a batch of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import advice, console, json_option, paragraph, print_json, progress
from tidegate.core.base.errors import BehindBatch, TidegateError
from tidegate.core.base.wording import many
from tidegate.core.dirty.redrive import Choice, IngestFacts, counted, waits_for

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.workflow.base.context import Context
    from tidegate.workflow.dirty.redrive import Redriven
    from tidegate.workflow.dirty.rehearsal import Rehearsed

_LOOK_S, _SAY_S = 3.0, 30.0
_SHOWN, _MOST_STILL = 20, 3


@click.command()
@surroundings.pipeline_argument
@click.option("--batch", "batches", type=int, multiple=True, metavar="ID", help="Only of this batch; may be repeated.")
@click.option(
    "--dry-run", is_flag=True, help="Show what would become of the rows, by field and reason; change nothing."
)
@click.option("--copies", is_flag=True,
              help="Take copies from another site, too: only where that site never returns.")  # fmt: skip
@click.option("--plan-only", is_flag=True, help="Plan it; the next run of the ingest DAG writes and lands it.")
@click.option("--wait", type=click.FloatRange(min=0), default=15.0, show_default=True, metavar="MINUTES",
              help="How long to wait for a batch that is open, in all.")  # fmt: skip
@json_option
def redrive(
    pipeline: str, batches: tuple[int, ...], dry_run: bool, copies: bool, plan_only: bool, wait: float, as_json: bool
) -> None:
    """Read dirty rows again with today's spec: rows that decode now become data.

    A redrive is a new batch. Its rows keep their Kafka coordinates and come from the dirty files, so that
    Kafka's retention does not matter. Rows of a closed window are late; rows that still do not decode
    stay dirty, in the new batch. If no row became readable, the batch is given up and nothing has changed.

    A redriven row belongs to the new batch alone, also when its window is replayed. Planned offsets, lag and
    watermarks stay where they are.

    Copies that came from another site behind the mark of a failover stay dirty: they are read there when that site is
    active again. With --copies they become data as well, and come twice if it returns.

    Only one batch of a pipeline is open at a time. If one is, this command waits, says what it waits for and what
    helps, and has its turn next: ingest runs plan nothing meanwhile, until a minute and a half after the command was
    killed.

    With --dry-run a Spark job does the same with the rows that the next redrive would take up, also beside an open
    batch; the command shows the rows that would be data, late and still dirty, and deletes the job's files.

    A run that dies leaves an open batch: this command, or the next run of the ingest DAG, continues it.

    \b
    Examples:
      tidegate dirty flights
      tidegate redrive flights --dry-run
      tidegate redrive flights --batch 12 --batch 13

    \b
    Exit code: 0 done, or nothing is dirty; 1 no row became readable (--dry-run: would become), or not done within
    --wait; 2 usage, or rows without offsets (kafka_columns: false); 3 the ledger or Hive gives no answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    wanted = sorted(set(batches)) or None
    if dry_run:
        _rehearse(spec, wanted, copies, as_json)
    elif plan_only:
        _plan(spec, wanted, copies, as_json)
    else:
        _run(spec, wanted, copies, wait, as_json)


def _rehearse(spec: Pipeline, wanted: list[int] | None, copies: bool, as_json: bool) -> None:
    from tidegate.adapters.dirty_rows import DirtyProcess
    from tidegate.workflow.dirty import rehearsal

    rows = DirtyProcess(user=spec.sink.user, secrets=surroundings.storage_secrets(spec))
    with surroundings.working(spec, progress) as ctx, rows as reader:
        found = rehearsal.rehearse(ctx, reader, wanted, copies)
    if as_json:
        told = {"rows": found.rows, "changes": found.changes, "refused": found.refused, "note": found.note}
        print_json({"pipeline": spec.name, "batches": [_told(found.choice)], **told})
    else:
        _print(spec.name, found)
    raise SystemExit(NOT_WELL if found.refused else WELL)


def _print(name: str, found: Rehearsed) -> None:
    out, chosen = console(), found.choice.chosen
    if not chosen:
        out.print(f"{name}: no row is dirty")
        return
    rows = sum(b.count for b in chosen)
    click.echo(f"{name}: a redrive would take up {many(rows, 'dirty row')} of {many(len(chosen), 'batch')}")
    paragraph(out, "gives", counted(found.rows) if found.rows else "", "bold")
    for change in found.changes[:_SHOWN]:
        others = " (the others with other values)" if change.varies else ""
        of = f"{change.readable:,} of {many(change.rows, 'row')} would be readable"
        paragraph(out, change.field or "record", f"{change.reason}{others}: {of}", "bold")
        for field, reason, left in change.still[:_MOST_STILL]:
            same = (field, reason) == (change.field, change.reason)
            why = "for the same reason" if same else f"{field or 'record'}: {reason}"
            paragraph(out, "", f"{many(left, 'row')} still dirty: {why}")
        for e in change.examples:
            kind = "readable" if change.readable else "still dirty"
            where = f"batch {e.batch_id}, partition {e.partition} offset {e.offset}"
            paragraph(out, "", f"{kind}, for example {where}: {e.raw}")
    if len(found.changes) > _SHOWN:
        paragraph(out, "more", f"{len(found.changes) - _SHOWN:,} more causes: --json has them")
    if found.note:
        paragraph(out, "note", found.note, "yellow")
    if found.choice.left:
        left = found.choice.left
        paragraph(out, "then", f"further redrives take up those of {many(len(left), 'more batch')}, from {left[0]} on")
    if found.refused:
        paragraph(out, "refused", f"a redrive would be given up: {found.refused}", "yellow")
        advice(out, "next", "fix the spec, then the same command; nothing was changed")
    else:
        advice(out, "next", f"tidegate redrive {name}; nothing was changed")


def _told(found: Choice) -> dict:
    chosen = [{"batch_id": b.batch_id, "rows": b.count} for b in found.chosen]
    return {"chosen": chosen, "left": list(found.left)}


def _plan(spec: Pipeline, wanted: list[int] | None, copies: bool, as_json: bool) -> None:
    from tidegate.workflow.dirty import redrive as workflow

    with surroundings.working(spec, progress) as ctx:
        try:
            batch_id = workflow.plan(ctx, f"redrive/{ctx.nonce()}", wanted, copies=copies)
        except BehindBatch as e:
            raise behind(ctx)(e) from None
    if as_json:
        print_json({"pipeline": spec.name, "batch_id": batch_id})
    elif batch_id is None:
        click.echo(f"{spec.name}: no row is dirty")
    else:
        click.echo(f"batch {batch_id} is planned: the next run of {spec.name}.ingest writes and lands it")


def _run(spec: Pipeline, wanted: list[int] | None, copies: bool, minutes: float, as_json: bool) -> None:
    from tidegate.workflow.dirty import redrive as workflow

    done: list[Redriven] = []
    with surroundings.working(spec, progress) as ctx:
        for found in workflow.all_of(ctx, wanted, patience(minutes * 60, explained=behind(ctx)), copies):
            done.append(found)
            if not as_json:
                click.echo(found.words)
    if as_json:
        print_json({"pipeline": spec.name, "redriven": done})
    elif not done:
        click.echo(f"{spec.name}: no row is dirty")
    raise SystemExit(NOT_WELL if any(d.refused for d in done) else WELL)


def patience(
    seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    explained: Callable[[TidegateError], TidegateError] = lambda error: error,
) -> Callable[[TidegateError], None]:
    """A function that sleeps at each call, says now and then what it waits for, and raises its error once so many
    seconds are over in all. `explained`: adds to an error what an operator can know."""
    deadline, say_at, last = clock() + seconds, clock(), ""

    def wait(error: TidegateError) -> None:
        nonlocal say_at, last
        if clock() >= deadline:
            raise explained(error)
        if clock() >= say_at or error.args[0] != last:
            say_at, last = clock() + _SAY_S, error.args[0]
            told = explained(error)
            progress(f"waiting for: {told.args[0]}" + (f"; what to do: {told.advice}" if told.advice else ""))
        sleep(_LOOK_S)

    return wait


def behind(ctx: Context) -> Callable[[TidegateError], TidegateError]:
    """A function that adds to BehindBatch who works on the open batch, and what helps."""

    def explained(error: TidegateError) -> TidegateError:
        found = ctx.ledger.redrives.in_the_way(ctx.name) if isinstance(error, BehindBatch) else None
        if found is None:
            return error
        what, advice = waits_for(ctx.name, found, _airflow(ctx.name, found.runs))
        return BehindBatch(f"{ctx.name}: {what}; only one batch is open at a time", advice=advice)

    return explained


def _airflow(name: str, runs: Sequence[str]) -> IngestFacts | None:
    """Facts of the ingest DAG; None where Airflow's database is unknown here, or gives no answer."""
    from sqlalchemy.exc import SQLAlchemyError

    from tidegate.adapters.airflow_facts import database_address, ingest_facts

    url = database_address()
    try:
        return None if url is None else ingest_facts(url, f"{name}.ingest", runs, 5.0)
    except (SQLAlchemyError, ModuleNotFoundError):
        return None
