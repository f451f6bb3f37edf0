"""`tidegate deliver`: published windows into further systems, now and here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import json_option, print_json, progress, why_option
from tidegate.cli.windows import first_option, last_option, named_windows
from tidegate.core.base.errors import LedgerError, TidegateError
from tidegate.core.base.wording import many
from tidegate.core.deliver.units import base_of, counted, key_of, side_of

if TYPE_CHECKING:
    from tidegate.core.deliver.states import Due
    from tidegate.core.spec.pipeline import Delivery, Pipeline
    from tidegate.core.window.states import WindowKey
    from tidegate.workflow.base.context import Context
    from tidegate.workflow.deliver.deliver import Sent

SHOWN = 20
"""Most windows to print of a dry run; `--json` has all."""


@click.command()
@surroundings.pipeline_argument
@click.argument("window", required=False)
@first_option
@last_option
@click.option("--batch", type=int, metavar="ID", help="A batch, of deliveries of late and dirty tables.")
@click.option("--to", "wanted", multiple=True, metavar="NAME", help="This delivery only; may be repeated.")
@click.option("--again", is_flag=True, help="Send also what stands there as it should; needs --why.")
@click.option("--skip", is_flag=True, help="Leave the windows' generations in force out; needs --why.")
@click.option("--move", is_flag=True, help="Go where the YAML says, though it went there before; needs --why.")
@why_option
@click.option("--dry-run", is_flag=True, help="Show what would be sent, by the ledger alone.")
@json_option
def deliver(
    pipeline: str,
    window: str | None,
    first: str | None,
    last: str | None,
    batch: int | None,
    wanted: Sequence[str],
    again: bool,
    skip: bool,
    move: bool,
    why: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Send published windows to the further systems of the list `deliver`; what <pipeline>.deliver does.

    Without a window it sends what is due: windows whose generation in force does not stand there, oldest first. WINDOW
    is an instant in it, its partition or its id. Named windows are compared with what stands there, row by row through
    a checksum, and those that differ or are missing are sent, also those of before `since`.

    Late and dirty tables (side_tables) are deliveries of their own, <delivery>.late and <delivery>.dirty, whose unit is
    a batch: name one by --batch. --to <delivery> means them, too.

    A window is exchanged at once: readers there meet the old generation or the new one. Each newer generation (replay,
    reopening, rollback) is due by itself. A delivery that is down holds up no other, and no ingest.

    \b
    Examples:
      tidegate deliver flights
      tidegate deliver flights --dry-run
      tidegate deliver flights -s 2013-01-05 -e 2013-01-05T23:00 --to warehouse
      tidegate deliver flights 2013-01-05T04:00Z --again --why "rows were deleted there by hand"
      tidegate deliver flights 2013-01-05T04:00Z --skip --why "its rows do not fit the table there"
      tidegate deliver flights --to warehouse --move --why "back to the old table"
      tidegate deliver flights --batch 17 --to disaster_site.late --again --why "files were lost there"

    \b
    Exit code: 0 all of it stands there; 1 a window was refused or failed; 2 usage, or a pipeline without deliveries;
    3 the ledger or storage gives no answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    chosen = named(spec, wanted)
    windows = named_windows(spec, window, first, last)
    if windows and batch is not None:
        raise click.UsageError("name windows or a batch")
    chosen, keys = meant(chosen, windows or None, batch)
    if (again or skip) and not (why and keys):
        raise click.UsageError("--again and --skip need --why, and a WINDOW or a range, or --batch")
    if move and not (why and wanted):
        raise click.UsageError("--move needs --why, and --to")
    if move and skip:
        raise click.UsageError("--move and --skip exclude each other")
    if again and skip:
        raise click.UsageError("--again and --skip exclude each other")
    if dry_run:
        _preview(spec, chosen, keys, as_json)
        return

    def work(ctx: Context, one: Delivery, found: list[Sent]) -> None:
        found.extend(_send(ctx, one, keys, again, skip, move, why))

    raise SystemExit(each(spec, chosen, work, lambda one: _nothing(one, bool(keys), skip), as_json))


def _nothing(one: Delivery, named: bool, skip: bool) -> str:
    """What it means that there was nothing to do."""
    if not named:
        return "nothing is due"
    there = f"no such batch has {one.side} rows" if one.side else "none of these windows is published"
    return f"{there}, or it stands there already: nothing to skip" if skip else there


def named(spec: Pipeline, wanted: Sequence[str]) -> list[Delivery]:
    """Those of the YAML, or those that are named. Raises UsageError."""
    known = {one.name: one for one in spec.deliver}
    wanted = [name for one in wanted for name in _with_sides(known, one)]
    if not known:
        raise click.UsageError(f"{spec.name} has no list deliver in its YAML: it names the further systems")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise click.BadParameter(f"there is no delivery {unknown[0]}; there are: {', '.join(known)}", param_hint="--to")
    return [one for name, one in known.items() if not wanted or name in wanted]


def _with_sides(known: Iterable[str], name: str) -> list[str]:
    """The delivery, and those of its side tables."""
    return [one for one in known if base_of(one) == name] or [name]


def meant(
    chosen: Sequence[Delivery], keys: Sequence[WindowKey] | None, batch: int | None
) -> tuple[Sequence[Delivery], Sequence[WindowKey] | None]:
    """Those of them whose unit was named, and what was; None: nothing was. Raises UsageError."""
    if keys is None and batch is None:
        return chosen, None
    found = [one for one in chosen if bool(one.side) == (batch is not None)]
    if not found:
        raise click.UsageError("a batch is named of late and dirty tables, windows of all others")
    return found, keys if batch is None else [key_of(batch)]


# ---------------------------------------------------------------- dry run


def _preview(spec: Pipeline, chosen: Sequence[Delivery], keys: Sequence[WindowKey] | None, as_json: bool) -> None:
    with surroundings.looking(spec) as ctx:
        found = {one.name: _would_be_sent(ctx, one, keys) for one in chosen}
    if as_json:
        print_json({"pipeline": spec.name, "deliveries": found})
        return
    for name, due in found.items():
        _print_due(name, due)


def _would_be_sent(ctx: Context, one: Delivery, keys: Sequence[WindowKey] | None) -> list[Due]:
    ledger = ctx.ledger.deliveries
    if keys is None:
        return list(ledger.due(ctx.name, one.name, one.since_ms, 1_000_000))
    wanted = {key.start_ms for key in keys}
    return [d for d in ledger.in_force(ctx.name, one.name, min(wanted), max(wanted) + 1) if d.window_ms in wanted]


def _print_due(name: str, due: Sequence[Due]) -> None:
    click.echo(f"{name}: {counted(side_of(name), len(due))}")
    for one in due[:SHOWN]:
        row = one.row
        state = "was never sent" if row is None else f"{row.state}, generation {row.generation}"
        why = f": {row.why}" if row is not None and row.why else ""
        click.echo(f"  {one.unit} {'version' if one.side else 'generation'} {one.generation}: {state}{why}")
    if len(due) > SHOWN:
        click.echo(f"  and {len(due) - SHOWN:,} more: --json names all")


# ---------------------------------------------------------------- for good


def each(
    spec: Pipeline,
    chosen: Sequence[Delivery],
    work: Callable[[Context, Delivery, list[Sent]], None],
    idle: Callable[[Delivery], str],
    as_json: bool,
) -> int:
    """Do `work` at each delivery, and print what it has put into its list; `idle` says it of an empty one. Returns the
    exit code. An error of one delivery has nothing to do with the others."""
    found: dict[str, list[Sent]] = {one.name: [] for one in chosen}
    errors: dict[str, str] = {}
    with surroundings.working(spec, progress) as ctx:
        for one in chosen:
            try:
                work(ctx, one, found[one.name])
            except LedgerError:
                raise
            except TidegateError as e:
                errors[one.name] = str(e)
    if as_json:
        print_json({"pipeline": spec.name, "deliveries": found, "errors": errors})
    else:
        for one in chosen:
            _print(one.name, found[one.name], errors.get(one.name), idle(one))
    return WELL if not errors and all(s.well for sent in found.values() for s in sent) else NOT_WELL


def _send(
    ctx: Context, one: Delivery, keys: Sequence[WindowKey] | None, again: bool, skip: bool, move: bool, why: str
) -> Iterator[Sent]:
    from tidegate.workflow.deliver import deliver as workflow
    from tidegate.workflow.deliver.ready import prepare

    if skip:
        assert keys is not None
        yield from workflow.skip(ctx, one, keys, why)
        return
    with closing(ctx.sender(one)) as sender:
        prepare(ctx, one, sender, why if move else "")
        if keys is None:
            yield from workflow.deliver(ctx, one, sender)
        else:
            yield from workflow.verify(ctx, one, sender, keys, why=why if again else "")


def _print(name: str, sent: Sequence[Sent], error: str | None, idle: str) -> None:
    """What became of the windows, those that are not as they should be, or wait, with their next step."""
    counts = ", ".join(f"{n:,} {what}" for what, n in Counter(s.what for s in sent).items())
    did = f"{counts}, {many(sum(s.rows for s in sent), 'row')}" if sent else idle
    click.echo(f"{name}: {did if error is None else error}")
    for s in [s for s in sent if not s.well or s.advice][:SHOWN]:
        click.echo(f"  {s.unit} {s.what}: {s.why}")
        _print_parts(s)
        if s.advice:
            click.echo(f"    what to do: {s.advice}")
    for fixed in [s for s in sent if s.well and s.parts][:SHOWN]:
        click.echo(f"  {fixed.unit} was sent again")
        _print_parts(fixed)


def _print_parts(sent: Sent) -> None:
    """The partitions of a window that differ from those there."""
    named = [one for one in sent.parts if one.values]
    for one in named[:SHOWN]:
        click.echo(f"    {one}")
    if len(named) > SHOWN:
        click.echo(f"    and {len(named) - SHOWN:,} more: --json names all")
