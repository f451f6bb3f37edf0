"""`tidegate changes`: the files of change events since a token, for incremental readers."""

from __future__ import annotations

import click

from tidegate.cli import surroundings
from tidegate.cli.output import json_option, print_json
from tidegate.core.base.wording import many, size


@click.command()
@surroundings.pipeline_argument
@click.option("--after", metavar="TOKEN", help="What the last reading printed.  [default: from the beginning]")
@click.option("--until", metavar="TOKEN", help="The last batch to read, included.  [default: the newest landed one]")
@json_option
def changes(pipeline: str, after: str | None, until: str | None, as_json: bool) -> None:
    """Print the files of a mirror's change events that landed after TOKEN, and the next token.

    PIPELINE is its name, or the table as database.table. A token names the last batch that was read. The same token
    gives the same events again: store it together with what you make of them. In Python: `tidegate.changes`.

    \b
    Examples:
      tidegate changes orders
      tidegate changes orders --after 41 --json | jq -r '.files[].path'

    \b
    Exit code: 0; 1 --until names a batch that has not landed yet; 2 wrong usage, no token, or a pipeline with windows;
    3 the ledger gives no answer, or knows no such pipeline.
    """
    from tidegate.changes import changes as read

    try:
        found = read(pipeline, after, until)
    except ValueError as e:
        raise click.BadParameter(str(e)) from None
    if as_json:
        files = [{"batch_id": f.batch_id, "path": f.path, "rows": f.rows, "bytes": f.bytes} for f in found.files]
        print_json({"pipeline": found.pipeline, "token": found.token, "rows": found.rows, "files": files})
        return
    for f in found.files:
        click.echo(f"batch {f.batch_id}: {f.path}  {many(f.rows, 'event')}, {size(f.bytes)}")
    click.echo(f"{found.pipeline}: {many(found.rows, 'event')}; token {found.token}")
