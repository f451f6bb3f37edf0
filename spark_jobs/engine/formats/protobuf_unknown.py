"""Fields of protobuf messages that no column takes, at the top and inside of those that one takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from spark_jobs.engine.formats.assembly import as_text
from spark_jobs.engine.formats.known import NESTED, Items, Known, joined, unknown_texts
from tidegate.core.base.hivetypes import Array, HiveType, Map, Struct
from tidegate.descriptors import is_map, repeated, struct_field

Shown = tuple[FieldDescriptor | None, Any]
"""A field's value, or one element of it; without a field: the text of one that the descriptors do not have."""


def known_of(field: FieldDescriptor, kind: HiveType) -> Known:
    """What a column of this type takes of a field's value, by the descriptors' names. Raises ValueError."""
    if is_map(field) and isinstance(kind, Map):
        each = known_of(field.message_type.fields_by_name["value"], kind.value)
        return None if each is None else Items(each)
    if repeated(field) and isinstance(kind, Array):
        each = _known_of_one(field, kind.element)
        return None if each is None else Items(each)
    return _known_of_one(field, kind)


def _known_of_one(field: FieldDescriptor, kind: HiveType) -> Known:
    if not isinstance(kind, Struct) or field.message_type is None:
        return None
    known: dict[str, Known] = {}
    for name, wanted in kind.fields:
        own = struct_field(field.message_type, name)
        if own is not None:
            below = known_of(own, wanted)
            known[own.name] = joined(known[own.name], below) if own.name in known else below
    return known


def unknown_of(message: Message, known: dict[str, Known]) -> list[tuple[str, str]]:
    """Fields that are there and that no column takes, by their names; those that the descriptors do not know by their
    numbers, `#7`."""
    return list(unknown_texts((None, message), known, NESTED, _text, _members, _elements).items())


def _members(shown: Shown) -> Iterator[tuple[str, Shown]] | None:
    message = shown[1]
    return _fields(message) if isinstance(message, Message) else None


def _fields(message: Message) -> Iterator[tuple[str, Shown]]:
    for field, value in message.ListFields():
        yield field.name, (field, value)
    for name, text in _by_number(UnknownFieldSet(message)).items():
        yield name, (None, text)


def _elements(shown: Shown) -> Collection[Shown]:
    field, value = shown
    if field is None:
        return ()
    if is_map(field):
        inner = field.message_type.fields_by_name["value"]
        if any(isinstance(key, bytes) for key in value):
            return ()
        return [(inner, value[key]) for key in sorted(value)]
    return [(None, item) for item in value] if repeated(field) else ()


def _text(shown: Shown) -> str:
    field, value = shown
    return value if field is None else as_text(_shown(field, value))


def _by_number(fields: Iterable[Any]) -> dict[str, str]:
    """`#number` -> its JSON text, an array where the number comes more than once."""
    found: dict[int, list[str]] = {}
    for item in fields:
        found.setdefault(item.field_number, []).append(_raw(item.data))
    return {f"#{n}": t[0] if len(t) == 1 else f"[{','.join(t)}]" for n, t in sorted(found.items())}


def _raw(data: Any) -> str:
    if isinstance(data, int | bytes):
        return as_text(data)
    return "{" + ",".join(f'"{name}":{text}' for name, text in _by_number(data).items()) + "}"


def _shown(field: FieldDescriptor, value: Any) -> Any:
    if is_map(field):
        inner = field.message_type.fields_by_name["value"]
        keys = list(value)
        if any(isinstance(key, bytes) for key in keys):  # no UTF-8 (proto2): the library cannot look such a key up
            return sorted(_key(key) for key in keys)
        return {_key(key): _single_shown(inner, value[key]) for key in keys}
    if repeated(field):
        return [_single_shown(field, item) for item in value]
    return _single_shown(field, value)


def _key(key: Any) -> str:
    if isinstance(key, bytes):
        return key.decode(errors="backslashreplace")
    return str(key).lower() if isinstance(key, bool) else str(key)


def _single_shown(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return {f.name: _shown(f, inner) for f, inner in value.ListFields()}
    if field.enum_type is not None:
        return next((v.name for v in field.enum_type.values if v.number == value), value)
    if field.type == FieldDescriptor.TYPE_STRING and isinstance(value, bytes):  # proto2 verifies nothing
        return value.decode(errors="backslashreplace")
    return value
