"""`tidegate compare`: hold a mirror against the table of its source, and further systems against what was delivered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.compare_delivered import delivered
from tidegate.cli.copy import keys_of
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import advice, console, json_option, paragraph, print_json, progress
from tidegate.cli.wait import DurationType
from tidegate.core.base.wording import many

if TYPE_CHECKING:
    from tidegate.workflow.copy.compare import Report

LOOK_S = 5.0


@click.command()
@surroundings.pipeline_argument
@click.option("--from", "low", metavar="KEY", help="Of a mirror: keys from this one on, no others.")
@click.option("--until", "high", metavar="KEY", help="The last key, included.  [default: that of --from]")
@click.option("-s", "--start", "first", metavar="WINDOW", help="Of deliveries: the first window of a range.")
@click.option("-e", "--end", "last", metavar="WINDOW", help="The last one, included.  [default: that of -s]")
@click.option("--to", "wanted", multiple=True, metavar="NAME", help="This delivery only; may be repeated.")
@click.option("--fix", is_flag=True, help="Put right what differs; needs --why.")
@click.option("--why", default="", metavar="TEXT", help="Why, for the event log.")
@click.option(
    "--wait",
    type=DurationType(),
    default="10m",
    show_default=True,
    metavar="TIME",
    help="How long a mirror may take to catch up with what was read.",
)
@json_option
def compare(
    pipeline: str,
    low: str | None,
    high: str | None,
    first: str | None,
    last: str | None,
    wanted: Sequence[str],
    fix: bool,
    why: str,
    wait: int,
    as_json: bool,
) -> None:
    """Compare a mirror with its source, or further systems with what was delivered to them.

    Of a mirror the source's database computes checksums of key ranges, and the ranges that differ are read as
    `tidegate copy` reads them, by the section `copy` of the YAML: no faster than its `rate` allows. Then the mirror
    catches up with the position that was read, and every key that was read is compared: rows that only one of both
    has, and rows with other values. A row that has changed since it was read is no difference. Where the database
    cannot sum, all is read, and the report says why. Nothing is changed but by --fix, which reads these ranges again.
    With --from and --until these keys alone are compared, as `tidegate copy` has them.

    Whether the mirror has caught up is known where the section `copy` names the connector or the slot. Elsewhere a key
    that differs may have an event on its way: compare again.

    Of a pipeline with deliveries the windows there are read, and their number of rows and their checksum are compared
    with what was read back when they came: all windows that were ever sent, or a range of them (-s, -e). Windows that
    wait to be sent, or were left out, are no difference. Of one that differs each partition is compared with the files
    here, and those that differ are named, with their rows on both sides. --fix sends windows that differ once more. To
    compare hours with their topic: `tidegate replay --dry-run`.

    \b
    Examples:
      tidegate compare orders
      tidegate compare orders --fix --why "rows were changed by hand on 3 May"
      tidegate compare orders --wait 1h --json
      tidegate compare orders --from 1000 --until 1999
      tidegate compare flights -s 2013-01-01 -e 2013-01-31T23:00 --to warehouse

    \b
    Exit code: 0 nothing differs, or all was put right; 1 something differs, a copy is under way, or a further system
    gives no answer; 2 usage, or a pipeline without the section copy and without deliveries; 3 the ledger, the source's
    database, the catalogue or storage gives no answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    if spec.copy is None and not spec.deliver:
        raise click.UsageError(
            f"{pipeline} has neither a section copy nor a list deliver in its YAML; to compare hours with their topic: "
            f"tidegate replay {pipeline} -s ... -e ... --dry-run"
        )
    if fix and not why.strip():
        raise click.UsageError("--fix needs --why: it is written to the event log")
    keys = keys_of(low, high)
    if spec.copy is None and keys is not None:
        raise click.UsageError(f"{pipeline} is no mirror: it has windows (-s, -e) and no keys")
    if spec.copy is None:
        raise SystemExit(delivered(spec, first, last, wanted, why.strip() if fix else "", as_json))
    if first is not None or last is not None or wanted:
        raise click.UsageError(f"{pipeline} is a mirror, which has no deliveries: it takes no -s, -e and --to")
    from tidegate.adapters.mirror_comparison import TableProcess
    from tidegate.wiring import command_lookup, open_database
    from tidegate.workflow.copy.compare import compare as workflow

    until = time.monotonic() + wait / 1000

    def waits() -> bool:
        time.sleep(LOOK_S)
        return time.monotonic() < until

    secrets = surroundings.storage_secrets(spec)
    with open_database(spec, command_lookup) as database, surroundings.working(spec, progress) as ctx:
        reader = TableProcess(user=spec.sink.user, secrets=secrets)
        try:
            found = workflow(ctx, database, reader, waits, why.strip() if fix else "", keys)
        finally:
            reader.close()
    if as_json:
        print_json({"pipeline": spec.name, **_plain(found)})
    else:
        _print(spec.name, found, keys)
    raise SystemExit(WELL if not found.differ or found.mended else NOT_WELL)


def _plain(found: Report) -> dict[str, object]:
    return {
        "copy": found.round,
        "rows": found.rows,
        "read": found.read,
        "ranges": found.ranges,
        "unsummed": found.unsummed,
        "differ": found.differ,
        "samples": found.samples,
        "exact": found.exact,
        "mended": found.mended,
    }


def _print(name: str, found: Report, compared: tuple[str, str] | None) -> None:
    from tidegate.workflow.copy.compare import KINDS, how_much, to_fix

    out = console()
    keys = sum(found.differ.values())
    paragraph(out, "compared", f"{many(found.rows, 'row')} of the source with {name}")
    paragraph(out, "", how_much(found))
    for kind, count in found.differ.items():
        paragraph(out, kind, f"{many(count, 'key')} {KINDS[kind]}", "red")
    for sample in found.samples:
        paragraph(
            out, "", f"{sample.key}: the mirror has {sample.table or 'none'}; the source {sample.batches or 'none'}"
        )
    if not found.exact:
        words = "the mirror was not seen to have caught up: a key that differs may have an event on its way"
        paragraph(out, "note", words, "yellow")
    if found.mended:
        paragraph(out, "fixed", many(keys, "key"))
    elif keys:
        advice(out, "to do", to_fix(name, compared))
    else:
        paragraph(out, "equal", "nothing differs")
