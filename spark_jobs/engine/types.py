"""Hive types as Arrow types: what the files hold.

Timestamps are 64-bit microseconds marked as UTC instants, which Spark, Hive and DuckDB read as the same instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidegate.core.base.hivetypes import Array, Decimal, HiveType, Map, Primitive, Struct, parse
from tidegate.core.spec.pipeline import DIRTY_COLUMNS, Pipeline, late_columns, table_columns

TIMESTAMP = pa.timestamp("us", "UTC")
_PRIMITIVES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def arrow_type(kind: HiveType) -> pa.DataType:
    if isinstance(kind, Decimal):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, Array):
        return pa.list_(arrow_type(kind.element))
    if isinstance(kind, Map):
        return pa.map_(arrow_type(kind.key), arrow_type(kind.value))
    if isinstance(kind, Struct):
        return pa.struct([pa.field(name, arrow_type(field)) for name, field in kind.fields])
    return _PRIMITIVES[kind.name]


def hive_type(kind: pa.DataType) -> HiveType:
    """The inverse. Raises ValueError for a type that no column has."""
    if pa.types.is_decimal128(kind):
        return Decimal(kind.precision, kind.scale)
    if pa.types.is_map(kind):
        return Map(hive_type(kind.key_type), hive_type(kind.item_type))
    if pa.types.is_list(kind):
        return Array(hive_type(kind.value_type))
    if pa.types.is_struct(kind):
        return Struct(tuple((field.name, hive_type(field.type)) for field in kind))
    name = next((name for name, known in _PRIMITIVES.items() if known == kind), None)
    if name is None:
        raise ValueError(f"{kind} is the type of no column")
    return Primitive(name)


def schema_of(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    """Arrow schema of (name, Hive type) pairs."""
    return pa.schema([pa.field(name, arrow_type(parse(text))) for name, text in columns])


def filled(schema: pa.Schema, values: Mapping[str, Any], rows: int, said: Mapping[str, Any] | None = None) -> pa.Table:
    """Rows of this schema: columns by their `values`, by what is `said` of all rows alike, or null."""
    columns = []
    for field in schema:
        if field.name in values:
            columns.append(values[field.name].cast(field.type))
        elif said and field.name in said:
            columns.append(pa.repeat(pa.scalar(said[field.name], field.type), rows))
        else:
            columns.append(pa.nulls(rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def data_schema(pipeline: Pipeline) -> pa.Schema:
    return schema_of(table_columns(pipeline))


def late_schema(pipeline: Pipeline) -> pa.Schema:
    return schema_of(late_columns(pipeline))


def dirty_schema() -> pa.Schema:
    return schema_of(DIRTY_COLUMNS)
