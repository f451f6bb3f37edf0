"""`tidegate rollback`: bring back the rows of an earlier generation of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import outcomes, surroundings
from tidegate.cli.output import json_option, print_json, progress, stripped
from tidegate.cli.windows import parse_window
from tidegate.core.base.partition_values import partition_path
from tidegate.core.base.wording import many

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.core.window.states import PublishedGeneration, WindowKey
    from tidegate.workflow.replay.rollback import Preview


@click.command()
@surroundings.pipeline_argument
@click.argument("window")
@click.option("--to", type=click.IntRange(min=1), metavar="N",
              help="The generation to go back to; by default the one that was in force before.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show rows, checksums and partitions now and then; change nothing.")
@click.option("--why", default="", metavar="TEXT", callback=stripped,
              help="Why, for the event log; needed unless --dry-run.")  # fmt: skip
@json_option
def rollback(pipeline: str, window: str, to: int | None, dry_run: bool, why: str, as_json: bool) -> None:
    """Bring back the rows of an earlier generation of a published window.

    WINDOW is an instant in it, its partition or its id (tidegate explain lists its generations).

    The command copies the earlier generation's files into the window's next generation, compares each row with the
    manifest, and switches the window to it, like a replay. In an Iceberg table it copies nothing: the next
    generation names the earlier one's files. It does not ask Kafka and decodes nothing. The generation in force stays
    readable until the switch, and is kept afterwards: you can roll a rollback back.

    It refuses if the files were cleaned (archive.keep_generations, clean.generations), and if late rows were
    taken up in between: no table would hold them. After a death this command continues, and so does clearing the
    window's publish task.

    \b
    Examples:
      tidegate rollback flights 2013-01-26T16:00Z --dry-run
      tidegate rollback flights 2013-01-26T16:00Z --why "the new decoder lost the tail numbers"
      tidegate rollback flights 2013-01-26T16:00Z --to 1 --why "back to the first content"

    \b
    Exit code: 0 done, or the content is the same; 1 refused, or it could not be finished; 2 usage; 3 the ledger or
    Hive gives no answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    if not dry_run and not why:
        raise click.UsageError("--why is missing: it is written to the event log and to the window's certificate")
    if dry_run:
        _preview(spec, parse_window(spec, window), to, as_json)
    else:
        _run(spec, parse_window(spec, window), to, why, as_json)


def _preview(spec: Pipeline, window: WindowKey, to: int | None, as_json: bool) -> None:
    from tidegate.workflow.replay import rollback as workflow

    with surroundings.looking(spec, progress) as ctx:
        found = workflow.preview(ctx, window, to)
    if as_json:
        print_json({"pipeline": spec.name, **_told(found)})
        return
    for name, one in (("now", found.now), ("then", found.then)):
        click.echo(
            f"{name:<5} generation {one.number} ({one.kind}): {many(_rows(one), 'row')}, digest {one.digest[:16]}"
        )
    if found.unchanged:
        click.echo("the content is the same: a rollback would publish nothing")
        return
    for p in found.partitions:
        click.echo(f"  {partition_path(p.values) or '(all)'}: {many(p.now, 'row')} now, {p.then:,} then")


def _run(spec: Pipeline, window: WindowKey, to: int | None, why: str, as_json: bool) -> None:
    from tidegate.workflow.replay import rollback as workflow

    with surroundings.working(spec, progress) as ctx:
        published = workflow.rollback(ctx, window, to, why)
    outcomes.published(spec.name, published, as_json)


def _rows(generation: PublishedGeneration) -> int:
    return sum(f.rows for f in generation.files)


def _told(found: Preview) -> dict[str, Any]:
    def one(g: PublishedGeneration) -> dict[str, Any]:
        return {"generation": g.number, "kind": g.kind, "rows": _rows(g), "digest": g.digest, "location": g.location}

    return {
        "window_start_ms": found.window.start_ms,
        "window_end_ms": found.window.end_ms,
        "now": one(found.now),
        "then": one(found.then),
        "unchanged": found.unchanged,
        "partitions": [{"values": dict(p.values), "now": p.now, "then": p.then} for p in found.partitions],
    }
