"""`tidegate compare`: hold a mirror against the table of its source, and further systems against what was delivered."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.copy import keys_of
from tidegate.cli.deliver import each, meant, named
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import advice, console, json_option, paragraph, print_json, progress, why_option
from tidegate.cli.wait import DurationType
from tidegate.cli.windows import last_option, named_windows
from tidegate.core.base.plain import to_plain
from tidegate.core.base.wording import many

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Delivery, Pipeline
    from tidegate.workflow.base.context import Context
    from tidegate.workflow.copy.compare import Report
    from tidegate.workflow.deliver.deliver import Sent


@click.command()
@surroundings.pipeline_argument
@click.option("--from", "low", metavar="KEY", help="Of a mirror: keys from this one on, no others.")
@click.option("--until", "high", metavar="KEY", help="The last key, included.  [default: that of --from]")
@click.option("--server", default="", metavar="NAME", help="Of a mirror: this one of copy.servers, no other.")
@click.option("-s", "--start", "first", metavar="WINDOW", help="Of deliveries: the first window of a range.")
@last_option
@click.option("--to", "wanted", multiple=True, metavar="NAME", help="This delivery only; may be repeated.")
@click.option("--fix", is_flag=True, help="Put right what differs; needs --why.")
@why_option
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
    server: str,
    first: str | None,
    last: str | None,
    wanted: Sequence[str],
    fix: bool,
    why: str,
    wait: int,
    as_json: bool,
) -> None:
    """Compare a mirror with its source, or further systems with what was delivered to them.

    Of a mirror the source's database computes checksums of key ranges, or of groups where keys are not whole numbers,
    and what differs is read as `tidegate copy` reads it, by the section `copy` of the YAML: no faster than its `rate`
    allows. Then the mirror catches up with the position that was read, and every key that was read is compared: rows
    that only one of both has, and rows with other values. A row that has changed since it was read is no difference.
    Where the database cannot sum, all is read, and the report says why. Nothing is changed but by --fix, which reads
    these ranges again, or all where keys are not whole numbers, and of shards. With --from and --until these keys alone
    are compared, as `tidegate copy` has them. Where copy.servers names several servers the mirror is compared with one
    after the other, each by the positions of its own log; one that gives no answer is named, and holds up none of the
    others.

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
      tidegate compare orders --server shop_3 --fix --why "rows were changed by hand there"
      tidegate compare flights -s 2013-01-01 -e 2013-01-31T23:00 --to warehouse

    \b
    Exit code: 0 nothing differs, or all was put right; 1 something differs, a copy is under way, or a further system
    or one of several servers gives no answer; 2 usage, or a pipeline without the section copy and without deliveries;
    3 the ledger, the source's database, the catalogue or storage gives no answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    if spec.copy is None and not spec.deliver:
        raise click.UsageError(
            f"{pipeline} has neither a section copy nor a list deliver in its YAML; to compare hours with their topic: "
            f"tidegate replay {pipeline} -s ... -e ... --dry-run"
        )
    if fix and not why:
        raise click.UsageError("--fix needs --why: it is written to the event log")
    keys = keys_of(low, high)
    if spec.copy is None and keys is not None:
        raise click.UsageError(f"{pipeline} is no mirror: it has windows (-s, -e) and no keys")
    names = [] if spec.copy is None else [one.name for one in spec.copy.servers]
    if server and server not in names:
        known = f"one of {', '.join(names)}" if names else "which are missing in the YAML"
        raise click.UsageError(f"--server is for copy.servers: {known}")
    if spec.copy is None:
        raise SystemExit(_deliveries(spec, first, last, wanted, why if fix else "", as_json))
    if first is not None or last is not None or wanted:
        raise click.UsageError(f"{pipeline} is a mirror, which has no deliveries: it takes no -s, -e and --to")
    from tidegate.wiring import command_lookup, open_copy
    from tidegate.workflow.copy.compare import compare_each, looks_for

    opened = partial(open_copy, spec, command_lookup)
    with surroundings.working(spec, progress) as ctx:
        waits = partial(looks_for, wait / 1000, progress)
        found = compare_each(ctx, opened, waits, why if fix else "", lambda *_: keys, server)
    if as_json:
        plain = [{"copy": told.pop("round"), **told} for told in map(to_plain, found)]
        print_json({"pipeline": spec.name, **({"servers": plain} if names else plain[0])})
    else:
        for one in found:
            _print(spec.name, one)
    raise SystemExit(WELL if all(one.mended or not (one.differ or one.unanswered) for one in found) else NOT_WELL)


def _deliveries(
    spec: Pipeline, first: str | None, last: str | None, wanted: Sequence[str], why: str, as_json: bool
) -> int:
    """Compare, and with `why` send what differs once more; the exit code."""
    from tidegate.workflow.deliver import deliver as workflow
    from tidegate.workflow.deliver.ready import prepare

    deliveries, keys = meant(named(spec, wanted), named_windows(spec, None, first, last) or None, None)

    def work(ctx: Context, one: Delivery, found: list[Sent]) -> None:
        with closing(ctx.sender(one)) as sender:
            if why and prepare(ctx, one, sender):
                found.extend(workflow.deliver(ctx, one, sender))
            found.extend(workflow.compare(ctx, one, sender, keys, {sent.window_ms for sent in found}))
            if why:
                found[:] = workflow.fix(ctx, one, sender, found, why)

    def idle(one: Delivery) -> str:
        return f"no {'batch' if one.side else 'window'} was ever sent"

    return each(spec, deliveries, work, idle, as_json)


def _print(name: str, found: Report) -> None:
    from tidegate.workflow.copy.compare import KINDS, how_much, to_fix

    out = console()
    keys = sum(found.differ.values())
    if found.unanswered:
        paragraph(out, "not compared", f"server {found.server}: {found.unanswered}", "red")
        return
    whose = f"server {found.server}" if found.server else "the source"
    paragraph(out, "compared", f"{many(found.rows, 'row')} of {whose} with {name}")
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
        advice(out, "to do", to_fix(name, found))
    else:
        paragraph(out, "equal", "nothing differs")
