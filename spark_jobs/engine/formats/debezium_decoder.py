"""Debezium's change events, in JSON or Avro: each is a row, by the row rules of JSON. Message by message, in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_jobs.engine.formats import Bad, Decoded, Paths
from spark_jobs.engine.formats.avro_messages import AvroMessages
from spark_jobs.engine.formats.change_event import (
    TOMBSTONE,
    UNUSED,
    Expected,
    JsonMessages,
    NoEvent,
    Read,
    schema_part,
    view,
)
from spark_jobs.engine.formats.json_rows import Row, RowRules
from spark_jobs.engine.formats.registry import SchemaRegistry, UnknownSchema, registry_of_job
from spark_jobs.engine.formats.undecodable import Malformed
from spark_jobs.engine.formats.writer_schemas import missing
from spark_jobs.engine.types import schema_of
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.source.records import Chunk
from tidegate.core.spec import avro_columns, connect_columns, paths
from tidegate.core.spec.change_events import BEFORE, FLAT, RESERVED, SHARD_PATHS
from tidegate.core.spec.pipeline import EXTRA_COLUMN, Column, DebeziumFormat, Pipeline
from tidegate.core.spec.schema_changes import grown, may_grow
from tidegate.kinds import target_kind


def key_columns(pipeline: Pipeline) -> frozenset[str] | None:
    """The source's columns that the key of a keyed table names; None where the table has none. Which of the source's
    tables a row is of (S11) is no column of the message's key."""
    names = dict(pipeline.sink.options).get("key", "").lower().split(",")
    if names == [""]:
        return None
    return frozenset(paths.parse(c.path)[0] for c in pipeline.columns if c.name in names and c.path not in SHARD_PATHS)


def _is_sharded(pipeline: Pipeline) -> bool:
    """Whether the key of a keyed table says which of the source's tables a row is of (S11)."""
    names = dict(pipeline.sink.options).get("key", "").lower().split(",")
    return any(c.name in names and c.path in SHARD_PATHS for c in pipeline.columns)


class DebeziumDecoder:
    """Tombstones behind deletes are filtered, where none can have lost its delete.

    That is so unless the messages are flat, whose deletes may be tombstones, or the topic may have gaps: a compacted
    one keeps a tombstone longer than the delete. There they are dirty. `registry` opens the registry of Avro's schemas
    when it is needed."""

    def __init__(
        self,
        pipeline: Pipeline,
        rules_version: int = RULES_VERSION,
        also_known: Paths = (),
        registry: Callable[[], SchemaRegistry] = registry_of_job,
    ) -> None:
        avro = pipeline.format.avro
        self._flat = (pipeline.format.debezium or DebeziumFormat()).envelope == FLAT
        self._filters = not self._flat and pipeline.source.gaps == "forbid"
        self._rules = RowRules(pipeline, rules_version, (*also_known, *((name,) for name in RESERVED)))
        capture = (EXTRA_COLUMN,) if pipeline.format.unknown_fields == "capture" else ()
        self._schema = schema_of(tuple((c.name, c.type) for c in pipeline.columns) + capture)
        self._timed = pipeline.event_time.path is not None
        tables = "" if pipeline.copy is None else pipeline.copy.tables
        servers = () if pipeline.copy is None else tuple(one.name for one in pipeline.copy.servers)
        self._expected = Expected(key_columns(pipeline), _is_sharded(pipeline), tables, servers)
        tops = {paths.parse(c.path)[0] for c in pipeline.columns}
        self._taken = tuple(sorted(tops.difference(RESERVED)))
        if self._timed:
            tops.add(paths.parse(pipeline.event_time.path or "")[0])
        skipped = () if self._flat else (*UNUSED, *(() if BEFORE in tops else ("before",)))
        self._avro = None if avro is None else AvroMessages(avro, registry, skipped)
        self._json = JsonMessages()
        self._parse: Read = self._avro or self._json
        self._pipeline, self._growing = pipeline, may_grow(pipeline)
        self._promotes = bool(self._growing) and target_kind(pipeline.sink.kind).promotes
        self._judged: tuple[Any, tuple[Column, ...]] = (None, ())

    def decode(self, chunk: Chunk) -> Decoded:
        bad: dict[int, Bad] = {}
        unknown: dict[str, tuple[int, str]] = {}
        rows: list[dict[str, Any]] = []
        times: list[int | None] = []
        kept: list[bool] = []
        wider: dict[str, tuple[int, str]] = {}
        for i, (key, value) in enumerate(zip(chunk.keys, chunk.values, strict=True)):
            try:
                found = self._read(key, value)
            except UnknownSchema as e:
                raise missing(e, chunk.offsets[i]) from None
            kept.append(found is not None)
            if self._growing and found is not None and value is not None:
                for column in self._wider(value, found):
                    wider.setdefault(column.name, (i, column.type))
            if isinstance(found, Row):
                rows.append(found.values)
                times.append(found.event_ms)
                for name, example in found.unknown.items():
                    unknown.setdefault(name, (i, example))
                continue
            if found is not None:
                bad[i] = found
            rows.append({})
            times.append(None)
        table = pa.Table.from_pylist(rows, schema=self._schema)
        moments = pa.array(times, pa.int64()) if self._timed else None
        flags = None if all(kept) else pa.array(kept, pa.bool_())
        return Decoded(table, moments, bad, unknown, flags, wider=wider)

    @property
    def row_types(self) -> dict[str, str]:
        """Hive types of the row's columns by the newest schema of the messages so far; empty without schemas."""
        newest = None if self._avro is None else self._avro.newest
        return {} if newest is None else avro_columns.row_types(newest, self._flat)

    def declared(self, value: bytes) -> dict[str, str]:
        """Hive types of the row's columns by the schema that came with this message, which was read; empty without."""
        if self._avro is None:
            return connect_columns.column_types(schema_part(value), self._flat)
        schema = self._avro.schema_of(value)
        return {} if schema is None else avro_columns.column_types(schema, self._flat)

    def _wider(self, value: bytes, found: Row | Bad) -> tuple[Column, ...]:
        """Columns of which the schema of this value says a wider type. A bad one counts for the column that it does not
        fit alone: nothing else says that it is of this table."""
        schema = self._schema_of(value)
        if schema is None:
            return ()
        judged, columns = self._judged
        if schema is not judged and schema != judged:
            columns = grown(self._pipeline, self._growing, self._types(schema), self._promotes)
            self._judged = (schema, columns)
        return columns if isinstance(found, Row) else tuple(c for c in columns if c.name == found.field)

    def _schema_of(self, value: bytes) -> Any:
        if self._avro is None:
            return self._json.schema
        try:
            return self._avro.schema_of(value)
        except Malformed:
            return None

    def _types(self, schema: Any) -> dict[str, str]:
        if self._avro is None:
            return connect_columns.column_types(schema, self._flat)
        return avro_columns.exact_types(schema, self._flat)

    def _read(self, key: bytes | None, value: bytes | None) -> Row | Bad | None:
        """None for a message that says nothing new."""
        if value is None:
            return None if self._filters else TOMBSTONE
        try:
            return self._rules.row(view(key, value, self._parse, self._flat, self._taken, self._expected))
        except NoEvent as e:
            return e.bad
