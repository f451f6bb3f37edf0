"""`tidegate replay`: rebuild published windows with today's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import outcomes, surroundings
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import json_option, print_json
from tidegate.cli.progress_bar import following
from tidegate.cli.windows import ONE_OR_RANGE, first_option, last_option, named_windows
from tidegate.core.base.instants import iso
from tidegate.core.base.plain import to_plain
from tidegate.core.base.wording import many, those
from tidegate.core.replay.reread import SOURCE

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.core.window.states import WindowKey
    from tidegate.workflow.replay.rehearsal import Content, Rehearsed


@click.command()
@surroundings.pipeline_argument
@click.argument("window", required=False)
@first_option
@last_option
@click.option("--from", "wanted", type=click.Choice(["auto", "kafka", "files", "source"]), default="auto",
              show_default=True, help="Where rows come from; auto: Kafka while it has the records, else our own files; "
              "source: a table without a log is read again.")  # fmt: skip
@click.option("--again", is_flag=True, help="Also windows of the range that a replay by this spec has rebuilt.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and publish nothing.")
@json_option
def replay(
    pipeline: str,
    window: str | None,
    first: str | None,
    last: str | None,
    wanted: str,
    again: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Rebuild a published window, or a range of them, with today's columns.

    WINDOW is an instant in it, its partition or its id. The batches' own specs still decide which rows belong to a
    window; today's columns say how they are decoded. The next generation is built beside the one in force, which
    stays readable until the swap; the same content is not published again.

    Windows of a range share one reading of each Kafka range. A refused window stops no other. After an interruption
    the same command continues. Records that Kafka no longer has come from the files in force, if no
    column needs them to be decoded again; if one does, the command refuses the window and names the column.

    A table without a log is read again by --from source alone, one window at a time: the new generation is another
    snapshot, and says so. `tidegate rollback` goes back to the first one while its files are kept.

    A dry run reads and writes as a replay does, shows rows and checksums before and after, and deletes its files.

    DAGs that are scheduled by the table hear of new generations by the next run of the maintenance DAG.

    \b
    Examples:
      tidegate replay flights 2013-01-26T16:00Z
      tidegate replay flights -s 2013-01-01 -e 2013-01-31T23:00 --dry-run
      tidegate replay flights -s 2013-01-01 -e 2013-01-31T23:00
      tidegate replay flights 2013-01-26T16:00Z --from files
      tidegate replay customers 2026-11-26 --from source

    \b
    Exit code: 0 every window is rebuilt, or was the same; 1 one was refused or could not be finished; 2 usage, or a
    spec that landed rows do not allow; 3 the ledger, Kafka or Hive gives no answer. A dry run ends with 0 if every
    window could be rebuilt.
    """
    if wanted == SOURCE and (window is None or dry_run):
        raise click.UsageError("--from source reads one WINDOW again, and has no dry run")
    spec = surroundings.pipeline_named(pipeline)
    keys = named_windows(spec, window, first, last)
    if not keys:
        raise click.UsageError(ONE_OR_RANGE)
    if wanted == SOURCE:
        raise SystemExit(_reread(spec, keys[0], as_json))
    alone = window is not None
    raise SystemExit(
        _rehearse(spec, keys, wanted, as_json) if dry_run else _run(spec, keys, wanted, again or alone, as_json)
    )


# ---------------------------------------------------------------- for good


def _reread(spec: Pipeline, key: WindowKey, as_json: bool) -> int:
    from tidegate.workflow.replay import reread

    with following(f"{spec.name}: second reading", 1) as seen, surroundings.working(spec, seen.say) as ctx:
        found = reread.read_again(ctx, key)
    outcomes.published(spec.name, found, as_json)
    return WELL


def _run(spec: Pipeline, keys: Sequence[WindowKey], wanted: str, again: bool, as_json: bool) -> int:
    from tidegate.workflow.replay import replay as workflow

    with following(f"{spec.name}: replay", len(keys)) as seen, surroundings.working(spec, seen.say) as ctx:
        found = workflow.replay_range(ctx, keys, wanted, again=again, told=lambda o: seen.next(outcomes.line(o)))
    outcomes.tell(spec.name, found, as_json)
    return outcomes.exit_code(found)


# ---------------------------------------------------------------- dry run


def _rehearse(spec: Pipeline, keys: Sequence[WindowKey], wanted: str, as_json: bool) -> int:
    from tidegate.workflow.replay import rehearsal

    with following(f"{spec.name}: dry run", len(keys)) as seen, surroundings.working(spec, seen.say) as ctx:
        found = rehearsal.rehearse(ctx, keys, wanted, told=lambda r: seen.next(""))
    if as_json:
        print_json({"pipeline": spec.name, "windows": [_as_json(r) for r in found]})
    else:
        for r in found:
            _print(r)
    return WELL if all(r.what in (rehearsal.SAME, rehearsal.DIFFERS) for r in found) else NOT_WELL


def _print(r: Rehearsed) -> None:
    start = iso(r.window.start_ms)
    if r.now is None or r.then is None:
        click.echo(f"{start} {r.what}: {r.why}")
        if r.advice:
            click.echo(f"  what to do: {r.advice}")
        return
    copied = f"; {those(r.copied, 'row', 'come')} from the files in force" if r.copied else ""
    click.echo(f"{start} {r.what}{copied}")
    click.echo(f"  now:  {_words(r.now)} (generation {r.generation})")
    click.echo(f"  then: {_words(r.then)}")
    for line in r.columns:
        click.echo(f"  {line}")


def _words(c: Content) -> str:
    return f"{many(c.rows, 'row')} in {many(c.files, 'file')}, checksum {c.checksum}"


def _as_json(r: Rehearsed) -> dict[str, Any]:
    plain = {k: v for k, v in to_plain(r).items() if k not in ("window", "what")}
    return {"window_start_ms": r.window.start_ms, "window_end_ms": r.window.end_ms, "outcome": r.what, **plain}
