"""`tidegate clean`: one round of the maintenance DAG's cleaning, at once or as a dry run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import json_option, print_json, progress

if TYPE_CHECKING:
    from tidegate.workflow.clean.duties import Cleaned

_WORDS = {
    "attempts": "work directories of attempts",
    "plans": "plan files",
    "landed": "remains of landed batches",
    "side": "staging directories of late and dirty files",
    "publish": "directories that windows were assembled in",
    "generations": "files and folders of generations that are no longer in force",
    "quarantine": "quarantined directories",
    "metadata": "metadata files and manifests that an Iceberg table needs no more",
}


@click.command()
@surroundings.pipeline_argument
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, change nothing.")
@click.option("--limit", default=500, show_default=True, type=click.IntRange(1), help="Deletions at most.")
@json_option
def clean(pipeline: str, dry_run: bool, limit: int, as_json: bool) -> None:
    """Delete files that no task or reader can need any more, by the ledger's proof and the spec's section `clean`.

    The DAG <pipeline>.maintain does the same every ten minutes. It keeps and lists files that contradict the ledger.

    \b
    Examples:
      tidegate clean flights --dry-run
      tidegate clean flights --json | jq .deleted

    \b
    Exit code: 0 done; 1 something contradicts the ledger, or could not be deleted; 2 no such pipeline;
    3 the ledger or the storage gives no answer.
    """
    from tidegate.workflow.clean.duties import clean as one_round

    spec = surroundings.pipeline_named(pipeline)
    with surroundings.looking(spec, progress) as ctx:
        found = one_round(ctx, limit, dry_run)
    if as_json:
        told = {"deleted": found.deleted, "kept": found.kept, "left": found.left}
        print_json({"pipeline": pipeline, "dry_run": dry_run} | told)
    else:
        _print(pipeline, found, dry_run)
    raise SystemExit(NOT_WELL if found.kept else WELL)


def _print(pipeline: str, found: Cleaned, dry_run: bool) -> None:
    for item in found.deleted if dry_run else ():
        click.echo(f"would delete {item.path}: {item.why}")
    verb = "would delete" if dry_run else "deleted"
    for kind, count in sorted(Counter(item.kind for item in found.deleted).items()):
        click.echo(f"{pipeline}: {verb} {count:,} {_WORDS[kind]}")
    if not found.deleted:
        click.echo(f"{pipeline}: nothing to clean")
    for item in found.kept:
        click.echo(f"KEPT {item.path}: {item.why}")
    if found.left:
        click.echo("the limit is reached, there is more: run it again")
