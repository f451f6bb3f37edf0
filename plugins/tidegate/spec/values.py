"""The kinds of values that a pipeline's YAML holds: how each is read, refused, and described to editors.

Each kind is an annotated type for the models; what a parser raises is a ValueError whose text ends up beside file, line
and field. JSON schema keys that start with `x-` feed the reference only.
"""

from __future__ import annotations

import functools
import json
import re
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema

from tidegate.core.base import hivetypes
from tidegate.core.spec import paths

DURATION_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZE_UNITS = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
EPOCHS = ("epoch_s", "epoch_ms", "epoch_us", "epoch_ns", "iso8601")
KAFKA_TIMESTAMP = "kafka_timestamp"
LONGEST, LARGEST, MOST = 100 * 365 * 86_400_000, 1024**4, 10**12
"""Bounds of durations (ms), sizes (bytes) and counts: whatever is beyond them is a slip, and fits no column."""
YEARS = (1971, 2200)

_DURATION = r"\d+(ms|s|m|h|d)"
_SIZE = r"\d+(B|KB|MB|GB)"
_PATH_CHARACTERS = r"\w.@+=~\-"
_IDENTIFIER = r"[a-z][a-z0-9_]*"
_COLUMN = r"[A-Za-z][A-Za-z0-9_]*"
_CONNECTION = r"[\w#!()\-.:/\\]+"  # what Airflow allows
_TOPIC = r"[A-Za-z0-9._-]+"


def show(value: object) -> str:
    """A value the way its author would write it, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """` (did you mean ...?)`, or nothing when nothing is near."""
    close = get_close_matches(word, known, n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {show(value)}" + ("" if value is None else "; put it in quotes"))
    return value


@dataclass(frozen=True, eq=False)
class _Kind:
    """Beside a type: how a value is read, and described."""

    parse: Callable[[Any], Any]
    schema: dict[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(Annotated[source, BeforeValidator(self.parse), WithJsonSchema(self.schema)])


def _kind(parse: Callable[[Any], Any], name: str, **schema: Any) -> _Kind:
    """Read by `parse`, described as `name` (schema: further JSON schema keys)."""
    return _Kind(parse, {"type": "string", **schema, "x-type": name})


@dataclass(frozen=True)
class OneOf:
    """Beside a `Literal`: one of its words; beside `str`: one of `words`."""

    words: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        available = self.words or get_args(source)

        def parse(value: object) -> str:
            if value in available:
                return str(value)
            known = " or ".join(available)
            raise ValueError(f"must be {known}, not {show(value)}{nearest(str(value), available)}")

        return handler.generate_schema(Annotated[str, _kind(parse, "word", enum=list(available))])


def _refuse_unless_null(value: object) -> None:
    if value is not None:
        raise ValueError("is not available in this version; leave it out")


NotYet = Annotated[None, BeforeValidator(_refuse_unless_null), WithJsonSchema({"type": "null", "x-type": "not yet"})]
"""Key that this version refuses by name; it takes only null."""


def _measure(units: dict[str, int], example: str, least: int, most: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        match = re.fullmatch(r"([0-9]{1,18})([A-Za-z]+)", value) if isinstance(value, str) else None
        if not match or match[2] not in units:
            raise ValueError(f"must be a number with a unit ({', '.join(units)}), such as {example}, not {show(value)}")
        result = int(match[1]) * units[match[2]]
        if result < least:
            raise ValueError(f"must be greater than zero, not {value}")
        if result > most:
            raise ValueError(f"is too large: {value}")
        return result

    return parse


Duration = Annotated[int, _kind(_measure(DURATION_UNITS, "5m", 0, LONGEST), "duration", pattern=f"^{_DURATION}$")]
"""`5m` as ms; zero is allowed."""
Period = Annotated[int, _kind(_measure(DURATION_UNITS, "5m", 1, LONGEST), "duration", pattern=f"^{_DURATION}$")]
"""`5m` as ms; greater than zero."""
Size = Annotated[int, _kind(_measure(SIZE_UNITS, "256MB", 1, LARGEST), "size", pattern=f"^{_SIZE}$")]
"""`256MB` as bytes."""


def _matching(pattern: str, rule: str, longest: int) -> Callable[[object], str]:
    compiled = re.compile(pattern)

    def parse(value: object) -> str:
        text = _text(value)
        if not compiled.fullmatch(text):
            raise ValueError(f"{rule}, not {show(text)}")
        if len(text) > longest:
            raise ValueError(f"must not be longer than {longest} characters, this has {len(text)}")
        return text

    return parse


def _word(pattern: str, rule: str, name: str, longest: int = 128) -> _Kind:
    return _kind(_matching(pattern, rule, longest), name, pattern=f"^{pattern}$")


PipelineName = Annotated[
    str,
    _word(_IDENTIFIER, "must be lower-case letters, digits and underscores, beginning with a letter", "name", 100),
]
ConnectionId = Annotated[str, _word(_CONNECTION, "must be the id of an Airflow connection", "connection id", 200)]
HdfsUser = Annotated[str, _word(r"[A-Za-z_][\w.-]*\$?", "must be the name of a user of HDFS", "user", 64)]
PoolName = Annotated[str, _word(r"\S+", "must be the name of an Airflow pool", "pool", 200)]
PythonFunction = Annotated[
    str,
    _word(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", "must be package.module:function", "Python function", 300),
]
SourceTableName = Annotated[str, _word(r"[^.\s]+\.[^.\s]+", "must be schema.table", "schema.table", 240)]
Topic = Annotated[str, _word(_TOPIC, "must be a topic name (letters, digits, '.', '_', '-')", "topic", 249)]
Table = Annotated[
    str, _word(rf"{_IDENTIFIER}\.{_IDENTIFIER}", "must be database.table, both in lower case", "database.table", 240)
]
ColumnName = Annotated[
    str, _word(_COLUMN, "must be letters, digits and underscores, beginning with a letter", "column name")
]
MessagePath = Annotated[str, _word(paths.PATH, paths.RULE, "path")]
_some_text = _matching(r"(?s:.*\S.*)", "must not be empty", 10_000)
Text = Annotated[str, _kind(_some_text, "text", pattern=r"\S")]
Expression = Annotated[str, _kind(_some_text, "SQL expression", pattern=r"\S")]
"""SQL expression; DuckDB checks it in a process of its own: `spec.expressions`."""
FileName = Annotated[str, _kind(_matching(r"[^\x00\n]*\S[^\x00\n]*", "must be the name of a file", 1000), "file name")]
"""File name, relative to the folder of the YAML."""


def _character(value: object) -> str:
    text = _text(value)
    if len(text) != 1 or text in "\r\n\x00":
        raise ValueError(f"must be one character, and no line break, not {show(text)}")
    return text


Character = Annotated[str, _kind(_character, "character", pattern="^.$")]


def _avro_schema(value: object) -> str:
    if isinstance(value, dict | list) and value:
        return json.dumps(value, ensure_ascii=False)
    return _matching(r"(?s:.*\S.*)", "must be an Avro schema, or the name of a file that holds one", 1_000_000)(value)


AvroSchema = Annotated[str, _kind(_avro_schema, "schema or file name", type=["string", "object", "array"])]
"""A schema's JSON, or the name of a file: `is_inline` tells them apart."""


def is_inline(text: str) -> bool:
    """Whether the text is a schema itself: an object, a list or a quoted name."""
    return text.lstrip()[:1] in ("{", "[", '"')


def _schema_id(value: object) -> int:
    if not (isinstance(value, str) and re.fullmatch(r"0|[1-9][0-9]{0,9}", value) and int(value) < 1 << 32):
        raise ValueError(f"must be a schema id: a whole number of 32 bits, not {show(value)}")
    return int(value)


SchemaIds = Annotated[
    dict[Annotated[int, BeforeValidator(_schema_id)], AvroSchema],
    WithJsonSchema({"type": "object", "propertyNames": {"pattern": "^[0-9]+$"}, "x-type": "mapping of ids"}),
]


def _text_or_empty(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {show(value)}; put it in quotes")
    return value


NullText = Annotated[str, _kind(_text_or_empty, "text")]


def _event_time_path(value: object) -> str:
    if value == KAFKA_TIMESTAMP:
        return KAFKA_TIMESTAMP
    return _matching(paths.PATH, f"{paths.RULE}, or {KAFKA_TIMESTAMP}", 128)(value)


EventTimePath = Annotated[
    str, _kind(_event_time_path, f"path or `{KAFKA_TIMESTAMP}`", pattern=f"^({paths.PATH}|{KAFKA_TIMESTAMP})$")
]

_PROBE = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)


def _time_format(value: object) -> str:
    text = _text(value)
    if text in EPOCHS:
        return text
    if "%" not in text:
        raise ValueError(f"must be {', '.join(EPOCHS)} or a strptime pattern, not {show(text)}{nearest(text, EPOCHS)}")
    try:
        whole = datetime.strptime(_PROBE.strftime(text), text).date() == _PROBE.date()
    except (ValueError, re.error):
        raise ValueError(f"{show(text)} is not a strptime pattern") from None
    if not whole:
        raise ValueError(f"{show(text)} does not hold a whole date: year, month and day are needed")
    return text


TimeFormat = Annotated[str, _kind(_time_format, "word or strptime pattern")]


def _instant(value: object) -> datetime:
    text = _text(value)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"must be an ISO 8601 time such as 2013-01-01T00:00:00Z, not {show(text)}") from None
    if not YEARS[0] <= moment.year <= YEARS[1]:
        raise ValueError(f"must lie in the years {YEARS[0]} to {YEARS[1]}, not {show(text)}")
    return moment


def _start(value: object) -> str | datetime:
    if value in ("earliest", "latest"):
        return str(value)
    try:
        return _instant(value)
    except ValueError as e:
        raise ValueError(f"must be earliest, latest or a time; a time {e}") from None


Instant = Annotated[datetime, _kind(_instant, "time")]
"""An aware datetime, or a naive one that is meant in the pipeline's zone."""
Start = Annotated[str | datetime, _kind(_start, "`earliest`, `latest` or time")]


@functools.lru_cache
def _zone_exists(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _timezone(value: object) -> str:
    text = _text(value)
    if not text or not _zone_exists(text):
        hint = nearest(text, sorted(zoneinfo.available_timezones()))
        raise ValueError(f"{show(text)} is not a time zone of the IANA database{hint}")
    return text


Timezone = Annotated[str, _kind(_timezone, "time zone")]


@functools.lru_cache
def _cron_fault(text: str) -> str | None:
    from croniter import CroniterBadDateError, CroniterError, croniter  # slow to import, and not always asked for

    if len(text.split()) != 5 and not text.startswith("@"):
        return "must have five fields: minute, hour, day of month, month, day of week"
    try:
        croniter(text, _PROBE).get_next()
    except CroniterBadDateError:
        return "never comes"
    except (CroniterError, ValueError, KeyError, AttributeError) as e:
        return f"is not valid ({e})"
    return None


def _cron(value: object) -> str:
    text = _text(value)
    fault = _cron_fault(text)
    if fault:
        raise ValueError(f"cron schedule {show(text)} {fault}")
    return text


Cron = Annotated[str, _kind(_cron, "cron schedule")]


def _hive_type(value: object) -> str:
    return str(hivetypes.parse(_text(value)))


HiveType = Annotated[str, _kind(_hive_type, "Hive type")]
"""Hive type in its canonical spelling."""


def _location(value: object) -> str:
    text = _text(value)
    rule = "must be a URI such as file:///data/lake/flights, hdfs://nameservice/lake/flights or s3://bucket/flights"
    scheme, authority, path, query, fragment = urlsplit(text)
    if scheme not in ("file", "hdfs", "s3") or not text.startswith(f"{scheme}://"):
        raise ValueError(f"{rule}, not {show(text)}")
    if scheme == "file" and authority:
        raise ValueError(f"{rule}; file:// needs three slashes: {show(text)} names the host {authority!r}")
    if scheme == "hdfs" and not authority:
        raise ValueError(f"{rule}; hdfs:// needs a nameservice, or a NameNode's host and port: {show(text)}")
    if scheme == "s3" and not re.fullmatch("[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", authority):
        raise ValueError(f"{rule}; s3:// needs a bucket's name: {show(text)}")
    parts = path.strip("/").split("/")
    if not path.startswith("/") or parts == [""] or {"", ".", ".."} & set(parts):
        raise ValueError(f"{rule}, a normal path below the root: {show(text)}")
    odd = re.search(rf"[^{_PATH_CHARACTERS}]", "".join(parts)) or re.search(r"[^\w.:-]", authority)
    if odd or query or fragment:  # Hadoop reads some of them as patterns or lists, URIs others as their own syntax
        raise ValueError(f"{rule}; its names may hold letters, digits and . _ @ + = ~ - only: {show(text)}")
    return text.rstrip("/")


Location = Annotated[str, _kind(_location, "URI", pattern="^(file|hdfs|s3)://")]


def _version(value: object) -> int:
    if value != 1 or isinstance(value, bool):
        raise ValueError(f"must be 1, the only version of this file's format, not {show(value)}")
    return 1


Version = Annotated[int, BeforeValidator(_version), WithJsonSchema({"const": 1, "x-type": "number"})]


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {show(value)}")
    return value


Count = Annotated[int, Field(gt=0, le=MOST), BeforeValidator(_no_bool)]
"""A whole number, one or more."""
MergeCount = Annotated[int, Field(ge=2, le=MOST), BeforeValidator(_no_bool)]
CountOrZero = Annotated[int, Field(ge=0, le=MOST), BeforeValidator(_no_bool)]
Ratio = Annotated[float, Field(ge=0, le=1), BeforeValidator(_no_bool)]


def _spark_key(value: object) -> str:
    text = _text(value)
    if not re.fullmatch(r"spark\.\S+", text):
        raise ValueError("Spark ignores settings that do not begin with spark.")
    return text


def _spark_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(f"must be text or a number, not {show(value)}")


SparkConf = Annotated[
    dict[Annotated[str, BeforeValidator(_spark_key)], Annotated[str, BeforeValidator(_spark_value)]],
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
            "propertyNames": {"pattern": r"^spark\."},
            "x-type": "mapping",
        }
    ),
]
