"""Field ids of an Iceberg table that takes copied files: those by which the files call their columns.

A table numbers its columns by its own history, which a copy does not have. So columns come with the first file that
holds them, under the id that it says; a column that no file has brought yet is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema, index_by_name
from pyiceberg.table.update import TableUpdate
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from tidegate.core.base.errors import CatalogueMismatch
from tidegate.targets.iceberg.catalogue import Loaded
from tidegate.targets.iceberg.definition import Definition
from tidegate.targets.iceberg.live import look
from tidegate.targets.iceberg.numbering import Ids, called_otherwise, replacing

_ID = b"PARQUET:field_id"


def ids_in(file: BinaryIO) -> dict[str, int]:
    """What a file of parquet says."""
    return dict(_ids(pq.ParquetFile(file).schema_arrow, ""))


def _ids(fields: Iterable[pa.Field], above: str) -> Iterator[tuple[str, int]]:
    for field in fields:
        yield from _of(field, f"{above}{field.name}")


def _of(field: pa.Field, path: str) -> Iterator[tuple[str, int]]:
    if field.metadata and _ID in field.metadata:
        yield path, int(field.metadata[_ID])
    kind = field.type
    if pa.types.is_struct(kind):
        yield from _ids((kind.field(i) for i in range(kind.num_fields)), f"{path}.")
    elif pa.types.is_map(kind):
        yield from _of(kind.key_field, f"{path}.key")
        yield from _of(kind.item_field, f"{path}.value")
    elif pa.types.is_list(kind):
        yield from _of(kind.value_field, f"{path}.element")


def first_schema(definition: Definition, ids: Ids) -> Schema:
    """Of a new table. Without files it is numbered anew, until the first one comes."""
    if not ids:
        return definition.schema()
    return Schema(*_columns(definition, ids))


def changes(definition: Definition, loaded: Loaded, ids: Ids) -> tuple[TableUpdate, ...]:
    """What gives the table the columns of these files; nothing if it has them. Raises CatalogueMismatch where its own
    files call a column by another id."""
    schema = loaded.metadata.schema()
    told = called_otherwise(schema, ids)
    if told is None:
        return _set(schema, _evolved(definition, schema, {**index_by_name(schema), **ids}))
    if look(loaded.metadata, loaded.io, None).files:
        raise CatalogueMismatch(
            f"{loaded.name}: files that are copied call {told}",
            advice="somebody has changed the table there, or made the pipeline's own anew: give the delivery another "
            "table and location",
        )
    return _set(schema, _columns(definition, ids))


def _set(schema: Schema, fields: list[NestedField]) -> tuple[TableUpdate, ...]:
    wanted = Schema(*fields, schema_id=schema.schema_id + 1)
    if wanted.as_struct() == schema.as_struct():
        return ()
    return replacing(wanted)


def _columns(definition: Definition, ids: Ids) -> list[NestedField]:
    """Columns of the spec that files have brought."""
    fresh = (field for field in definition.schema().fields if field.name in ids)
    return [found for field in fresh if (found := _numbered(field, field.name, ids)) is not None]


def _evolved(definition: Definition, schema: Schema, ids: Ids) -> list[NestedField]:
    """The table's columns, those of the spec by today's types, then new ones."""
    fresh = {field.name: field for field in _columns(definition, ids)}
    kept = [_newer(field, fresh.get(field.name)) for field in schema.fields]
    there = {field.name for field in schema.fields}
    return [*kept, *(field for name, field in fresh.items() if name not in there)]


def _newer(field: NestedField, fresh: NestedField | None) -> NestedField:
    return field if fresh is None else fresh.model_copy(update={"required": field.required})


def _numbered(field: NestedField, path: str, ids: Ids) -> NestedField | None:
    """The field with the ids of `ids`; None if one is missing."""
    kind = _kind(field.field_type, path, ids)
    if kind is None or path not in ids:
        return None
    return NestedField(ids[path], field.name, kind, required=field.required)


def _kind(kind: IcebergType, path: str, ids: Ids) -> IcebergType | None:
    if isinstance(kind, StructType):
        fields = [_numbered(f, f"{path}.{f.name}", ids) for f in kind.fields]
        known = [f for f in fields if f is not None]
        return StructType(*known) if len(known) == len(fields) else None
    if isinstance(kind, ListType):
        element = _kind(kind.element_type, f"{path}.element", ids)
        number = ids.get(f"{path}.element")
        return None if element is None or number is None else ListType(number, element, element_required=False)
    if isinstance(kind, MapType):
        return _map(kind, path, ids)
    return kind


def _map(kind: MapType, path: str, ids: Ids) -> IcebergType | None:
    key, value = _kind(kind.key_type, f"{path}.key", ids), _kind(kind.value_type, f"{path}.value", ids)
    numbers: list[Any] = [ids.get(f"{path}.key"), ids.get(f"{path}.value")]
    if key is None or value is None or None in numbers:
        return None
    return MapType(numbers[0], key, numbers[1], value, value_required=False)
