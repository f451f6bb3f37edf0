"""`tidegate init <topic>`: draft a pipeline's YAML from a sample of the topic's messages."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import NOT_WELL, WRONG, Failed
from tidegate.cli.output import progress
from tidegate.core.base.errors import SpecError
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.spec.draft import Draft, Wanted, pipeline_name, text
from tidegate.core.spec.draft_fields import MOST_ODD
from tidegate.core.spec.pipeline import Column, EventTime, Pipeline

if TYPE_CHECKING:
    from tidegate.core.source.port import LogState
    from tidegate.sources.first_look import FirstLook, Outcome, Sample

FORMATS = ("json", "csv", "avro", "protobuf", "raw")
LAKE = "TIDEGATE_LAKE"
_TRIES = 4
_SHOWN = 5
_SCHEMA_KEYS = ("delimiter", "fields", "wire", "schema", "registry_conn_id", "descriptor_set", "message")


@dataclass(frozen=True)
class _Asked:
    """The command's options."""

    format: str | None
    keys: Mapping[str, str]
    wanted: Wanted
    messages: int


_CHANGES = {".op", ".source.connector", ".source.ts_ms"}
"""Fields of the envelope that Debezium's connectors make."""


@click.command()
@click.argument("topic")
@click.option("--name", help="Name of the pipeline.  [default: the topic's, in lower case]")
@click.option("--conn-id", default="kafka_default", show_default=True, help="Airflow connection of Kafka.")
@click.option("--sink-conn-id", default="hiveserver2_default", show_default=True, help="Airflow connection of Hive.")
@click.option("--table", help="database.table.  [default: lake.<name>]")
@click.option("--location", help=f"Directory of the table, as a URI.  [default: <name> below ${LAKE}, in a trial]")
@click.option("--event-time", default="", metavar="FIELD", help="$.path of the event time, or kafka_timestamp.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format of the messages.  [default: as they look]")
@click.option("--fields", metavar="A,B,...", help="csv: names of the fields, in their order.")
@click.option("--delimiter", help="csv: what stands between fields.")
@click.option("--wire", type=click.Choice(("plain", "confluent")), help="avro, protobuf: with a schema's id or not.")
@click.option("--schema", type=click.Path(exists=True, dir_okay=False), help="avro: file of the schema.")
@click.option("--registry-conn-id", help="avro: Airflow connection of the schema registry.")
@click.option("--descriptor-set", type=click.Path(exists=True, dir_okay=False), help="protobuf: descriptor file.")
@click.option("--message", help="protobuf: full name of the message.")
@click.option("--messages", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="How many to read.")
@click.option("--write", is_flag=True, help="Write <name>.yaml into the pipelines folder; never over another file.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write that file instead.")
def init(topic: str, form: str | None, messages: int, write: bool, out: Path | None, **options: Any) -> None:
    """Look at a topic's messages and draft the YAML of a pipeline for it, each decision with its reason.

    The first, the middle and the last messages of each partition are read, without a consumer group; nothing is
    committed to Kafka. The draft goes to standard output, or with --write into the pipelines folder. Before that it is
    loaded as Airflow would load it, and the sample is decoded with it; what would be dirty is said on standard error.

    A type or a time format is one that at least 95 % of a field's values fit; its comment counts the rest.

    \b
    Examples:
      tidegate init readings
      tidegate init readings --write
      tidegate init shop.orders --name orders --event-time $.placed.at --out orders.yaml

    \b
    Exit code: 0 the draft is valid; 1 there is nothing to draft from, or the file is there; 2 usage; 3 cannot tell.
    """
    if write and out is not None:
        raise click.UsageError("--write and --out are two places: give one of them")
    asked = _asked(topic, form, messages, options)
    name = asked.wanted.name
    target = out if out is not None else surroundings.pipelines_folder() / f"{name}.yaml" if write else None
    if target is not None:
        _refuse_if_there(target)
    draft, content = _drafted(asked)
    _refuse_clash(name, content)
    if target is None:
        click.echo(content, nl=False)
        progress(f"this is a draft; to use it: tidegate init {topic} --write, with the same options")
        return
    _write_new(target, content)
    progress(f"written: {target}; look through it, then:" if write else f"written: {target}")
    if write:
        _say_next(name, draft)


def _say_next(name: str, draft: Draft) -> None:
    first = f"{name} {iso(draft.windows.start_ms).removesuffix('Z')}"
    for command, why in (
        (f"tidegate unpause {name}", "its DAGs begin; Airflow sees the file within a minute"),
        (f"tidegate status {name}", "how far it is"),
        (f"tidegate explain {first}", "the first window"),
    ):
        progress(f"  {command:44}  # {why}")
    if draft.windows.idle == "follow":
        progress(
            "the data looks like a load. When all of it is in, runs of later windows would wait for records and fail;"
            f' so then:\n  tidegate pause {name} --only archive --why "the load is complete"'
        )


def _asked(topic: str, form: str | None, messages: int, options: Mapping[str, Any]) -> _Asked:
    name = options["name"] or pipeline_name(topic)
    location = options["location"]
    if not location and not os.environ.get(LAKE):
        raise click.UsageError(
            f"where should the table's files be? Say --location file:///... or hdfs://... (${LAKE} is not set: no"
            " stack of a trial is up here)"
        )
    location = location or f"${{TIDEGATE_LAKE_FS:-file://}}${{{LAKE}}}/{name}"
    keys = {key: str(options[key]) for key in _SCHEMA_KEYS if options[key]}
    for file in ("schema", "descriptor_set"):
        if file in keys:
            keys[file] = str(Path(keys[file]).absolute())
    wanted = Wanted(
        name=name, topic=topic, conn_id=options["conn_id"], sink_conn_id=options["sink_conn_id"],
        table=options["table"] or f"lake.{name}", location=location, format={"type": form or "json"},
        event_time=options["event_time"],
    )  # fmt: skip
    return _Asked(form, keys, wanted, messages)


def _drafted(asked: _Asked) -> tuple[Draft, str]:
    """The draft that fits the sample best, and its YAML. Raises TidegateError, Failed."""
    from tidegate.core.spec.draft import UnknownField, draft, sample_ranges, text
    from tidegate.sources.first_look import FirstLook

    plain = _probe(asked, {"type": "json"})
    source = surroundings.source(plain)
    state = source.look(asked.wanted.topic)
    partitions = {p: (o.log_start, o.last_stable_offset) for p, o in state.partitions.items()}
    ranges = sample_ranges(partitions, asked.messages)
    if not ranges:
        raise Failed(f"topic {asked.wanted.topic} holds no records: a draft needs some to look at", NOT_WELL)
    now_ms = int(time.time() * 1000)
    told, probe = source.for_workers(), plain
    if asked.format == "raw" or asked.keys:
        probe = _probe(asked, _format_keys(asked, asked.format or "json", ()))
    with FirstLook(asked.wanted.topic, told.settings | told.secrets | surroundings.registry(probe)) as look:
        read = look.read(probe, state.topic_id, ranges)
        form = asked.format or _format(asked, read)
        wanted = replace(asked.wanted, format=_format_keys(asked, form, read.values))
        messages, bad = look.messages(_probe(asked, wanted.format))
        _refuse_undecodable(form, messages, bad, read)
        try:
            found = draft(wanted, messages, _records(state), read.gaps, now_ms)
        except UnknownField as e:
            raise click.UsageError(str(e)) from None
        _refuse_without_columns(found)
        found, outcome = _fitted(look, found, now_ms)
    _say(found, outcome, state, read)
    if {column.path.removeprefix("$.payload").removeprefix("$") for column in found.columns.columns} >= _CHANGES:
        progress("these are change events of a database's table (Debezium): sink.kind: mirror keeps that table, and")
        progress("format: {type: debezium} decodes them: docs/mirrors.md. The draft has the events as they are")
    return found, text(found)


def _fitted(look: FirstLook, found: Draft, now_ms: int) -> tuple[Draft, Outcome]:
    """Give a column whose type refuses its values a wider type, or drop it. Returns the draft and its outcome."""
    found = _acceptable(found)
    for _ in range(_TRIES):
        outcome = look.check(_loaded(found), now_ms)
        most = {c.name: MOST_ODD * (c.values or found.looked) for c in found.columns.columns}
        counts: dict[str, int] = {}
        for dirt in outcome.dirty:
            name = next(iter(dirt.field.split(".")[0].split("[")), "")
            counts[name] = counts.get(name, 0) + dirt.count
        better = found.without({name for name, count in counts.items() if name in most and count > most[name]})
        if better is None:
            break
        found = _acceptable(better)
    return found, look.check(_loaded(found), now_ms)


def _acceptable(found: Draft) -> Draft:
    """The draft with types that the message's schema allows (Avro, protobuf). Raises SpecError."""
    while True:
        try:
            _loaded(found)
            return found
        except SpecError as e:
            better = found.otherwise({int(i) for i in re.findall(r"columns\[(\d+)\]\.(?:type|from)", str(e))})
            if better is None:
                raise
            found = better


def _loaded(found: Draft) -> Pipeline:
    from tidegate.spec.loader import load_text

    return load_text(surroundings.pipelines_folder() / f"{found.wanted.name}.yaml", text(found))


def _probe(asked: _Asked, form: Mapping[str, Any]) -> Pipeline:
    """A pipeline that keeps every field as text. Raises SpecError for wrong options."""
    from tidegate.spec.formats import format_alone
    from tidegate.spec.loader import load_text

    w = asked.wanted
    folder = surroundings.pipelines_folder()
    content = (
        f"version: 1\nname: {w.name}\nowner: init\nsource: {{conn_id: {w.conn_id!r}, topic: {w.topic!r}}}\n"
        "columns: [{name: probe, type: string}]\nevent_time: {from: kafka_timestamp}\n"
        "windows: {start: 2000-01-01T00:00:00Z, watermark_delay: 1h}\npartition_by: [date, hour]\n"
        f"sink: {{conn_id: {w.sink_conn_id!r}, table: {w.table!r}, location: {w.location!r}}}\n"
    )
    found = load_text(folder / f"{w.name}.yaml", content)
    # Avro's reader wants a column; of the others none must keep a field out of `_extra`
    columns = (
        (Column(name="probe", type="string", path="$.tidegate_init"),) if form["type"] in ("avro", "protobuf") else ()
    )
    if form["type"] == "raw":
        columns = (Column(name="value", type="binary", path="$.value"),)
    return replace(found, columns=columns, format=format_alone(form, folder), event_time=EventTime(None))


def _format(asked: _Asked, read: Sample) -> str:
    if read.kind != "confluent":
        return read.kind
    raise Failed(
        f"the messages of {asked.wanted.topic} begin with the id of a schema (Confluent's format)\n"
        "  what to do: add --format avro --wire confluent --registry-conn-id <connection>, or --format protobuf"
        " --wire confluent --descriptor-set <file> --message <name>, or --format raw",
        WRONG,
    )


def _format_keys(asked: _Asked, form: str, values: tuple[str, ...]) -> dict[str, Any]:
    """Section `format` of the draft."""
    keys: dict[str, Any] = {"type": form}
    if form == "csv":
        first = values[0] if values else ""
        delimiter = asked.keys.get("delimiter") or max(",;\t|", key=first.count)
        numbered = [f"field_{i + 1}" for i in range(first.count(delimiter) + 1)]
        named = asked.keys.get("fields")
        keys["fields"] = [name.strip() for name in named.split(",")] if named else numbered
        if delimiter != ",":
            keys["delimiter"] = delimiter
    elif form in ("avro", "protobuf"):
        keys |= asked.keys
    if form != "raw":
        keys["unknown_fields"] = "capture"
    return keys


def _records(state: LogState) -> int:
    return sum(o.last_stable_offset - o.log_start for o in state.partitions.values())


# ---------------------------------------------------------------- what is said, and refused


def _refuse_undecodable(form: str, messages: list[Any], bad: list[str], read: Sample) -> None:
    if any(m.fields is not None for m in messages):
        return
    why = f": {bad[0]}" if bad else ""
    first = f"; the first one is {read.values[0][:80]!r}" if read.values else ""
    raise Failed(
        f"none of {many(read.read, 'message')} can be decoded as {form}{why}{first}\n"
        "  what to do: say another --format; raw takes any message",
        NOT_WELL,
    )


def _refuse_without_columns(found: Draft) -> None:
    if found.columns.columns:
        return
    left = "; ".join(found.columns.left[:_SHOWN]) or "the messages have no fields"
    raise Failed(
        f"no field of {many(found.looked, 'message')} can be a column: {left}\n"
        "  what to do: --format raw keeps the messages as they are; expressions can read them (docs/schema.md)",
        NOT_WELL,
    )


def _say(found: Draft, outcome: Outcome, state: LogState, read: Sample) -> None:
    progress(
        f"{found.wanted.topic}: {many(_records(state), 'record')} in {many(len(state.partitions), 'partition')};"
        f" looked at {many(found.looked, 'message')}{f' (cut {read.cut})' if read.cut else ''}"
    )
    dirty = sum(d.count for d in outcome.dirty)
    told = f"{found.looked - dirty:,} of {many(found.looked, 'message')} become rows"
    told += f", {outcome.late:,} of them late (before windows.start)" if outcome.late else ""
    progress(f"{told}; {dirty:,} would be dirty{':' if dirty else ''}")
    for d in outcome.dirty[:_SHOWN]:
        where = f"{d.field}: " if d.field else ""
        progress(f"  {d.count:,}x {where}{d.reason} (partition {d.partition}, offset {d.offset})")
    if dirty * 100 > found.looked:
        progress(
            "WARNING: more than 1 % dirty records refuse a batch. Fix the draft: `type: string, convert: text` takes"
            " any plain value; or raise dirty.max_ratio (docs/pipeline.md)"
        )
    for reason in found.columns.left:
        progress(f"no column for {reason}; it is kept in _extra")
    if found.time is None and found.wanted.format["type"] != "raw" and not found.wanted.event_time:
        _warn_of_arrival(found)


def _warn_of_arrival(found: Draft) -> None:
    progress(
        "WARNING: no field of the sample is surely the event time, so that the draft uses Kafka's timestamp: records"
        " land in windows by when they came to Kafka, not by when they happened; a load of old data lands in one window"
    )
    for one in found.others[:_SHOWN]:
        progress(f"  near it: {one.path} ({one.format}), in {one.share:.1%} of the messages".replace("%", " %"))
    field = found.others[0].path if found.others else "$.FIELD"
    progress(f"  if a field is the event time: tidegate init {found.wanted.topic} --event-time '{field}'")
    progress("  if Kafka's timestamp is right: --event-time kafka_timestamp, and this is not said again")


def _refuse_if_there(path: Path) -> None:
    if path.exists():
        raise Failed(f"{path} is there already; remove it, or say another --name", NOT_WELL)


def _refuse_clash(name: str, content: str) -> None:
    """Raises Failed where another pipeline writes the same table."""
    from tidegate.spec.loader import load_folder, load_text
    from tidegate.spec.territory import Territory

    folder = surroundings.pipelines_folder()
    territory = Territory()
    for one in load_folder(folder) if folder.is_dir() else ():
        if one.pipeline is not None and one.name != name:
            territory.claim(one.pipeline)
    problem = territory.claim(load_text(folder / f"{name}.yaml", content))
    if problem is not None:
        raise Failed(f"{problem.message}\n  what to do: say another --table and --location", NOT_WELL)


def _write_new(path: Path, content: str) -> None:
    """Write the whole file at once, never over another."""
    import tempfile

    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
            os.link(file.name, path)
    except FileExistsError:
        _refuse_if_there(path)
        raise
    except OSError as e:
        raise Failed(f"{path} cannot be written: {e.strerror}", NOT_WELL) from None
