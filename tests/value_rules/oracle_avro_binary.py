"""The oracle's Avro reader: a writer's schema and a datum's bytes give a tree of values with their kinds.

By Avro's specification and the page; imports nothing of the engine.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.value_rules.oracle_text import Dirty, Number, Object, read_text

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MAX_RECORDS = 200
"""Records in records, the top one included."""


@dataclass
class Schema:
    """`kind` is Avro's name of the type; `logical` its logical type, if that fits; `inner` what it is made of: fields
    of a record as (name, Schema), branches of a union, symbols of an enum, one Schema for items and values."""

    kind: str
    logical: str = ""
    inner: Any = None
    size: int = 0
    precision: int = 0
    scale: int = 0
    name: str = ""


@dataclass(frozen=True)
class Value:
    """`kind` is the schema's logical type or its kind; `payload` a Python value, a list of Values, or pairs."""

    schema: Schema
    payload: Any

    @property
    def kind(self) -> str:
        return self.schema.logical or self.schema.kind


def parse(text: str) -> Schema:
    return _schema(read_text(text), {}, "")


def _schema(tree: Any, named: dict[str, Schema], space: str) -> Schema:
    if isinstance(tree, str):
        if tree in PRIMITIVES:
            return Schema(tree)
        return named[tree if "." in tree or not space else f"{space}.{tree}"]
    if isinstance(tree, list):
        return Schema("union", inner=[_schema(branch, named, space) for branch in tree])
    kind = tree.get("type")
    if not isinstance(kind, str):
        return _schema(kind, named, space)
    logical = tree.get("logicalType") or ""
    if kind in ("record", "error", "enum", "fixed"):
        return _named(kind, logical, tree, named, space)
    if kind in ("array", "map"):
        return Schema(kind, inner=_schema(tree.get("items" if kind == "array" else "values"), named, space))
    if kind not in PRIMITIVES:
        return _schema(kind, named, space)
    return _annotated(Schema(kind), logical, tree)


def _named(kind: str, logical: str, tree: Object, named: dict[str, Schema], space: str) -> Schema:
    name = tree.get("name")
    space = name.rpartition(".")[0] if "." in name else (tree.get("namespace") or space)
    full = name if "." in name or not space else f"{space}.{name}"
    if kind == "enum":
        named[full] = Schema("enum", inner=list(tree.get("symbols")), name=full)
    elif kind == "fixed":
        named[full] = _annotated(Schema("fixed", size=int(tree.get("size").text), name=full), logical, tree)
    else:
        named[full] = made = Schema("record", inner=[], name=full)
        for found in tree.get("fields"):
            made.inner.append((found.get("name"), _schema(found.get("type"), named, space)))
    return named[full]


_LOGICAL = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
    "decimal": ("bytes", "fixed"),
}


def _annotated(schema: Schema, logical: str, tree: Object) -> Schema:
    """A logical type that does not fit its type is ignored, as Avro's specification says."""
    if schema.kind not in _LOGICAL.get(logical, ()):
        return schema
    if logical == "decimal":
        precision, scale = tree.get("precision"), tree.get("scale")
        schema.precision = int(precision.text) if isinstance(precision, Number) else 0
        schema.scale = int(scale.text) if isinstance(scale, Number) else 0
        if not 0 <= schema.scale <= schema.precision or not schema.precision:
            return schema
    if (logical == "duration" and schema.size != 12) or (
        logical == "uuid" and schema.kind == "fixed" and schema.size != 16
    ):
        return schema
    schema.logical = logical
    return schema


def read_datum(schema: Schema, data: bytes) -> Value:
    """The datum, all of the bytes; strings are bytes still. Raises Dirty."""
    reader = _Reader(data)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 10 * MAX_RECORDS)
    try:
        value = reader.value(schema, 0)
    finally:
        sys.setrecursionlimit(limit)
    if reader.at < len(data):
        raise Dirty("trailing")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if count < 0:
            raise Dirty("length")
        if self.at + count > len(self.data):
            raise Dirty("truncated")
        self.at += count
        return self.data[self.at - count : self.at]

    def long(self) -> int:
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= 70:
                raise Dirty("varint")
        if number >= 1 << 64:
            raise Dirty("varint")
        return (number >> 1) ^ -(number & 1)

    def value(self, schema: Schema, records: int) -> Value:
        """`records`: how many this value is inside of."""
        kind = schema.kind
        if kind == "union":
            index = self.long()
            if not 0 <= index < len(schema.inner):
                raise Dirty("union")
            return self.value(schema.inner[index], records)
        if kind == "record":
            if records >= MAX_RECORDS:
                raise Dirty("depth")
            return Value(schema, [(name, self.value(inner, records + 1)) for name, inner in schema.inner])
        if kind == "array":
            return Value(schema, list(self._items(schema, records)))
        if kind == "map":
            return Value(schema, list(self._items(schema, records)))
        return Value(schema, self._scalar(schema))

    def _items(self, schema: Schema, records: int) -> Iterator[Any]:
        """Values of an array, (key, value) of a map, block by block."""
        while count := self.long():
            size = None
            if count < 0:
                count, size = -count, self.long()
            start = self.at
            if count > len(self.data) - self.at or (schema.kind == "array" and takes_nothing(schema.inner)):
                raise Dirty("block")
            for _ in range(count):
                if schema.kind == "map":
                    yield self.take(self.long()), self.value(schema.inner, records)
                else:
                    yield self.value(schema.inner, records)
            if size is not None and self.at - start != size:
                raise Dirty("block")

    def _scalar(self, schema: Schema) -> Any:
        kind = schema.kind
        if kind == "null":
            return None
        if kind == "boolean":
            byte = self.take(1)[0]
            if byte > 1:
                raise Dirty("boolean")
            return byte == 1
        if kind in ("int", "enum"):
            number = self.long()
            if not -(2**31) <= number < 2**31:
                raise Dirty("varint")
            if kind == "int":
                return number
            if not 0 <= number < len(schema.inner):
                raise Dirty("enum")
            return schema.inner[number]
        if kind == "long":
            return self.long()
        if kind in ("float", "double"):
            return struct.unpack("<f" if kind == "float" else "<d", self.take(4 if kind == "float" else 8))[0]
        return self.take(schema.size if kind == "fixed" else self.long())


def takes_nothing(schema: Schema) -> bool:
    """Whether a value has no byte at all."""
    if schema.kind == "record":
        return all(takes_nothing(inner) for _, inner in schema.inner)
    return schema.kind == "null" or (schema.kind == "fixed" and schema.size == 0)
