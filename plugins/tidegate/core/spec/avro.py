"""Avro schemas: parsed, and which of their types a column's type takes. Standard library only; no datum is read here.

The spec validates columns with it, the engine makes its reader from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.base.hivetypes import Array, HiveType, Map, Primitive, Struct

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_NUMBERS = _INTEGERS | {"float", "double", "decimal", "timestamp"}
_INSTANT = frozenset({"timestamp", "bigint"})
SCALARS: dict[str, frozenset[str]] = {
    "boolean": frozenset({"boolean"}),
    "int": _NUMBERS,
    "long": _NUMBERS,
    "float": frozenset({"float", "double"}),
    "double": frozenset({"float", "double"}),
    "bytes": frozenset({"binary"}),
    "fixed": frozenset({"binary"}),
    "duration": frozenset({"binary"}),
    "string": frozenset({"string", "binary", "date", "timestamp"}),
    "enum": frozenset({"string"}),
    "uuid": frozenset({"string"}),
    "decimal": frozenset({"decimal"}),
    "date": frozenset({"date"}),
    "time-millis": _INTEGERS,
    "time-micros": _INTEGERS,
    "timestamp-millis": _INSTANT,
    "timestamp-micros": _INSTANT,
    "timestamp-nanos": _INSTANT,
    "local-timestamp-millis": _INSTANT,
    "local-timestamp-micros": _INSTANT,
    "local-timestamp-nanos": _INSTANT,
}
"""Kind of a scalar -> names of the column types that take it (a value may still be out of range)."""
_LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    **{f"{local}timestamp-{unit}": "long" for local in ("", "local-") for unit in ("millis", "micros", "nanos")},
}
_NESTING = 200
_NARROW = {"int8": "tinyint", "int16": "smallint"}


@dataclass(eq=False, kw_only=True)
class Schema:
    """`type` is a primitive's name, or fixed, enum, array, map, record, union; `logical` a logical type that is valid
    there, or empty. A record may hold itself."""

    type: str
    logical: str = ""
    name: str = ""
    size: int = 0  # fixed
    precision: int = 0  # decimal
    scale: int = 0  # decimal
    narrow: str = ""  # int: the smaller Hive type that Kafka Connect's converters say
    symbols: tuple[str, ...] = ()  # enum
    items: Schema | None = None  # of an array, values of a map
    branches: tuple[Schema, ...] = ()  # union
    fields: tuple[tuple[str, Schema], ...] = field(default=(), repr=False)  # record

    @property
    def kind(self) -> str:
        """What a value is, as docs/types.md names it."""
        return self.logical or self.type

    def __str__(self) -> str:
        if self.type == "union":
            return f"[{', '.join(map(str, self.branches))}]"
        return f"{self.kind} {self.name}" if self.name else self.kind


def parse(text: str, references: Iterable[str] = ()) -> Schema:
    """The schema that `text` writes down; `references` are texts whose named types it uses, each after what it needs.

    Raises ValueError."""
    names: dict[str, Schema] = {}
    for other in references:
        _parse_text(other, names)
    return _parse_text(text, names)


def _parse_text(text: str, names: dict[str, Schema]) -> Schema:
    try:
        return _Parser(names).schema(json.loads(text), "", 0)
    except json.JSONDecodeError as e:
        raise ValueError(f"not JSON: {e.msg} at character {e.pos}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


class _Parser:
    def __init__(self, names: dict[str, Schema]) -> None:
        self._names = names

    def schema(self, value: Any, namespace: str, depth: int) -> Schema:
        if depth > _NESTING:
            raise ValueError("nested too deeply")
        if isinstance(value, str):
            return self._named(value, namespace)
        if isinstance(value, list):
            return self._union(value, namespace, depth)
        if not isinstance(value, dict) or "type" not in value:
            raise ValueError(f"{_shown(value)} is no schema")
        kind = value["type"]
        if not isinstance(kind, str):  # {"type": {...}}
            return self.schema(kind, namespace, depth + 1)
        if kind in PRIMITIVES:
            narrow = _NARROW.get(str(value.get("connect.type")), "") if kind == "int" else ""
            return self._logical(Schema(type=kind, narrow=narrow), value)
        if kind == "array":
            return Schema(type="array", items=self.schema(_get(value, "items"), namespace, depth + 1))
        if kind == "map":
            return Schema(type="map", items=self.schema(_get(value, "values"), namespace, depth + 1))
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(kind, value, namespace, depth)
        return self._named(kind, namespace)

    def _named(self, word: str, namespace: str) -> Schema:
        if word in PRIMITIVES:
            return Schema(type=word)
        full = word if "." in word or not namespace else f"{namespace}.{word}"
        found = self._names.get(full) or self._names.get(word)
        if found is None:
            raise ValueError(f"the type {word!r} is not defined (before it is used)")
        return found

    def _union(self, value: list[Any], namespace: str, depth: int) -> Schema:
        branches = tuple(self.schema(item, namespace, depth + 1) for item in value)
        if not branches:
            raise ValueError("a union without branches")
        if any(b.type == "union" for b in branches):
            raise ValueError("a union in a union")
        return Schema(type="union", branches=branches)

    def _definition(self, kind: str, value: dict[str, Any], namespace: str, depth: int) -> Schema:
        name = _get(value, "name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{_shown(name)} is no name")
        if "." in name:
            namespace = name.rpartition(".")[0]
        else:
            own = value.get("namespace")
            namespace = own if isinstance(own, str) else namespace
            name = f"{namespace}.{name}" if namespace else name
        if name in self._names:
            raise ValueError(f"the type {name!r} is defined twice")
        found = self._names[name] = Schema(type="record" if kind == "error" else kind, name=name)
        if kind == "fixed":
            found.size = _whole(_get(value, "size"), "size")
            return self._logical(found, value)
        if kind == "enum":
            found.symbols = _words(_get(value, "symbols"))
            return found
        fields: dict[str, Schema] = {}
        if not isinstance(_get(value, "fields"), list):
            raise ValueError(f"the fields of {name} are no list")
        for item in value["fields"]:
            if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                raise ValueError(f"{_shown(item)} is no field of {name}")
            if item["name"] in fields:
                raise ValueError(f"{name} has the field {item['name']!r} twice")
            try:
                fields[item["name"]] = self.schema(_get(item, "type"), namespace, depth + 1)
            except ValueError as e:
                raise ValueError(f"{item['name']}: {e}") from None
        found.fields = tuple(fields.items())
        return found

    def _logical(self, schema: Schema, value: dict[str, Any]) -> Schema:
        """The schema with its logical type. As the specification has it, one that is not valid where it stands is
        ignored."""
        word = value.get("logicalType")
        if word == "decimal" and schema.type in ("bytes", "fixed"):
            precision, scale = value.get("precision"), value.get("scale", 0)
            if type(precision) is int and type(scale) is int and 0 <= scale <= precision and precision > 0:
                schema.logical, schema.precision, schema.scale = "decimal", precision, scale
        elif word == "uuid" and (schema.type == "string" or (schema.type, schema.size) == ("fixed", 16)):
            schema.logical = "uuid"
        elif word == "duration" and (schema.type, schema.size) == ("fixed", 12):
            schema.logical = "duration"
        elif isinstance(word, str) and _LOGICAL.get(word) == schema.type:
            schema.logical = word
        return schema


def _get(value: dict[str, Any], key: str) -> Any:
    if key not in value:
        raise ValueError(f"{_shown(value)} has no {key!r}")
    return value[key]


def _whole(value: Any, what: str) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{_shown(value)} is no {what}")
    return value


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ValueError(f"{_shown(value)} is no list of symbols")
    return tuple(value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def at(schema: Schema, path: tuple[str, ...]) -> list[Schema]:
    """The types that a value at `path` can have, by each branch of unions on the way; none if there is no such field.

    Raises ValueError where a parent can be no record."""
    found = [schema]
    for i, key in enumerate(path):
        parents = [b for s in found for b in branches_of(s) if b.type != "null"]
        records = [b for b in parents if b.type == "record"]
        if parents and not records:
            raise ValueError(f"{'.'.join(('$', *path[:i]))} is {parents[0]}, not a record")
        found = [kind for r in records for name, kind in r.fields if name == key]
    return found


def branches_of(schema: Schema) -> tuple[Schema, ...]:
    """What a value may be of: one of a union's, else the schema's own."""
    return schema.branches if schema.type == "union" else (schema,)


def struct_field(record: Schema, name: str) -> str | None:
    """The record's field that a struct's field takes: of that name, else the only one of that name in another case.

    Raises ValueError where two could be meant."""
    names = [n for n, _ in record.fields]
    if name in names:
        return name
    near = [n for n in names if n.lower() == name]
    if len(near) > 1:
        raise ValueError(f"both {near[0]} and {near[1]} of {record.name} could be the struct's {name}")
    return near[0] if near else None


def misfit(schema: Schema, kind: HiveType, *, deep: bool = True) -> str | None:
    """Why no value of `schema` but null can be a `kind`; None if some can. Not `deep`: whatever is inside of it."""
    if schema.type == "union":
        reasons = [misfit(b, kind, deep=deep) for b in schema.branches if b.type != "null"]
        return None if not reasons or None in reasons else reasons[0]
    if schema.type == "null":
        return None
    if isinstance(kind, Array) and schema.type == "array":
        return _inner(schema.items, kind.element, "its elements") if deep else None
    if isinstance(kind, Map) and schema.type == "map":
        if str(kind.key) != "string":
            return f"keys of a map are strings, not {kind.key}"
        return _inner(schema.items, kind.value, "its values") if deep else None
    if isinstance(kind, Struct) and schema.type == "record":
        return _struct_misfit(schema, kind, deep)
    target = kind.name if isinstance(kind, Primitive) else str(kind).partition("(")[0].partition("<")[0]
    if target in SCALARS.get(schema.kind, ()) or (schema.type, schema.kind, target) == ("fixed", "uuid", "binary"):
        return None
    return f"{schema} cannot be {kind}"


def event_misfit(schema: Schema) -> str | None:
    """Why no value of `schema` can be an event time; None if some can."""
    if schema.type == "union":
        reasons = [event_misfit(b) for b in schema.branches if b.type != "null"]
        return None if not reasons or None in reasons else reasons[0]
    if schema.kind in ("null", "int", "long", "string") or "timestamp" in schema.logical:
        return None
    return f"{schema} cannot be an event time"


def _inner(schema: Schema | None, kind: HiveType, what: str) -> str | None:
    reason = misfit(schema, kind) if schema else None
    return reason and f"{what}: {reason}"


def _struct_misfit(schema: Schema, kind: Struct, deep: bool) -> str | None:
    fields = dict(schema.fields)
    for name, wanted in kind.fields:
        try:
            own = struct_field(schema, name)
        except ValueError as e:
            return str(e)
        reason = misfit(fields[own], wanted) if own and deep else None
        if reason:
            return f"{name}: {reason}"
    return None
