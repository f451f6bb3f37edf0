"""Ids of a table's fields: files that have landed call columns by them, and a table that is made anew has to, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from pyiceberg.schema import Schema, index_by_name, index_name_by_id
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, TableUpdate
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

Ids = Mapping[str, int]
"""By path, as Iceberg spells it: `tags.element`, `m.key`, `st.a`."""


def numbered(schema: Schema, ids: Ids, last: int = 0) -> Schema:
    """The schema with these ids; other fields get new ones, above all of them and above `last`. Fields that identify
    rows keep theirs."""
    new = count(max(last, *ids.values(), 0) + 1)

    def number(path: str) -> int:
        return ids[path] if path in ids else next(new)

    return Schema(
        *_fields(schema.fields, "", number),
        schema_id=schema.schema_id,
        identifier_field_ids=schema.identifier_field_ids,
    )


def called_otherwise(schema: Schema, ids: Ids) -> str | None:
    """In words, a field that files and the table call by different ids; None if they agree."""
    have, names = index_by_name(schema), index_name_by_id(schema)
    for path, number in ids.items():
        if have.get(path, number) != number or (path not in have and number in names):
            there = f"calls it {have[path]}" if path in have else f"has {names[number]} by that id"
            return f"{path} field {number}, the table {there}"
    return None


def replacing(schema: Schema) -> tuple[TableUpdate, ...]:
    """What makes it the table's schema, as it is."""
    return AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate.model_validate({"schema-id": -1})


def _fields(fields: tuple[NestedField, ...], above: str, number: Callable[[str], int]) -> list[NestedField]:
    return [
        f.model_copy(
            update={"field_id": number(above + f.name), "field_type": _kind(f.field_type, above + f.name, number)}
        )
        for f in fields
    ]


def _kind(kind: IcebergType, path: str, number: Callable[[str], int]) -> IcebergType:
    if isinstance(kind, StructType):
        return StructType(*_fields(kind.fields, f"{path}.", number))
    if isinstance(kind, ListType):
        inner = f"{path}.element"
        return ListType(number(inner), _kind(kind.element_type, inner, number), element_required=kind.element_required)
    if isinstance(kind, MapType):
        key, value = f"{path}.key", f"{path}.value"
        key_id, value_id = number(key), number(value)
        return MapType(
            key_id,
            _kind(kind.key_type, key, number),
            value_id,
            _kind(kind.value_type, value, number),
            value_required=kind.value_required,
        )
    return kind
