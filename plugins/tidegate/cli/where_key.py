"""`tidegate where --key`: the events of a mirror's key, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import advice, console, paragraph, print_json, progress
from tidegate.core.base.wording import many

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.workflow.look.where_key import KeyAnswer


def print_key(spec: Pipeline, given: Sequence[str], as_json: bool) -> int:
    """Print what became of the key's events. Returns the exit code. Raises click.UsageError for what is no key."""
    from tidegate.adapters.rows import RowProcess
    from tidegate.core.mirror.key_values import NoKey
    from tidegate.workflow.look.where_key import key_of, where_key

    if spec.windows.closes:
        raise click.UsageError(f"{spec.name} is published by windows, so it has no key: say PARTITION and OFFSET")
    with surroundings.ledger() as ledger:
        ctx = surroundings.context(spec, ledger, progress)
        try:
            key = key_of(ctx, given)
        except NoKey as e:
            raise click.UsageError(f"--key: {e}") from None
        with RowProcess(secrets=surroundings.storage_secrets(spec)) as rows:
            found = where_key(ctx, rows, key)
    if as_json:
        print_json(found)
    else:
        _print(found)
    return WELL if found.settled else NOT_WELL


def _print(found: KeyAnswer) -> None:
    from rich.text import Text

    out = console()
    key = ", ".join(f"{name}={text}" for name, text in found.key.items())
    style = "bold green" if found.settled else "bold yellow"
    out.print(Text(f"{found.pipeline} {key}: {_summary(found)}", style=style))
    upto = f"batches 1 to {found.upto}" if found.upto else "no batch yet"
    paragraph(out, "table", f"{found.table} holds {upto}, as the ledger has it")
    for event in found.events:
        position = f"({event.commit}, {event.row}, {event.n})"
        what = f"{event.operation} at {position}, partition {event.partition} offset {event.offset}"
        paragraph(out, event.state, f"{what}, batch {event.batch_id}: {event.words}")
        advice(out, "", event.file)
    for note in found.notes:
        paragraph(out, "note", note, "yellow")
    if not found.newest_merged and found.events:
        advice(out, "next", f"tidegate apply {found.pipeline}")


def _summary(found: KeyAnswer) -> str:
    if not found.events:
        return "no event of this key has landed"
    shown = "" if found.count == len(found.events) else f", of which these are the newest {len(found.events):,}"
    seen = "none is merged" if found.seen is None else f"batch {found.seen.batch_id} {found.seen.words}"
    return f"{many(found.count, 'event')}{shown}; {seen}"
