"""The columns of the source's table by the schema in a message of Connect's JSON converter (`schemas.enable`)."""

from __future__ import annotations

import re
from typing import Any

_SCALARS = {
    "boolean": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
}
"""No type takes the Base64 text of `bytes` as what it means."""
_FIELD = re.compile(r"[a-z][a-z0-9_]*")
_ADDED = "__"


def column_types(schema: Any, flat: bool) -> dict[str, str]:
    """Hive types of the row's columns by their names, without what no type takes as it is. `schema`: the message's part
    of that name, of an envelope or of a `flat` event; whatever it is."""
    row = schema if flat else next((s for name, s in _fields(schema) if name == "after"), None)
    types = {name: _type(each) for name, each in _fields(row) if not name.startswith(_ADDED)}
    return {name: kind for name, kind in types.items() if kind is not None}


def _fields(schema: Any) -> list[tuple[str, Any]]:
    found = schema.get("fields") if isinstance(schema, dict) and schema.get("type") == "struct" else None
    if not isinstance(found, list):
        return []
    return [(each["field"], each) for each in found if isinstance(each, dict) and isinstance(each.get("field"), str)]


def _type(schema: Any) -> str | None:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "array":
        inner = _type(schema.get("items"))
        return inner and f"array<{inner}>"
    if kind == "map":
        keys, inner = _type(schema.get("keys")), _type(schema.get("values"))
        return f"map<string,{inner}>" if keys == "string" and inner else None
    if kind == "struct":
        fields = [(name, _type(each)) for name, each in _fields(schema)]
        if fields and all(inner and _FIELD.fullmatch(name) for name, inner in fields):
            return f"struct<{','.join(f'{name}:{inner}' for name, inner in fields)}>"
        return None
    return _SCALARS.get(kind) if isinstance(kind, str) else None
