"""Commands about the ledger: its schema, its event log, and the next plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL
from tidegate.cli.output import console, json_option, print_json
from tidegate.core.base.errors import LedgerError
from tidegate.core.base.instants import iso
from tidegate.core.base.plain import dumps
from tidegate.core.base.wording import first_line, many, offsets
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.states import Plan, PlannedBatch, SealedBatch, WritingBatch
from tidegate.core.tell.subjects import meant, said
from tidegate.core.window.watermark import TopicFacts


@click.group()
def db() -> None:
    """The ledger's database schema."""


@db.command()
@click.option("--revision", default="head", show_default=True, help="Schema revision to upgrade to.")
def migrate(revision: str) -> None:
    """Bring the ledger's schema to the revision that this version needs; safe to run again.

    \b
    Example:
      AIRFLOW_CONN_TIDEGATE_LEDGER=postgresql://user:secret@host/tidegate tidegate db migrate

    \b
    Exit code: 0 done; 3 the database gives no answer or refuses.
    """
    from tidegate.ledger.migrate import migrate as to_revision
    from tidegate.ledger.migrate import revisions
    from tidegate.wiring import command_lookup, ledger_url

    if revision != "head" and revision not in revisions():
        raise click.UsageError(f"no revision {revision}; there are: {', '.join(revisions())}")
    url = ledger_url(command_lookup(surroundings.settings().ledger_conn_id))
    with _database_errors():
        click.echo(f"the ledger's schema is at revision {to_revision(url, revision)}")


@db.command(name="revision")
def show_revision() -> None:
    """Show whether the ledger's schema is the one that this version needs.

    \b
    Example:
      tidegate db revision

    \b
    Exit code: 0 it is; 3 it is not, or the database gives no answer.
    """
    from tidegate.ledger.store import HEAD

    with surroundings.ledger() as ledger, _database_errors():
        ledger.store.check_revision()
    click.echo(f"the ledger's schema is at revision {HEAD}, as this version needs")


@contextmanager
def _database_errors() -> Iterator[None]:
    """Translate SQLAlchemy's errors outside of the ledger's own transactions."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as e:
        advice = "check the ledger's connection (AIRFLOW_CONN_TIDEGATE_LEDGER) and that the database runs"
        raise LedgerError(f"the ledger's database: {first_line(e)}", advice=advice) from e


@click.command()
@surroundings.pipeline_argument
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--about", metavar="SUBJECT", help="Only of one subject: 'batch 12' or 'window 2013-01-26T16:00Z'.")
@json_option
def events(pipeline: str, limit: int, about: str | None, as_json: bool) -> None:
    """Show who changed what and why, newest last.

    \b
    Examples:
      tidegate events flights
      tidegate events flights --about "batch 12"
      tidegate events flights -n 1000 --json | jq -c '.events[] | select(.what == "refused")'

    \b
    Exit code: 0; 1 the ledger has none; 3 the ledger gives no answer.
    """
    with surroundings.ledger() as ledger:  # also of a pipeline whose YAML is gone
        found = list(reversed(ledger.reads.events(pipeline, limit, about and meant(about))))
    if as_json:
        print_json({"pipeline": pipeline, "events": found})
    elif not found:
        click.echo(f"the ledger has no event of {pipeline}{f' about {about}' if about else ''}")
    else:
        out = console()
        for e in found:
            head = f"{iso(e.at_ms // 1000 * 1000)}  {said(e.subject)}: {e.what}"
            out.print(Text(head, style="bold") + Text(f"  ({e.actor})", style="not bold"), soft_wrap=True)
            detail = "" if e.detail in ({}, None) else _cut(dumps(e.detail))
            if detail:
                out.print(Text(f"  {detail}", style="dim"), soft_wrap=True)
    raise SystemExit(0 if found else NOT_WELL)


def _cut(text: str, length: int = 240) -> str:
    return text if len(text) <= length else f"{text[: length - 4]} ..."


@click.command()
@surroundings.pipeline_argument
@json_option
def plan(pipeline: str, as_json: bool) -> None:
    """Show which batch the next ingest run would plan; write nothing.

    \b
    Example:
      tidegate plan flights

    \b
    Exit code: 0; 1 it would be refused (data loss, recreated topic, ...); 2 no such pipeline;
    3 Kafka or the ledger gives no answer.
    """
    from tidegate.workflow.batch.ingest import preview

    spec = surroundings.pipeline_named(pipeline)
    with surroundings.ledger() as ledger:
        ctx = surroundings.context(spec, ledger)
        if ledger.pipelines.row(pipeline) is None:
            ctx.ledger = _Unregistered()  # type: ignore[assignment]
        found = preview(ctx)
    if isinstance(found, PlannedBatch | WritingBatch | SealedBatch):
        _print_plan(found.plan, f"batch {found.plan.batch_id} is open ({found.state}): a run goes on with it", as_json)
    elif isinstance(found, Plan):
        _print_plan(found, f"batch {found.batch_id} would be planned", as_json)
    elif as_json:
        print_json({"pipeline": pipeline, "plan": None, "reason": found.reason})
    else:
        click.echo(f"{pipeline}: nothing would be planned: {found.reason}")


def _print_plan(plan: Plan, words: str, as_json: bool) -> None:
    if as_json:
        print_json({"pipeline": plan.pipeline, "plan": plan, "reason": words})
        return
    if plan.is_redrive:
        batches = ", ".join(str(i) for i in sorted({s.batch_id for s in plan.sources}))
        click.echo(f"{plan.pipeline}: {words}: redrive of {many(plan.records, 'dirty row')} of batches {batches}")
        return
    click.echo(f"{plan.pipeline}: {words}: {offsets(plan.records)} of {plan.topic}")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("partition", "start", "end", "offsets", "left", "log start", "stable", "high watermark"):
        table.add_column(name, justify="right")
    for p in plan.partitions:
        left = p.last_stable_offset - p.end
        row: tuple[Any, ...] = (p.partition, p.start, p.end, p.end - p.start, left)
        table.add_row(*map(str, row), str(p.log_start), str(p.last_stable_offset), str(p.high_watermark))
    console().print(table)
    for loss in plan.losses:
        click.echo(f"LOST: partition {loss.partition} offsets [{loss.start}, {loss.end}): {loss.reason}")


class _Unregistered:
    """Ledger of a pipeline that no run has registered: all is still to be read."""

    @property
    def batches(self) -> _Unregistered:
        return self

    @property
    def redrives(self) -> _Unregistered:
        return self

    def asked(self, _name: str) -> None:
        """Nothing: no redrive waits for a turn."""

    def planning_view(self, _name: str) -> PlanningView:
        return PlanningView(
            version=0,
            next_batch_id=1,
            accepted_topic_id=None,
            open_batch=None,
            planned_ends={},
            not_open=(),
            facts=TopicFacts(None, None, ()),
        )
