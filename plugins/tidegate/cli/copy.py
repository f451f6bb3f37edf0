"""`tidegate copy`: read the table that a mirror shows from its database, now and here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.output import json_option, print_json, progress
from tidegate.core.base.wording import many

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.workflow.base.context import Context


@click.command()
@surroundings.pipeline_argument
@click.option("--dry-run", is_flag=True, help="Look at the ledger and the database, and read no rows.")
@click.option("--again", is_flag=True, help="Read the whole source table once more; needs --why.")
@click.option("--why", default="", metavar="TEXT", help="Why, for the event log.")
@json_option
def copy(pipeline: str, dry_run: bool, again: bool, why: str, as_json: bool) -> None:
    """Read the source table of a mirror in chunks of its key, and merge the rows; what <pipeline>.copy does.

    The section `copy` of the YAML names the table. Chunks that are read stay read, so that it may be ended and run
    again at any time, also while the DAG runs. Changes go on meanwhile: of a row that was read and an event, whichever
    is the newer by the database's log wins. Once all chunks are merged, rows that the source does not have any more
    are gone from the mirror, too: the copy is whole.

    --again begins a new copy: for a mirror that may differ from its source, or whose ledger was restored. One that is
    under way is given up for it; what it has brought stays.

    \b
    Examples:
      tidegate copy orders
      tidegate copy orders --dry-run
      tidegate copy orders --again --why "rows were changed on the replica on 3 May"

    \b
    Exit code: 0 all is read and merged; 1 refused (the source's table is another one, no event has come yet, ...);
    2 usage, or a pipeline without the section copy; 3 the ledger, the database, the catalogue or storage gives no
    answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    if spec.copy is None:
        raise click.UsageError(f"{pipeline} has no section copy in its YAML: it names the table that is to be read")
    if again and not dry_run and not why.strip():
        raise click.UsageError("--again needs --why: it is written to the event log")
    if dry_run:
        _preview(spec, again, as_json)
        return
    _run(spec, why.strip() if again else "", as_json)


def _preview(spec: Pipeline, again: bool, as_json: bool) -> None:
    from tidegate.wiring import command_lookup, open_database
    from tidegate.workflow.copy.tables import SourceTables

    with surroundings.ledger() as ledger, open_database(spec, command_lookup) as database:
        ctx = surroundings.context(spec, ledger, progress)
        source = SourceTables(ctx, database)
        tables = [source.described(name) for name in source.names]
        about, newest = sum(map(database.rows_about, tables)), ctx.ledger.copies.newest(spec.name)
        chunks = [] if newest is None else list(ctx.ledger.copies.chunks(spec.name, newest.number))
    read = [c for c in chunks if c.low is not None]
    if as_json:
        print_json({"pipeline": spec.name, "tables": tables, "rows_about": about, "copy": newest, "read": len(read)})
        return
    shards = f" ({many(len(tables), 'table')})" if spec.copy is not None and spec.copy.tables else ""
    of = f"{source.spelled}{shards} by {', '.join(source.key)}, about {many(about, 'row')}"
    if newest is None or again:
        click.echo(f"{spec.name}: copy {1 if newest is None else newest.number + 1} would read {of}")
        return
    cut = f"{len(read):,} of {many(len(chunks), 'chunk')}" + ("" if newest.ended else " so far")
    click.echo(f"{spec.name}: copy {newest.number} of {of}: {cut} read, {many(sum(c.rows for c in read), 'row')}")


def _run(spec: Pipeline, why: str, as_json: bool) -> None:
    from tidegate.wiring import command_lookup, open_database
    from tidegate.workflow.apply.apply import apply
    from tidegate.workflow.copy import copy as workflow

    with open_database(spec, command_lookup) as database, surroundings.working(spec, progress) as ctx:
        if why:
            workflow.again(ctx, database, why)
        done = workflow.copy(ctx, database)
        told = apply(ctx).told
        left = _left(ctx)
    whole = told.copied.whole
    if as_json:
        print_json({"pipeline": spec.name, "read": done, "table": told})
        return
    did = f"{many(done.rows, 'row')} of {many(done.chunks, 'chunk')} read" if done.chunks else "nothing to read"
    stands = f"copy {whole.number} is whole" if whole is not None and not left else "the copy is not whole yet"
    click.echo(f"{spec.name}: {did}; {stands}: {many(told.rows, 'row')} up to batch {told.upto}")


def _left(ctx: Context) -> bool:
    from tidegate.core.copy.rounds import RoundState

    newest = ctx.ledger.copies.newest(ctx.name)
    return newest is not None and newest.state == RoundState.OPEN
