"""`tidegate files`: the files of windows, for readers by path, from the ledger alone."""

from __future__ import annotations

from typing import Any

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import json_option, print_json
from tidegate.cli.windows import parse_range
from tidegate.core.base.fields import columns
from tidegate.core.base.instants import iso
from tidegate.core.base.partition_values import partition_path
from tidegate.core.base.wording import many, size
from tidegate.core.publish.in_force import WindowFiles


@click.command()
@surroundings.pipeline_argument
@click.argument("window")
@click.option("-e", "--end", "last", metavar="WINDOW", help="The last window of a range, included.")
@click.option("--late", is_flag=True, help="The files of the late table instead: rows that no window holds yet.")
@json_option
def files(pipeline: str, window: str, last: str | None, late: bool, as_json: bool) -> None:
    """Print the files of a window's generation in force, for readers by path. Needs the ledger's connection only.

    PIPELINE is its name, or the table as database.table. WINDOW is an instant in it, the table's partition or its id.

    Paths are whole URIs, with the values of all partition columns, rows and bytes; no directory is listed. They stay
    readable until the next generation of the window has been in force for `clean.generations`; with `archive.swap:
    directory` until the next generation: ask again for each reading. An hour without rows has no files. Dirty rows
    belong to no window.

    \b
    Examples:
      tidegate files flights 2013-01-26T16:00Z
      tidegate files lake.flights 2013-01-26 -e 2013-01-26T23:00 --json | jq -r '.windows[].files[].path'
      tidegate files flights date=2013-01-26/hour=16 --late

    \b
    Exit code: 0 these are all; 1 a window is not published, or its files are being moved; 2 wrong usage, or a window
    before windows.start; 3 the ledger gives no answer, or knows no such pipeline.
    """
    from tidegate.wiring import command_lookup, ledger_address, open_files
    from tidegate.workflow.look import files as workflow
    from tidegate.workflow.window import waits

    with open_files(ledger_address(command_lookup)) as ledger:
        spec = waits.find(ledger.specs, pipeline)
        keys = parse_range(spec, window, last)
        found = (workflow.late if late else workflow.in_force)(ledger, spec, keys)
    if as_json:
        print_json({"pipeline": spec.name, "table": spec.sink.table, "windows": [_as_json(f) for f in found]})
    else:
        for f in found:
            _print(spec.name, f)
    raise SystemExit(NOT_WELL if any(f.why for f in found) else WELL)


def _print(name: str, f: WindowFiles) -> None:
    from tidegate.workflow.look.files import advice

    start = iso(f.window.start_ms)
    if f.why:
        click.echo(f"{start}: {f.why}\n  what to do: {advice(name, f)}")
    if f.location is None:
        return
    what = "late table" if f.kind == "late" else f"generation {f.generation} ({f.kind})"
    held = f"{many(f.rows, 'row')} in {many(len(f.files), 'file')}, {size(f.bytes)}, at {f.location}"
    swap = f"; generation {f.swapping} is about to replace it" if f.swapping and not f.why else ""
    click.echo(f"{start} {what}: {held}{swap}")
    for one in f.files:
        click.echo(f"  {one.path}  {partition_path(one.values)}  {many(one.rows, 'row')}, {size(one.bytes)}")


def _as_json(f: WindowFiles) -> dict[str, Any]:
    return {
        "window_start_ms": f.window.start_ms,
        "window_end_ms": f.window.end_ms,
        **columns(f, "partition", "generation", "kind", "location", "certificate", "digest", "published_ms"),
        **columns(f, "rows", "bytes", "swapping", "why"),
        "files": [{"path": x.path, "values": dict(x.values), "rows": x.rows, "bytes": x.bytes} for x in f.files],
    }
