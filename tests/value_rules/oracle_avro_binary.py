"""The oracle's Avro reader: a writer's schema and a datum's bytes give a tree of values with their kinds.

By Avro's specification and the page; imports nothing of the engine.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from tests.value_rules.oracle_text import Dirty, Number, Object, read_text

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MAX_DEPTH = 500


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
    branches: list[Schema] = field(default_factory=list)


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
    if (logical == "duration" and schema.size != 12) or (logical == "uuid" and schema.kind == "fixed" != 16):
        return schema
    schema.logical = logical
    return schema


def read_datum(schema: Schema, data: bytes) -> Value:
    """The datum, all of the bytes. Raises Dirty."""
    reader = _Reader(data)
    value = reader.value(schema, 1)
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

    def value(self, schema: Schema, depth: int) -> Value:
        kind = schema.kind
        if kind in ("record", "array", "map") and depth > MAX_DEPTH:
            raise Dirty("depth")
        if kind == "union":
            index = self.long()
            if not 0 <= index < len(schema.inner):
                raise Dirty("union")
            return self.value(schema.inner[index], depth)
        if kind == "record":
            return Value(schema, [(name, self.value(inner, depth + 1)) for name, inner in schema.inner])
        if kind == "array":
            return Value(schema, [self.value(schema.inner, depth + 1) for _ in self._items()])
        if kind == "map":
            return Value(schema, [(self._text(), self.value(schema.inner, depth + 1)) for _ in self._items()])
        return Value(schema, self._scalar(schema))

    def _items(self) -> Any:
        """One turn for each item of a sequence of blocks."""
        while count := self.long():
            if count < 0:
                count, size = -count, self.long()
                if size < 0:
                    raise Dirty("length")
            if count > len(self.data):
                raise Dirty("count")
            for _ in range(count):
                yield

    def _text(self) -> str:
        try:
            return self.take(self.long()).decode("utf-8")
        except UnicodeDecodeError:
            raise Dirty("utf8") from None

    def _scalar(self, schema: Schema) -> Any:
        kind = schema.kind
        if kind == "null":
            return None
        if kind == "boolean":
            byte = self.take(1)[0]
            if byte > 1:
                raise Dirty("boolean")
            return byte == 1
        if kind == "int":
            number = self.long()
            if not -(2**31) <= number < 2**31:
                raise Dirty("varint")
            return number
        if kind == "long":
            return self.long()
        if kind in ("float", "double"):
            return struct.unpack("<f" if kind == "float" else "<d", self.take(4 if kind == "float" else 8))[0]
        if kind == "bytes":
            return self.take(self.long())
        if kind == "string":
            return self._text()
        if kind == "fixed":
            return self.take(schema.size)
        index = self.long()
        if not 0 <= index < len(schema.inner):
            raise Dirty("enum")
        return schema.inner[index]
