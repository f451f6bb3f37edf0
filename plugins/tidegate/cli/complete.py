"""`tidegate complete`: ask another system for its count of a window, or accept the window as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, WELL, Failed
from tidegate.cli.output import json_option, print_json, progress, stripped, sure, yes_option
from tidegate.cli.windows import parse_window
from tidegate.core.base.errors import LostComparison

if TYPE_CHECKING:
    from tidegate.core.window.answer import Answer
    from tidegate.core.window.states import WindowKey
    from tidegate.workflow.base.context import Context


@click.command()
@surroundings.pipeline_argument
@click.argument("window")
@click.option("--why", default="", metavar="TEXT", callback=stripped,
              help="Accept it, and why; for the event log and the certificate.")  # fmt: skip
@yes_option
@json_option
def complete(pipeline: str, window: str, why: str, yes: bool, as_json: bool) -> None:
    """Ask the system that `completeness:` names for its count of a window; with --why, accept what is there.

    WINDOW is an instant in it, its partition or its id.

    An accepted window no longer waits for that count, and Tidegate does not ask about it again. It is published
    with a warning: its certificate says what is missing, and why it was accepted. It still waits for its watermark.

    \b
    Examples:
      tidegate complete flights 2013-01-26T16:00Z
      tidegate complete flights 2013-01-26T16:00Z --why "331 events were lost at the airport's gateway"

    \b
    Exit code: 0 complete, or accepted; 1 not complete, or refused; 2 usage, or no such key in the YAML; 3 the ledger
    gives no answer.
    """
    from tidegate.completeness.connection import truth_of
    from tidegate.wiring import command_lookup
    from tidegate.workflow.completeness import ask

    spec = surroundings.pipeline_named(pipeline)
    if spec.completeness is None:
        raise click.UsageError(f"{pipeline}: its YAML has no section `completeness`: there is no other system to ask")
    if as_json and why and not yes:
        raise click.UsageError("--json cannot ask you: add --yes to accept the window")
    key = parse_window(spec, window)
    with surroundings.looking(spec, progress) as ctx:
        ctx.truth = truth_of(spec, command_lookup)
        answer, comparison = ask.ask(ctx, key)
        if not as_json:
            click.echo(f"{spec.name} {window}: {comparison.text}")
        accepting = bool(why) and answer.accepted is None
        if accepting:
            _accept(ctx, key, answer, why, yes)
            answer, comparison = ask.ask(ctx, key)  # the accepted one, without another question
    if as_json:
        print_json({"pipeline": spec.name, "start_ms": key.start_ms, "end_ms": key.end_ms, "comparison": comparison})
    elif accepting:
        what = f"a run of {spec.name}.archive that waits goes on within a minute; clear one that has failed"
        click.echo(f"accepted: {what}")
    elif why:
        click.echo("it was accepted before, and that stays")
    raise SystemExit(WELL if comparison.action == "publish" or comparison.accepted is not None else NOT_WELL)


def _accept(ctx: Context, key: WindowKey, answer: Answer, why: str, yes: bool) -> None:
    from tidegate.workflow.completeness import ask

    sure(why, yes, "Publish it with what is there?")
    try:
        ask.accept(ctx, key, answer, why)
    except LostComparison as e:
        raise Failed(f"{e}\n  what to do: run this command again, and look at what it shows", NOT_WELL) from None
