"""Files of a kind of table with a stored form (core.target.stored); writers and readers meet logical columns only.

A label of the file says what it has of them, so that a reader needs no pipeline. Field ids are in the file's schema.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.sinks.base import Encoding, FileFormat, Finished, Joiner, Writer
from spark_jobs.engine.sinks.bounds import bounds_of
from spark_jobs.engine.sinks.parquet_join import spells_alike
from spark_jobs.engine.types import arrow_type, hive_type
from tidegate.core.base.hivetypes import Array, HiveType, Map, Struct, parse
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.stored import Bounds, StoredColumn, StoredForm, Value

LABEL = "tidegate.stored"
"""JSON: `columns`, [logical name, stored name, logical Hive type] of each, and `constants`, {stored name: value}."""
FIELD_ID = "PARQUET:field_id"


class Stored:
    """FileFormat, of the files of one place."""

    def __init__(
        self,
        plain: FileFormat,
        form: StoredForm,
        pipeline: Pipeline,
        kind: str,
        window_ms: int | None,
        values: PartitionValues,
        batch_id: int,
    ) -> None:
        self._plain, self._form, self._fields, self._kind = plain, form, pipeline.sink.fields, kind
        self._constants = tuple((c, c.value(window_ms, batch_id, values)) for c in form.constants(pipeline, kind))
        self.extension, self.worth_taking = plain.extension, plain.worth_taking
        self.read, self.unfit, self.stamp = plain.read, plain.unfit, plain.stamp

    def open(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> Writer:
        shape = self._shape(schema)
        return _Writer(self._plain.open(stream, shape.schema, shape.encoding(encoding), codec), shape)

    def join(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> Joiner:
        shape = self._shape(schema)
        return _Joiner(self._plain.join(stream, shape.schema, shape.encoding(encoding), codec), shape, self._plain)

    def _shape(self, schema: pa.Schema) -> _Shape:
        return _Shape(schema, self._constants, self._form, self._kind, self._fields)


class _Shape:
    """Rows of one logical schema as a file has them, and back."""

    def __init__(
        self,
        logical: pa.Schema,
        constants: tuple[tuple[StoredColumn, Value], ...],
        form: StoredForm,
        kind: str,
        fields: tuple[tuple[str, str, int], ...],
    ) -> None:
        self._columns = _columns(form, logical)
        stored = (*(c for c, _ in constants), *self._columns)
        self.schema = _schema(stored, kind, fields)
        self._constants = [pa.scalar(v, f.type) for (_, v), f in zip(constants, self.schema, strict=False)]
        columns = [[c.of, c.name, str(hive_type(f.type))] for c, f in zip(self._columns, logical, strict=True)]
        self.label = json.dumps({"columns": columns, "constants": {c.name: v for c, v in constants}})

    def encoding(self, logical: Encoding) -> Encoding:
        """Constants repeat, are small, and readers skip by them."""
        constants = self.schema.names[: len(self._constants)]
        name = {c.of: c.name for c in self._columns}
        dictionary, statistics, small = (
            [*constants, *(name[n] for n in names if n in name)]
            for names in (logical.dictionary, logical.statistics, logical.small)
        )
        return Encoding(dictionary, statistics, tuple(small))

    def rows(self, rows: pa.Table) -> pa.Table:
        constants = [pa.repeat(value, len(rows)) for value in self._constants]
        kinds = self.schema.types[len(constants) :]
        return pa.Table.from_arrays(
            [*constants, *(_as(rows[c.of], kind) for c, kind in zip(self._columns, kinds, strict=True))],
            schema=self.schema,
        )


class _Writer:
    """Writer."""

    def __init__(self, plain: Any, shape: _Shape) -> None:
        self._plain, self._shape = plain, shape
        self.size, self.held = plain.size, plain.held
        self.bounds: Bounds | None = None

    def write(self, rows: pa.Table) -> None:
        self._plain.write(self._shape.rows(rows))

    def close(self, labels: Mapping[str, str]) -> int | None:
        told: int | None = self._plain.close({**labels, LABEL: self._shape.label})
        self.bounds = bounds_of(self._plain.footer, leaf_ids(self._shape.schema))
        return told


class _Joiner(_Writer):
    """Joiner. It takes no file of another place, other columns or other field ids, however alike their rows are."""

    def __init__(self, plain: Any, shape: _Shape, file_format: FileFormat) -> None:
        super().__init__(plain, shape)
        self._format = file_format

    def takes(self, content: bytes) -> bool:
        labels = self._format.read(pa.BufferReader(content), "", None).labels
        if labels.get(LABEL) != self._shape.label or not spells_alike(content, self._shape.schema):
            return False
        taken: bool = self._plain.takes(content)
        return taken


class Logical:
    """Finished: the logical columns of a stored file."""

    def __init__(self, file: Finished) -> None:
        columns = json.loads(file.labels[LABEL])["columns"]
        self._file, self.labels, self.rows = file, file.labels, file.rows
        self._stored = {of: name for of, name, _ in columns}
        self._logical = {name: of for of, name, _ in columns}
        self.schema = pa.schema([pa.field(of, arrow_type(parse(kind))) for of, _, kind in columns])
        self.groups = file.groups

    def spans(self, group: int) -> Mapping[str, tuple[Any, Any]]:
        return {self._logical[n]: span for n, span in self._file.spans(group).items() if n in self._logical}

    def group(self, group: int, columns: Sequence[str]) -> pa.Table:
        found = self._file.group(group, [self._stored[name] for name in columns])
        return pa.Table.from_arrays(*self._back(found))

    def batches(self, size: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        names = [self._stored[name] for name in (self._stored if columns is None else columns)]
        for found in self._file.batches(size, names):
            yield pa.RecordBatch.from_arrays(*self._back(found))

    def _back(self, found: pa.Table | pa.RecordBatch) -> tuple[list[Any], list[str]]:
        names = [self._logical[name] for name in found.schema.names]
        return [_as(c, self.schema.field(n).type) for n, c in zip(names, found.columns, strict=True)], names


def leaf_ids(schema: pa.Schema) -> list[int]:
    """Field ids of the columns without children, in the file's order: what `bounds_of` takes."""
    return [number for field in schema for number in _leaf_ids(field)]


def _leaf_ids(field: pa.Field) -> Iterator[int]:
    kind = field.type
    inner = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    if pa.types.is_map(kind):
        inner = [kind.key_field, kind.item_field]
    for child in inner:
        yield from _leaf_ids(child)
    if not inner:
        yield int(field.metadata[FIELD_ID.encode()])


def _as(column: Any, kind: pa.DataType) -> Any:
    """Only narrow integers differ: all else is the same memory."""
    return column if column.type.equals(kind) else column.cast(kind)


@functools.lru_cache(64)
def _columns(form: StoredForm, logical: pa.Schema) -> tuple[StoredColumn, ...]:
    return tuple(form.column(f.name, str(hive_type(f.type))) for f in logical)


@functools.lru_cache(64)
def _schema(columns: tuple[StoredColumn, ...], kind: str, fields: tuple[tuple[str, str, int], ...]) -> pa.Schema:
    """With an id on everything. Raises JobError for a field without one."""
    ids = {path: number for of, path, number in fields if of == kind}
    return pa.schema([field_with_id(c.name, c.name, parse(c.type), ids, kind, not c.required) for c in columns])


def field_with_id(
    name: str, path: str, kind: HiveType, ids: Mapping[str, int], of: str, nullable: bool = True
) -> pa.Field:
    """A column, or a field within it, with the ids of all that it holds. `of`: whose table it is, in a refusal's words.

    Raises JobError where `ids` (by path) lack one."""
    if path not in ids:
        raise refuse(
            f"the plan has no field id for {path} of the {of} table: without ids dropped columns would come back",
            advice="the next try names the ids that the table has; if it ends here again, run `tidegate doctor`",
            field=path,
            retry=True,
        )

    def child(named: str, inner: HiveType, nullable: bool = True) -> pa.Field:
        return field_with_id(named, f"{path}.{named}", inner, ids, of, nullable)

    if isinstance(kind, Array):
        arrow = pa.list_(child("element", kind.element))
    elif isinstance(kind, Map):
        arrow = pa.map_(child("key", kind.key, False), child("value", kind.value))
    elif isinstance(kind, Struct):
        arrow = pa.struct([child(n, inner) for n, inner in kind.fields])
    else:
        arrow = arrow_type(kind)
    return pa.field(name, arrow, nullable, {FIELD_ID: str(ids[path])})
