"""`tidegate copy`: read the table that a mirror shows from its database, now and here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.output import json_option, print_json, progress, why_option
from tidegate.core.base.wording import many
from tidegate.core.copy.rounds import Round, RoundState

if TYPE_CHECKING:
    from tidegate.core.mirror.copied import RoundIn
    from tidegate.core.spec.pipeline import Pipeline

_NOT_WHOLE = "the copy is not whole yet"


@click.command()
@surroundings.pipeline_argument
@click.option("--dry-run", is_flag=True, help="Look at the ledger and the database, and read no rows.")
@click.option("--again", is_flag=True, help="Read the whole source table once more; needs --why.")
@click.option("--from", "first", metavar="KEY", help="With --again: keys from this one on, no others.")
@click.option("--until", "last", metavar="KEY", help="The last key, included.  [default: that of --from]")
@why_option
@json_option
def copy(
    pipeline: str, dry_run: bool, again: bool, first: str | None, last: str | None, why: str, as_json: bool
) -> None:
    """Read the source table of a mirror in chunks of its key, and merge the rows; what <pipeline>.copy does.

    The section `copy` of the YAML names the table. Chunks that are read stay read, so that it may be ended and run
    again at any time, also while the DAG runs. Changes go on meanwhile: of a row that was read and an event, whichever
    is the newer by the database's log wins. Once all chunks are merged, rows that the source does not have any more
    are gone from the mirror, too: the copy is whole.

    --again begins a new copy: for a mirror that may differ from its source, or whose ledger was restored. One that is
    under way is given up for it; what it has brought stays. With --from and --until it reads these keys alone, both
    included, and rows of them that the source does not have any more go, too. Such a key is made of whole numbers, with
    commas between the values of several columns, in the order of the source's primary key.

    \b
    Examples:
      tidegate copy orders
      tidegate copy orders --dry-run
      tidegate copy orders --again --why "rows were changed on the replica on 3 May"
      tidegate copy orders --again --from 1000 --until 1999 --why "rows were deleted by hand"

    \b
    Exit code: 0 all is read and merged; 1 refused (the source's table is another one, no event has come yet, ...);
    2 usage, or a pipeline without the section copy; 3 the ledger, the database, the catalogue or storage gives no
    answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    if spec.copy is None:
        raise click.UsageError(f"{pipeline} has no section copy in its YAML: it names the table that is to be read")
    keys = keys_of(first, last)
    if keys is not None and (dry_run or not again):
        raise click.UsageError("--from and --until go with --again, and without --dry-run")
    if again and not dry_run and not why:
        raise click.UsageError("--again needs --why: it is written to the event log")
    if dry_run:
        _preview(spec, again, as_json)
        return
    _run(spec, why if again else "", keys, as_json)


def keys_of(first: str | None, last: str | None) -> tuple[str, str] | None:
    """First and last key of a part. Raises UsageError."""
    if first is None and last is not None:
        raise click.UsageError("--until needs --from")
    return None if first is None else (first, first if last is None else last)


def _preview(spec: Pipeline, again: bool, as_json: bool) -> None:
    from tidegate.wiring import command_lookup, open_database
    from tidegate.workflow.copy.tables import SourceTables

    with surroundings.looking(spec, progress) as ctx, open_database(spec, command_lookup) as database:
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


def _run(spec: Pipeline, why: str, keys: tuple[str, str] | None, as_json: bool) -> None:
    from tidegate.wiring import command_lookup, open_copy
    from tidegate.workflow.apply.apply import apply
    from tidegate.workflow.copy import copy as workflow

    with open_copy(spec, command_lookup) as (database, reader), surroundings.working(spec, progress) as ctx:
        if why:
            workflow.again(ctx, database, why, keys, reader.greatest)
        done = workflow.copy(ctx, database, greatest=reader.greatest)
        told = None if ctx.keyed is None else apply(ctx).told
        newest = ctx.ledger.copies.newest(spec.name)
    if as_json:
        print_json({"pipeline": spec.name, "read": done, **({"copy": newest} if told is None else {"table": told})})
        return
    did = f"{many(done.rows, 'row')} of {many(done.chunks, 'chunk')} read" if done.chunks else "nothing to read"
    if told is None:
        stands = _next_day(newest)
    else:
        stands = f"{_in_table(newest, told.copied.whole)}: {many(told.rows, 'row')} up to batch {told.upto}"
    click.echo(f"{spec.name}: {did}; {stands}")


def _next_day(newest: Round | None) -> str:
    """Which copy the next day of a mirror by days takes, in words."""
    if newest is not None and newest.state == RoundState.WHOLE:
        return f"copy {newest.number} is whole: the next day that is built has its rows"
    return _NOT_WHOLE


def _in_table(newest: Round | None, whole: RoundIn | None) -> str:
    """Which copies are in the table, in words."""
    if whole is None or (newest is not None and newest.state == RoundState.OPEN):
        return _NOT_WHOLE
    of_part = newest is not None and newest.part is not None and newest.state == RoundState.WHOLE
    return (f"{newest.words} is in; " if newest is not None and of_part else "") + f"copy {whole.number} is whole"
