"""The columns that an Avro schema of change events has for the source's table."""

from __future__ import annotations

import re

from tidegate.core.spec.avro import Schema

_SCALARS = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
    "uuid": "string",
    "timestamp-millis": "timestamp",
}
_MOST_DIGITS = 38
_FIELD = re.compile(r"[a-z][a-z0-9_]*")


def row_types(schema: Schema, flat: bool) -> dict[str, str]:
    """As `column_types`, without texts, of which values say more (they may be times)."""
    return {name: kind for name, kind in column_types(schema, flat).items() if kind != "string"}


def column_types(schema: Schema, flat: bool) -> dict[str, str]:
    """Hive types of the row's columns by their names, without what no type takes. `schema`: of an envelope, or of a
    `flat` event."""
    row = schema if flat else dict(schema.fields).get("after")
    found = {}
    for name, each in () if row is None else _alone(row).fields:
        kind = None if name.startswith("__") else hive_type(each)
        if kind is not None:
            found[name] = kind
    return found


def exact_types(schema: Schema, flat: bool) -> dict[str, str]:
    """As `column_types`, small integers as what Connect says of them: Avro has none below `int`."""
    row = schema if flat else dict(schema.fields).get("after")
    narrow = {name: _alone(each).narrow for name, each in (() if row is None else _alone(row).fields)}
    return {name: narrow.get(name) or kind for name, kind in column_types(schema, flat).items()}


def hive_type(schema: Schema, inside: tuple[str, ...] = ()) -> str | None:
    """The type that takes the schema's values by the rules of change events; None if none takes them as they are.
    `inside`: names of the records around it."""
    schema = _alone(schema)
    if schema.logical == "decimal":
        return f"decimal({schema.precision},{schema.scale})" if schema.precision <= _MOST_DIGITS else None
    if schema.kind in _SCALARS:
        return _SCALARS[schema.kind]
    if schema.type in ("array", "map"):
        inner = None if schema.items is None else hive_type(schema.items, inside)
        return inner and (f"array<{inner}>" if schema.type == "array" else f"map<string,{inner}>")
    if schema.type == "record":
        if schema.name in inside:
            return None
        fields = [(name, hive_type(each, (*inside, schema.name))) for name, each in schema.fields]
        if fields and all(kind and _FIELD.fullmatch(name) for name, kind in fields):
            return f"struct<{','.join(f'{name}:{kind}' for name, kind in fields)}>"
        return None
    return _SCALARS.get(schema.type)  # a logical type that the rules take as its number


def _alone(schema: Schema) -> Schema:
    """The type of what is not null; a union of several is nothing that a column takes as a whole."""
    branches = [b for b in schema.branches if b.type != "null"]
    return branches[0] if len(branches) == 1 else schema
