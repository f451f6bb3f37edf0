"""`tidegate where`: the fate of one record, or of the events of a mirror's key, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.text import Text

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import advice, console, json_option, paragraph, print_json, progress
from tidegate.cli.windows import parse_window
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.mirror.key_values import NoKey
from tidegate.core.window.cut import time_values

if TYPE_CHECKING:
    from tidegate.core.look.fate import Fate
    from tidegate.core.mirror.key_history import Happened
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.workflow.look.where import Answer
    from tidegate.workflow.look.where_key import KeyAnswer


@click.command()
@surroundings.pipeline_argument
@click.argument("partition", type=click.IntRange(min=0), required=False)
@click.argument("offset", type=click.IntRange(min=0), required=False)
@click.option(
    "--key",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Of a mirror: its events of this key; once for each column.",
)
@click.option("--day", metavar="DAY", help="With --key, of a mirror by days: the row of this day, and not the newest.")
@json_option
def where(
    pipeline: str, partition: int | None, offset: int | None, key: tuple[str, ...], day: str | None, as_json: bool
) -> None:
    """Say what became of the record at OFFSET of Kafka partition PARTITION, or of the events of a mirror's key.

    For a published record it names batch, attempt, generation and file; for a late or dirty one the reason and the
    place; for any other what it waits for, or why no table has it. A recreated topic has the same offsets again: then
    there is an answer for each topic id, the newest first. Kafka and Hive need not answer; the command says which of
    them it could not ask.

    With --key it looks into the files of all landed batches, and tells the newest 1,000 events of the key, the newest
    first: where each is, which are merged, which wait, and which one made the row that is seen. Of a mirror by days it
    tells the day of each event, and which one made the row of the newest published day, or of --day.

    \b
    Examples:
      tidegate where flights 0 48210
      tidegate where orders --key id=42
      tidegate where orders_by_day --key id=42 --day 2026-01-31
      tidegate where flights 0 48210 --json | jq -r '.fates[0].kind'

    \b
    Exit code: 0 settled (published, late, dirty, filtered, dropped, a gap, or before the pipeline began to read);
    1 not, or lost; 2 no such pipeline, or its rows have no offsets (kafka_columns: false);
    3 the ledger gives no answer. With --key: 0 the newest event is merged; 1 the newest event waits, the key has
    no event, two events contradict each other, a file could not be read, or --day is not published; 2 --key
    does not fit the table's key, or the table has none.
    """
    if day is not None and not key:
        raise click.UsageError("--day goes with --key")
    if bool(key) == (partition is not None) or (partition is not None and offset is None):
        raise click.UsageError("say PARTITION and OFFSET, or of a mirror --key for each column of the key")
    if partition is None or offset is None:
        raise SystemExit(_where_key(surroundings.pipeline_named(pipeline), key, day, as_json))
    raise SystemExit(_where(pipeline, partition, offset, as_json))


def _where(pipeline: str, partition: int, offset: int, as_json: bool) -> int:
    from tidegate.adapters.rows import RowProcess
    from tidegate.workflow.look.where import where as where_is

    spec = surroundings.pipeline_named(pipeline)
    reader = RowProcess(secrets=surroundings.storage_secrets(spec))
    with reader as rows, surroundings.ledger() as ledger:
        found = where_is(surroundings.context(spec, ledger), ledger.reads, rows, partition, offset)
    if as_json:
        print_json(found)
    else:
        _print(found)
    return WELL if found.fates and found.fates[0].settled else NOT_WELL


def _print(found: Answer) -> None:
    out = console()
    for n, fate in enumerate(found.fates):
        what = f"{found.pipeline} partition {found.partition} offset {found.offset}"
        topic = f" of topic id {fate.topic_id}" if len(found.fates) > 1 else ""
        style = ("bold green" if fate.settled else "bold yellow") if n == 0 else "bold"
        out.print(Text(f"{what}{topic}: {fate.kind}", style=style))
        paragraph(out, "fate", fate.words)
        for label, text in _details(fate):
            advice(out, label, text)
    for note in found.notes:
        paragraph(out, "note", note, "yellow")


def _details(fate: Fate) -> list[tuple[str, str]]:
    published = iso(fate.published_ms // 1000 * 1000) if fate.published_ms is not None else ""
    told = (("published", published), ("table", fate.table), ("file", fate.file), ("next", fate.next_step))
    return [(label, text) for label, text in told if text]


# ---------------------------------------------------------------- by key


def _where_key(spec: Pipeline, given: Sequence[str], day: str | None, as_json: bool) -> int:
    """Print what became of the key's events. Returns the exit code. Raises click.UsageError for what is no key, and
    for a day of a mirror without days."""
    from tidegate.adapters.rows import RowProcess
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
        _print_key(spec, found)
    return WELL if found.settled else NOT_WELL


def _print_key(spec: Pipeline, found: KeyAnswer) -> None:
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
