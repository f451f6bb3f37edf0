"""What a pipeline into a keyed table must be like, and what its section says."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.base.hivetypes import Decimal, Primitive, parse
from tidegate.core.mirror.parts import WHOLE_NUMBERS
from tidegate.core.spec.change_events import EVENT_COLUMNS, SERVER_PATH, SHARD_PATHS
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.targets.iceberg import columns as iceberg

KEY_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "binary", "date", "timestamp")
KEEP = "keep"
Problem = tuple[tuple[str | int, ...], str]
_EVENT = tuple(name for name, _, _ in EVENT_COLUMNS)


def key_of(pipeline: Pipeline) -> tuple[str, ...]:
    """Logical columns of the key, in the order of its hash."""
    return tuple(dict(pipeline.sink.options)["key"].lower().split(","))


def buckets_of(pipeline: Pipeline) -> int:
    """Number of parts that the table is cut into."""
    return int(dict(pipeline.sink.options)["buckets"])


def tombstones_of(pipeline: Pipeline) -> int | None:
    """How long tombstones stay (ms); None: for ever."""
    kept = dict(pipeline.sink.options).get("tombstones", KEEP)
    return None if kept == KEEP else int(kept)


def problems(pipeline: Pipeline) -> list[Problem]:
    """(path in the YAML, what is wrong) of a pipeline that no keyed table can take."""
    return [*iceberg.problems(pipeline), *of_events(pipeline), *of_key(pipeline)]


def of_events(pipeline: Pipeline) -> Iterator[Problem]:
    """What is wrong with the events."""
    if pipeline.format.debezium is None:
        yield ("format", "type"), "a mirror is made of change events: set it to debezium"
    if pipeline.where is not None:
        yield ("where",), "an event that is left out would leave an older row standing; leave it out"
    if not pipeline.kafka_columns:
        yield ("kafka_columns",), "each row of a mirror says which event made it; leave it out"


def of_key(pipeline: Pipeline) -> Iterator[Problem]:
    """What is wrong with the key, and with the other columns, which a delete does not have."""
    known = {c.name: c for c in pipeline.columns if c.name not in _EVENT}
    seen: set[str] = set()
    for i, name in enumerate(key_of(pipeline)):
        what = f"{name} is there already" if name in seen else _wrong(name, known.get(name))
        seen.add(name)
        if what is not None:
            yield ("sink", "key", i), what
    yield from _shards(pipeline, {known[name].path for name in seen if name in known})
    if pipeline.copy is not None and pipeline.copy.compare_rows is not None:
        mine = [known[n] for n in seen if n in known and known[n].path not in SHARD_PATHS]
        other = next((column for column in mine if column.type not in WHOLE_NUMBERS), None)
        if other is not None:
            what = f"column {other.name} of the key is {other.type}: only keys of whole numbers are compared in parts"
            yield ("copy", "compare_rows"), what
    yield from _columns(pipeline)


def _shards(pipeline: Pipeline, paths: set[str]) -> Iterator[Problem]:
    """S11: rows of different tables, and of different servers, have different keys. `paths`: of the key's columns."""
    if SERVER_PATH in paths and (pipeline.copy is None or not pipeline.copy.servers):
        yield ("sink", "key"), f"{SERVER_PATH} tells servers apart, which copy.servers names"
    if pipeline.copy is None:
        return
    tables = SHARD_PATHS.keys() - {SERVER_PATH}
    if pipeline.copy.tables and not paths & tables:
        one_of = ", ".join(sorted(tables))
        yield ("sink", "key"), f"with copy.tables a column of it says which table a row is of, from one of {one_of}"
    if not pipeline.copy.servers:
        return
    if SERVER_PATH not in paths:
        yield ("sink", "key"), f"with copy.servers a column of it says which server a row is of, from {SERVER_PATH}"


def _wrong(name: str, column: Column | None) -> str | None:
    """Why the column cannot be of the key."""
    if column is None:
        return f"there is no column {name}"
    if column.hidden:
        return f"{name} is hidden, so it is no column of the table"
    of_event = column.path.startswith("$._") and column.path not in SHARD_PATHS
    if column.path == SERVER_PATH and column.type != "string":
        return f"{name} is a {column.type}; a server's name is a string"
    if column.expr is not None or of_event:
        return f"{name} must be a column of the source's key: a delete says nothing else"
    if column.nullable:
        return f"{name} must be nullable: false"
    kind = parse(column.type)
    if isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name in KEY_TYPES):
        return None
    return f"{name} is a {column.type}; a key's column must be one of {', '.join(KEY_TYPES)}, decimal"


def _columns(pipeline: Pipeline) -> Iterator[Problem]:
    key = key_of(pipeline)
    for i, column in enumerate(pipeline.columns):
        if column.name in _EVENT:
            continue
        if not column.nullable and column.name not in key:
            what = "a delete has no value for it, so it must be nullable; the source's table checks its own rows"
            yield ("columns", i, "nullable"), what
