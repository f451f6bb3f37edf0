"""`tidegate copy`: read the table that a mirror shows from its database, now and here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import surroundings
from tidegate.cli.output import json_option, print_json, progress, why_option
from tidegate.core.base.wording import many
from tidegate.core.copy.rounds import Round, RoundState
from tidegate.core.mirror.parts import is_all

if TYPE_CHECKING:
    from tidegate.core.mirror.applies import Told
    from tidegate.core.mirror.copied import RoundIn
    from tidegate.core.spec.pipeline import Copy, Pipeline
    from tidegate.workflow.base.context import Context
    from tidegate.workflow.copy.copy import Read
    from tidegate.workflow.copy.each import Tried

_NOT_WHOLE = "the copy is not whole yet"


@click.command()
@surroundings.pipeline_argument
@click.option("--dry-run", is_flag=True, help="Look at the ledger and the database, and read no rows.")
@click.option("--again", is_flag=True, help="Read the whole source table once more; needs --why.")
@click.option("--drop", is_flag=True, help="Drop the rows of a --server that is gone for good; needs --why.")
@click.option("--from", "first", metavar="KEY", help="With --again: keys from this one on, no others.")
@click.option("--until", "last", metavar="KEY", help="The last key, included.  [default: that of --from]")
@click.option("--server", default="", metavar="NAME", help="With --again or --drop: this one, no other.")
@why_option
@json_option
def copy(
    pipeline: str,
    dry_run: bool,
    again: bool,
    drop: bool,
    first: str | None,
    last: str | None,
    server: str,
    why: str,
    as_json: bool,
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

    Where copy.servers names several servers they are read one after the other, each by a copy of its own; one that
    gives no answer is named, and holds up none of the others. --again needs --server then, and leaves all others alone.

    --drop is for a server whose line in copy.servers is gone for good: its rows go, and what was under way of its
    copies ends. If the line comes back, its table is read anew. Without --drop the rows stay as they are, and the table
    tells no time since which nothing is older.

    \b
    Examples:
      tidegate copy orders
      tidegate copy orders --dry-run
      tidegate copy orders --again --why "rows were changed on the replica on 3 May"
      tidegate copy orders --again --from 1000 --until 1999 --why "rows were deleted by hand"
      tidegate copy orders --again --server shop_3 --why "that server was restored from a backup"
      tidegate copy orders --drop --server shop_3 --why "its tables were moved to shop_4"

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
    if (again or drop) and not dry_run and not why:
        raise click.UsageError(f"{'--drop' if drop else '--again'} needs --why: it is written to the event log")
    if drop:
        if again or dry_run or not server:
            raise click.UsageError("--drop needs --server, and goes without --again and --dry-run")
        _dropped(spec, server, why, as_json)
        return
    _refuse_server(spec.copy, server, again)
    if dry_run:
        _preview(spec, again, as_json)
        return
    _run(spec, why if again else "", keys, server, as_json)


def _dropped(spec: Pipeline, server: str, why: str, as_json: bool) -> None:
    from tidegate.workflow.apply.apply import apply
    from tidegate.workflow.copy.drop import drop

    with surroundings.working(spec, progress) as ctx:
        dropped, told = drop(ctx, server, why), apply(ctx).told
    if as_json:
        print_json({"pipeline": spec.name, "copy": dropped, "table": told})
        return
    stand = f"{many(told.rows, 'row')} up to batch {told.upto}"
    click.echo(f"{spec.name}: the rows of server {server} are dropped; the table has {stand}")


def _refuse_server(spec: Copy, server: str, again: bool) -> None:
    """Raises UsageError for a server that is missing, or unknown, or needless."""
    names = [one.name for one in spec.servers]
    if again and names and server not in names:
        raise click.UsageError(f"--again needs --server: one of {', '.join(names)}")
    if server and not (again and names):
        raise click.UsageError("--server goes with --again, and with copy.servers in the YAML")


def keys_of(first: str | None, last: str | None) -> tuple[str, str] | None:
    """First and last key of a part. Raises UsageError."""
    if first is None and last is not None:
        raise click.UsageError("--until needs --from")
    return None if first is None else (first, first if last is None else last)


def _preview(spec: Pipeline, again: bool, as_json: bool) -> None:
    assert spec.copy is not None
    with surroundings.looking(spec, progress) as ctx:
        found = [_looked(ctx, one.name, again) for one in spec.copy.each]
    if as_json:
        plain = [one for one, _ in found]
        print_json({"pipeline": spec.name, **({"servers": plain} if spec.copy.servers else plain[0])})
        return
    for _, words in found:
        click.echo(f"{spec.name}: {words}")


def _looked(ctx: Context, server: str, again: bool) -> tuple[dict[str, Any], str]:
    """The tables of a server, and what its newest copy has read of them or would read: plain values, and words."""
    from tidegate.wiring import command_lookup, open_database
    from tidegate.workflow.copy.tables import SourceTables, section

    with open_database(ctx.pipeline, command_lookup, server=server) as database:
        source = SourceTables(ctx, database, server)
        tables = [source.described(name) for name in source.names]
        about, rounds = sum(map(database.rows_about, tables)), list(ctx.ledger.copies.rounds(ctx.name))
    newest = next((one for one in reversed(rounds) if one.server == server), None)
    chunks = [] if newest is None else list(ctx.ledger.copies.chunks(ctx.name, newest.number))
    read = [c for c in chunks if c.low is not None]
    plain: dict[str, Any] = {"tables": tables, "rows_about": about, "copy": newest, "read": len(read)}
    if server:
        plain["server"] = server
    shards = f" ({many(len(tables), 'table')})" if section(ctx).tables else ""
    where = f" of server {server}" if server else ""
    of = f"{source.spelled}{shards}{where} by {', '.join(source.key)}, about {many(about, 'row')}"
    if newest is None or again:
        return plain, f"copy {1 + max((one.number for one in rounds), default=0)} would read {of}"
    cut = f"{len(read):,} of {many(len(chunks), 'chunk')}" + ("" if newest.ended else " so far")
    return plain, f"copy {newest.number} of {of}: {cut} read, {many(sum(c.rows for c in read), 'row')}"


def _run(spec: Pipeline, why: str, keys: tuple[str, str] | None, server: str, as_json: bool) -> None:
    from tidegate.wiring import command_lookup, open_copy
    from tidegate.workflow.copy import copy as workflow

    with surroundings.working(spec, progress) as ctx:
        if why:
            with open_copy(spec, command_lookup, server) as (database, reader):
                workflow.again(ctx, database, why, keys, reader.greatest, server)
        done, told, failed = _read_and_merged(ctx, server)
        rounds = ctx.ledger.copies.rounds(spec.name)
        newest = next((one for one in rounds if one.state == RoundState.OPEN), rounds[-1] if rounds else None)
    if as_json:
        of = {"copy": newest} if told is None else {"table": told}
        not_read = {"not_read": {one.server: str(one.error) for one in failed}} if failed else {}
        print_json({"pipeline": spec.name, "read": done, **of, **not_read})
        _raise_first(failed)
        return
    did = f"{many(done.rows, 'row')} of {many(done.chunks, 'chunk')} read" if done.chunks else "nothing to read"
    if told is None:
        stands = _next_day(newest)
    else:
        stands = f"{_in_table(newest, told.copied.whole)}: {many(told.rows, 'row')} up to batch {told.upto}"
    click.echo(f"{spec.name}: {did}; {stands}")
    for one in failed:
        click.echo(f"{spec.name}: {one.words}")
    _raise_first(failed)


def _raise_first(failed: Sequence[Tried]) -> None:
    """For the exit code: what is the matter with one server held up none of the others."""
    if failed and failed[0].error is not None:
        raise failed[0].error


def _read_and_merged(ctx: Context, server: str) -> tuple[Read, Told | None, list[Tried]]:
    """What was read, of several servers one after the other, or of one; the table with it, None by days; and servers
    that were not read."""
    from tidegate.wiring import command_lookup, open_copy
    from tidegate.workflow.apply.apply import apply
    from tidegate.workflow.copy.copy import Read
    from tidegate.workflow.copy.each import copy_each

    done, told = Read(), None
    failed: list[Tried] = []
    for one in copy_each(ctx, partial(open_copy, ctx.pipeline, command_lookup), server=server):
        if one.error is not None:
            failed.append(one)
            continue
        told, read = None if ctx.keyed is None else apply(ctx).told, one.read
        done = Read(round=read.round, chunks=done.chunks + read.chunks, rows=done.rows + read.rows, left=read.left)
    return done, told if told is not None or ctx.keyed is None else apply(ctx).told, failed


def _next_day(newest: Round | None) -> str:
    """Which copy the next day of a mirror by days takes, in words."""
    if newest is not None and newest.state == RoundState.WHOLE:
        return f"copy {newest.number} is whole: the next day that is built has its rows"
    return _NOT_WHOLE


def _in_table(newest: Round | None, whole: RoundIn | None) -> str:
    """Which copies are in the table, in words."""
    if whole is None or (newest is not None and newest.state == RoundState.OPEN):
        return _NOT_WHOLE
    of_part = newest is not None and not is_all(newest.part) and newest.state == RoundState.WHOLE
    return (f"{newest.words} is in; " if newest is not None and of_part else "") + f"copy {whole.number} is whole"
