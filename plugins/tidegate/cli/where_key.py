"""`tidegate where --key`: the events of a mirror's key, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.explain import parse_window
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import advice, console, paragraph, print_json, progress
from tidegate.core.base.wording import many
from tidegate.core.window.cut import time_values

if TYPE_CHECKING:
    from tidegate.core.mirror.key_history import Happened
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.workflow.look.where_key import KeyAnswer


def print_key(spec: Pipeline, given: Sequence[str], day: str | None, as_json: bool) -> int:
    """Print what became of the key's events. Returns the exit code. Raises click.UsageError for what is no key, and
    for a day of a mirror without days."""
    from tidegate.adapters.rows import RowProcess
    from tidegate.core.mirror.key_values import NoKey
    from tidegate.workflow.look.where_key import key_of, where_key, where_key_by_days

    if "key" not in dict(spec.sink.options):
        raise click.UsageError(f"{spec.name} is published by windows, so it has no key: say PARTITION and OFFSET")
    if day is not None and not spec.windows.closes:
        raise click.UsageError(f"{spec.name} is not kept by days: leave --day out")
    window = None if day is None else parse_window(spec, day)
    with surroundings.ledger() as ledger:
        ctx = surroundings.context(spec, ledger, progress)
        try:
            key = key_of(ctx, given)
        except NoKey as e:
            raise click.UsageError(f"--key: {e}") from None
        with RowProcess(secrets=surroundings.storage_secrets(spec)) as rows:
            if spec.windows.closes:
                found = where_key_by_days(ctx, ledger.reads, rows, key, window)
            else:
                found = where_key(ctx, rows, key)
    if as_json:
        print_json(found)
    else:
        _print(spec, found)
    return WELL if found.settled else NOT_WELL


def _print(spec: Pipeline, found: KeyAnswer) -> None:
    from rich.text import Text

    out = console()
    key = ", ".join(f"{name}={text}" for name, text in found.key.items())
    style = "bold green" if found.settled else "bold yellow"
    out.print(Text(f"{found.pipeline} {key}: {_summary(found)}", style=style))
    paragraph(out, "table", f"{found.table} {_stands(spec, found)}, as the ledger has it")
    for event in found.events:
        position = f"({event.commit}, {event.row}, {event.n})"
        day = "" if event.day_ms is None else f", day {_day(spec, event.day_ms)}"
        paragraph(out, event.state, f"{event.operation} at {position}, {_from(event)}{day}: {event.words}")
        advice(out, "", event.file)
    for note in found.notes:
        paragraph(out, "note", note, "yellow")
    if not found.newest_merged and found.events:
        step = "status" if spec.windows.closes else "apply"
        advice(out, "next", f"tidegate {step} {found.pipeline}")


def _from(event: Happened) -> str:
    """Where it came from."""
    if event.batch_id < 0:
        return f"read by copy {event.n}, row {event.offset + 1:,} of chunk {-event.batch_id}"
    return f"partition {event.partition} offset {event.offset}, batch {event.batch_id}"


def _stands(spec: Pipeline, found: KeyAnswer) -> str:
    if spec.windows.closes:
        return "has no day yet" if found.day_ms is None else f"at the end of {_day(spec, found.day_ms)}"
    return f"holds batches 1 to {found.upto}" if found.upto else "holds no batch yet"


def _day(spec: Pipeline, start_ms: int) -> str:
    """As its partition is called."""
    return str(time_values(start_ms, spec.time_partitions, spec.windows.timezone)[0][1])


def _of(event: Happened) -> str:
    return f"batch {event.batch_id}" if event.batch_id > 0 else f"chunk {-event.batch_id} of copy {event.n}"


def _summary(found: KeyAnswer) -> str:
    if not found.events:
        return "no event of this key has landed"
    shown = "" if found.count == len(found.events) else f", of which these are the newest {len(found.events):,}"
    seen = "none is merged" if found.seen is None else f"{_of(found.seen)} {found.seen.words}"
    return f"{many(found.count, 'event')}{shown}; {seen}"
