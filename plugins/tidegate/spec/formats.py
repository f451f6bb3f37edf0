"""Message formats: section `format`, and its rules for columns and event time.

Files that a spec names (Avro schemas, descriptors) are read here, and stand in the compiled pipeline: what a batch was
planned with does not change with a file.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from tidegate.core.base.errors import SpecError
from tidegate.core.base.hivetypes import HiveType, is_primitive, parse
from tidegate.core.spec import avro, change_events
from tidegate.core.spec.paths import parse as parse_path
from tidegate.core.spec.pipeline import (
    RAW_HEADERS,
    RAW_PARTS,
    SKIPPED_FIELD,
    AvroFormat,
    CsvFormat,
    DebeziumFormat,
    Format,
    ProtobufFormat,
)
from tidegate.spec.document import Path as Place
from tidegate.spec.model import EventTimeSpec, FormatSpec, PipelineSpec
from tidegate.spec.problems import Problem
from tidegate.spec.values import KAFKA_TIMESTAMP, is_inline

REGISTRY = ("schemas", "registry_conn_id", "unknown_schema")
"""Keys that say what the schema ids of Confluent's wire format mean."""
KEYS: dict[str, frozenset[str]] = {
    "json": frozenset(),
    "csv": frozenset({"fields", "delimiter", "quote", "escape", "null_text"}),
    "avro": frozenset({"wire", "schema", *REGISTRY}),
    "protobuf": frozenset({"wire", "descriptor_set", "message"}),
    "raw": frozenset(),
    "debezium": frozenset({"envelope", "encoding", *REGISTRY}),
}
"""Keys of `format` for each type, beside `type` and `unknown_fields`."""
LARGEST = 4 * 1024 * 1024
"""Most bytes of a schema or descriptor file, which travels with every plan."""
Steps = tuple[str, ...]
Wanted = Callable[[Steps, HiveType | None], str | None]
"""Function that says why a path cannot give a type (None: the event time)."""


def compile_format(spec: PipelineSpec, folder: Path) -> tuple[Format, list[Problem]]:
    """The compiled format, and every problem with it; `folder` is the YAML's."""
    given, files = spec.format, _Files(folder)
    found = list(_keys(given))
    result = Format(given.type, given.unknown_fields)
    if not found:
        build = _BUILDERS.get(given.type)
        if build is not None:
            result, wanted = build(spec, files, found)
            found += files.problems
            if wanted is not None and not found:
                found += _columns(spec, wanted)
    return result, found


def format_alone(values: Mapping[str, object], folder: Path) -> Format:
    """Section `format` compiled before there are columns. Raises SpecError."""
    try:
        given = FormatSpec.model_validate(values)
    except ValidationError as e:
        raise SpecError(e.errors()[0]["msg"], where="format") from None
    event_time = EventTimeSpec.model_validate({"from": KAFKA_TIMESTAMP})
    spec = PipelineSpec.model_construct(format=given, columns=(), event_time=event_time)
    result, found = compile_format(spec, folder)
    if found:
        raise SpecError(found[0].message, where="format", field=".".join(map(str, found[0].path[1:])))
    return result


def _keys(given: FormatSpec) -> Iterator[Problem]:
    """Problems: keys of other types, and missing ones."""
    mine = KEYS[given.type]
    names = {(field.alias or name): name for name, field in FormatSpec.model_fields.items()}
    for key, name in names.items():
        if key in ("type", "unknown_fields") or name not in given.model_fields_set:
            continue
        if key not in mine:
            yield Problem(("format", key), f"has no meaning with format.type {given.type}; leave it out")
    needed = {"csv": ("fields",), "protobuf": ("descriptor_set", "message")}.get(given.type, ())
    if given.type == "avro":
        yield from _avro_keys(given)
    if given.type == "debezium":
        yield from _debezium_keys(given)
    for key in needed:
        if getattr(given, key) is None:
            yield Problem(("format", key), f"is required with format.type {given.type}")
    if given.type == "raw" and given.unknown_fields != "ignore":
        yield Problem(("format", "unknown_fields"), "raw records have no fields: leave it out")
    elif given.type != "debezium" and given.unknown_fields == "evolve":
        message = "evolve takes types from the schemas of change events (format.type debezium): set it to fail"
        yield Problem(("format", "unknown_fields"), message)


def _avro_keys(given: FormatSpec) -> Iterator[Problem]:
    if given.wire == "plain":
        if given.schema_ is None:
            yield Problem(("format", "schema"), "is required with wire: plain: messages do not say their schema")
        for key in REGISTRY:
            if key in given.model_fields_set:
                yield Problem(("format", key), "has no meaning with wire: plain; leave it out, or set wire: confluent")
    else:
        if given.schema_ is not None:
            message = "has no meaning with wire: confluent: messages say their schemas; use schemas or registry_conn_id"
            yield Problem(("format", "schema"), message)
        if not given.schemas and given.registry_conn_id is None:
            yield Problem(
                ("format", "registry_conn_id"), "wire: confluent needs registry_conn_id, or schemas by their ids"
            )


def _debezium_keys(given: FormatSpec) -> Iterator[Problem]:
    if given.encoding == "json":
        for key in REGISTRY:
            if key in given.model_fields_set:
                yield Problem(
                    ("format", key), "has no meaning with encoding: json; leave it out, or set encoding: avro"
                )
    elif not given.schemas and given.registry_conn_id is None:
        yield Problem(("format", "registry_conn_id"), "encoding: avro needs registry_conn_id, or schemas by their ids")


def _columns(spec: PipelineSpec, wanted: Wanted) -> Iterator[Problem]:
    for i, column in enumerate(spec.columns):
        if column.expr is not None:
            continue
        path = parse_path(column.from_ or f"$.{column.name}")
        message = wanted(path, parse(column.type))
        if message:
            key = "from" if column.from_ is not None else "type"
            yield Problem(("columns", i, key), message)
    if spec.event_time.from_ != KAFKA_TIMESTAMP:
        message = wanted(parse_path(spec.event_time.from_), None)
        if message:
            yield Problem(("event_time", "from"), message)


class _Files:
    """Reads files that the spec names, once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.problems: list[Problem] = []

    def text(self, source: str, place: Place) -> str:
        """A schema: the text itself, or the content of the file that it names."""
        if is_inline(source):
            return source
        content = self.content(source, place)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            self.problems.append(Problem(place, f"{source} is not UTF-8 text"))
            return ""

    def content(self, name: str, place: Place) -> bytes:
        path = self._folder / name
        try:
            if path.stat().st_size > LARGEST:
                self.problems.append(Problem(place, f"{name} is larger than {LARGEST >> 20} MB"))
                return b""
            return path.read_bytes()
        except OSError as e:
            self.problems.append(Problem(place, f"{name} cannot be read (looked for it at {path}): {e.strerror}"))
            return b""


def _csv(spec: PipelineSpec, files: _Files, found: list[Problem]) -> tuple[Format, Wanted]:
    given = spec.format
    names = given.fields or ()
    for i, name in enumerate(names):
        if name != SKIPPED_FIELD and name in names[:i]:
            found.append(Problem(("format", "fields", i), f"{name} is there already"))
    marks: dict[str, str] = {}
    for key in ("delimiter", "quote", "escape"):
        mark = getattr(given, key)
        if mark is not None and mark in marks:
            found.append(Problem(("format", key), f"is the same as {marks[mark]}"))
        elif mark is not None:
            marks[mark] = key

    def wanted(path: Steps, kind: HiveType | None) -> str | None:
        if len(path) != 1 or path[0] not in names or path[0] == SKIPPED_FIELD:
            return f"$.{'.'.join(path)} is not one of format.fields ({', '.join(names)})"
        if kind is not None and not is_primitive(kind):
            return f"a field of a CSV record cannot be {kind}; read it as string"
        return None

    settings = CsvFormat(tuple(names), given.delimiter, given.quote, given.escape, given.null_text)
    return Format("csv", given.unknown_fields, csv=settings), wanted


def _avro(spec: PipelineSpec, files: _Files, found: list[Problem]) -> tuple[Format, Wanted | None]:
    given = spec.format
    plain = files.text(given.schema_, ("format", "schema")) if given.schema_ is not None else None
    by_id = _by_id(given, files)
    settings = AvroFormat(given.wire, plain, by_id, given.registry_conn_id, given.unknown_schema)
    result = Format("avro", given.unknown_fields, avro=settings)
    texts: dict[Place, str] = {("format", "schemas", str(n)): text for n, text in by_id.items()}
    if plain is not None:
        texts = {("format", "schema"): plain, **texts}
    schemas = [] if files.problems else _parsed(texts, found)
    return result, (lambda path, kind: _avro_misfit(schemas, path, kind, given.registry_conn_id)) if schemas else None


def _by_id(given: FormatSpec, files: _Files) -> dict[int, str]:
    return {n: files.text(source, ("format", "schemas", str(n))) for n, source in (given.schemas or {}).items()}


def _parsed(texts: Mapping[Place, str], found: list[Problem]) -> list[avro.Schema]:
    """The schemas; the problem of each invalid one."""
    schemas: list[avro.Schema] = []
    for place, text in texts.items():
        try:
            schemas.append(avro.parse(text))
        except ValueError as e:
            found.append(Problem(place, f"is no Avro schema: {e}"))
            continue
        if schemas[-1].type != "record":
            found.append(Problem(place, f"is {schemas[-1]}, not a record: columns have no fields to look at"))
    return schemas


def _avro_misfit(schemas: list[avro.Schema], path: Steps, kind: HiveType | None, registry: str | None) -> str | None:
    """A column must fit each of the schemas that has its field, and one must have it unless there may be others."""
    missing = 0
    for schema in schemas:
        try:
            found = avro.at(schema, path)
        except ValueError as e:
            return str(e)
        if not found:
            missing += 1
            continue
        reasons = [avro.event_misfit(one) if kind is None else avro.misfit(one, kind) for one in found]
        if None not in reasons:
            return reasons[0]
    if missing == len(schemas) and registry is None:
        return f"the schema has no field $.{'.'.join(path)}"
    return None


def _protobuf(spec: PipelineSpec, files: _Files, found: list[Problem]) -> tuple[Format, Wanted | None]:
    from tidegate import descriptors  # only those who need it pay for the library

    given, place = spec.format, ("format", "descriptor_set")
    encoded = base64.b64encode(files.content(given.descriptor_set or "", place)).decode()
    settings = ProtobufFormat(encoded, given.message or "", given.wire)
    result = Format("protobuf", given.unknown_fields, protobuf=settings)
    if files.problems:
        return result, None
    try:
        message = descriptors.message_type(encoded, settings.message)
    except ValueError as e:
        key = "message" if "has no message" in str(e) else "descriptor_set"
        found.append(Problem(("format", key), f"{given.descriptor_set} {e}"))
        return result, None

    def wanted(path: Steps, kind: HiveType | None) -> str | None:
        try:
            fields = descriptors.at(message, path)
        except ValueError as e:
            return str(e)
        if fields is None:
            return f"{message.full_name} has no field $.{'.'.join(path)}"
        return descriptors.event_misfit(fields[-1]) if kind is None else descriptors.misfit(fields[-1], kind)

    return result, wanted


def _raw(spec: PipelineSpec, files: _Files, found: list[Problem]) -> tuple[Format, Wanted]:
    if spec.event_time.from_ != KAFKA_TIMESTAMP:
        found.append(Problem(("event_time", "from"), f"raw records have no time but Kafka's: {KAFKA_TIMESTAMP}"))

    def wanted(path: Steps, kind: HiveType | None) -> str | None:
        if len(path) == 1 and str(kind) in RAW_PARTS.get(path[0], ()):
            return None
        return f"a raw record has $.key and $.value (binary or string) and $.headers ({RAW_HEADERS})"

    return Format("raw"), wanted


def _debezium(spec: PipelineSpec, files: _Files, found: list[Problem]) -> tuple[Format, Wanted]:
    given = spec.format

    def wanted(path: Steps, kind: HiveType | None) -> str | None:
        top, below = path[0], path[1:]
        if given.envelope == change_events.FLAT and str(top).startswith("__"):
            return "names of a flat event that begin with __ are those of add.fields: read the full envelope"
        if top == change_events.POSITION and below not in (("commit",), ("row",)):
            return "a position has $._position.commit and $._position.row"
        if top in (change_events.OPERATION, change_events.TS_MS) and below:
            return f"$.{top} is no object"
        return None

    settings = DebeziumFormat(given.envelope, given.encoding)
    if given.encoding == "json":
        return Format("debezium", given.unknown_fields, debezium=settings), wanted
    by_id = _by_id(given, files)
    if not files.problems:
        _parsed({("format", "schemas", str(n)): text for n, text in by_id.items()}, found)
    schemas = AvroFormat("confluent", None, by_id, given.registry_conn_id, given.unknown_schema)
    return Format("debezium", given.unknown_fields, avro=schemas, debezium=settings), wanted


_BUILDERS: dict[str, Callable[[PipelineSpec, _Files, list[Problem]], tuple[Format, Wanted | None]]] = {
    "csv": _csv,
    "avro": _avro,
    "protobuf": _protobuf,
    "raw": _raw,
    "debezium": _debezium,
}
