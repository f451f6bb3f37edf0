"""`tidegate apply`: merge what has landed into a keyed table, now and here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tidegate.cli import outcomes, surroundings
from tidegate.cli.output import json_option, print_json, progress, why_option
from tidegate.cli.windows import parse_window
from tidegate.core.base.wording import many

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.workflow.apply.apply import Seen


@click.command()
@surroundings.pipeline_argument
@click.option("--dry-run", is_flag=True, help="Look at the table and the ledger, and merge nothing.")
@click.option("--again", is_flag=True, help="Also try what the newest merge was refused for.")
@click.option(
    "--take-conflicts",
    is_flag=True,
    help="Let the order decide between events that contradict each other; needs --why.",
)
@click.option(
    "--back-to",
    metavar="TAG",
    help="First take the table back to this tag, or to the snapshot of this id; needs --why.",
)
@click.option("--day", metavar="DAY", help="Of a mirror by days: publish this one, with --take-conflicts.")
@why_option
@json_option
def apply(
    pipeline: str,
    dry_run: bool,
    again: bool,
    take_conflicts: bool,
    back_to: str | None,
    day: str | None,
    why: str,
    as_json: bool,
) -> None:
    """Merge all batches that have landed into the table of a mirror, in order; what <pipeline>.apply does.

    It looks at the table first: what is merged already is left alone, so that it may be run at any time, also while the
    DAG runs. Batches land by <pipeline>.ingest.

    Two events that say different things of a key at one position of the source's log refuse their merge. If a person
    has looked at both, --take-conflicts lets the one with the greater digest win: the same one in every order. Events
    whose positions go back, though they happened later, refuse it too; with --take-conflicts they count as older ones.

    If the table was damaged, --back-to makes an earlier snapshot the current one, and merges every batch from there on
    again. It has to be whole: it says up to which batch it is, its sums are right, and all its files are there.

    A mirror by days is published by its DAG. A day that is refused for contradicting events is published here, by --day
    and --take-conflicts: the order decides, in each later rebuild of that day too. Then clear its publish task, which
    tells other DAGs, and those of the days after it.

    \b
    Examples:
      tidegate apply orders
      tidegate apply orders --dry-run
      tidegate apply orders --again
      tidegate apply orders --take-conflicts --why "the server was set up anew on 3 May; both rows are right"
      tidegate apply orders --back-to before_the_move --why "rows were deleted by hand on 3 May"
      tidegate apply orders_by_day --day date=2026-05-03 --take-conflicts --why "both rows are right"

    \b
    Exit code: 0 the table has all that landed; 1 refused (two events contradict each other, rows are there that no
    event brought, ...); 2 usage, or a pipeline with windows; 3 the ledger, the catalogue or storage gives no answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    if take_conflicts and not why:
        raise click.UsageError("--take-conflicts needs --why: it is written to the event log")
    if day is not None:
        if not take_conflicts or dry_run or again or back_to:
            raise click.UsageError("--day goes with --take-conflicts and --why alone: its DAG publishes a day")
        _publish_day(spec, day, why, as_json)
        return
    if spec.windows.closes:
        raise click.UsageError(f"{pipeline} is published by windows: `tidegate backfill` or its DAG publishes them")
    if back_to and not dry_run and not why:
        raise click.UsageError("--back-to needs --why: it is written to the event log")
    if dry_run:
        _preview(spec, back_to, as_json)
        return
    _run(spec, again, why if take_conflicts else "", back_to, why, as_json)


def _publish_day(spec: Pipeline, day: str, why: str, as_json: bool) -> None:
    from tidegate.kinds import target_kind
    from tidegate.workflow.publish import archive

    if not target_kind(spec.sink.kind).follows:
        raise click.UsageError(f"{spec.name} is not kept by days: leave --day out")
    window = parse_window(spec, day)
    with surroundings.working(spec, progress) as ctx:
        published = archive.publish(replace(ctx, conflicts=why), window)
    outcomes.published(spec.name, published, as_json)


def _preview(spec: Pipeline, back_to: str | None, as_json: bool) -> None:
    from tidegate.workflow.apply import taking_back
    from tidegate.workflow.apply.apply import seen
    from tidegate.workflow.apply.complete import unmerged_now

    with surroundings.looking(spec, progress) as ctx:
        found = seen(ctx) if back_to is None else taking_back.at(ctx, back_to)
        waits = unmerged_now(ctx, found.told.upto) if spec.copy is not None else []
    if as_json:
        first, last = (None, None) if found.range is None else (found.range.first, found.range.last)
        print_json(
            {"pipeline": spec.name, "table": found.told, "first_batch": first, "last_batch": last, "unmerged": waits}
        )
    else:
        then = f"at {back_to} " if back_to else ""
        click.echo(f"{spec.name}: {then}{_would(found)}")
        for partition, has, end in waits:
            click.echo(f"  partition {partition} is merged up to offset {has:,}, the connector had filled {end:,}")


def _would(found: Seen) -> str:
    now = f"the table holds batches 1 to {found.told.upto}" if found.told.upto else "the table holds no batch"
    if found.range is None:
        return f"{now}: all that has landed"
    return f"{now}; the next merge takes batches {found.range.first} to {found.range.last}"


def _run(spec: Pipeline, again: bool, conflicts: str, back_to: str | None, why: str, as_json: bool) -> None:
    from tidegate.workflow.apply import taking_back
    from tidegate.workflow.apply.apply import apply as workflow

    with surroundings.working(spec, progress) as ctx:
        if back_to:
            taking_back.take_back(ctx, back_to, why)
        done = workflow(ctx, again=again, conflicts=conflicts)
    if as_json:
        print_json(
            {
                "pipeline": spec.name,
                "merges": done.merges,
                "events": done.events,
                "purged": done.purged,
                "table": done.told,
            }
        )
        return
    stand = f"{many(done.told.rows, 'row')} and {many(done.told.tombstones, 'tombstone')} up to batch {done.told.upto}"
    did = f"{many(done.merges, 'merge')} of {many(done.events, 'event')}" if done.merges else "nothing to merge"
    gone = f", {many(done.purged, 'tombstone')} purged" if done.purged else ""
    click.echo(f"{spec.name}: {did}{gone}; {stand}")
