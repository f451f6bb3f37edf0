"""Protobuf's descriptors: message types from a FileDescriptorSet in Base64, and the columns that fit them.

Both planes ask it: the spec before a pipeline runs, the workers when they read. Nothing else of Tidegate is imported
but the core.
"""

from __future__ import annotations

import base64
import binascii

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from tidegate.core.base.hivetypes import Array, HiveType, Map, Primitive, Struct

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_NUMBERS = _INTEGERS | {"float", "double", "decimal", "timestamp"}
_F = FieldDescriptor
KINDS = {
    _F.TYPE_DOUBLE: "double",
    _F.TYPE_FLOAT: "float",
    _F.TYPE_INT32: "int32",
    _F.TYPE_SINT32: "int32",
    _F.TYPE_SFIXED32: "int32",
    _F.TYPE_INT64: "int64",
    _F.TYPE_SINT64: "int64",
    _F.TYPE_SFIXED64: "int64",
    _F.TYPE_UINT32: "uint32",
    _F.TYPE_FIXED32: "uint32",
    _F.TYPE_UINT64: "uint64",
    _F.TYPE_FIXED64: "uint64",
    _F.TYPE_BOOL: "bool",
    _F.TYPE_STRING: "string",
    _F.TYPE_BYTES: "bytes",
    _F.TYPE_ENUM: "enum",
    _F.TYPE_MESSAGE: "message",
    _F.TYPE_GROUP: "message",
}
SCALARS: dict[str, frozenset[str]] = {
    "bool": frozenset({"boolean"}),
    "int32": _NUMBERS,
    "int64": _NUMBERS,
    "uint32": _NUMBERS,
    "uint64": _NUMBERS,
    "float": frozenset({"float", "double"}),
    "double": frozenset({"float", "double"}),
    "string": frozenset({"string", "binary", "date", "timestamp"}),
    "bytes": frozenset({"binary"}),
    "enum": _INTEGERS | {"string"},
    "message": frozenset(),
    "timestamp": frozenset({"timestamp"}),
    "duration": frozenset({"decimal"}),
}
"""Kind of a single value -> names of the column types that take it, beside `struct` for a message."""
_WELL_KNOWN = "google.protobuf."
_WRAPPERS = frozenset(
    f"{_WELL_KNOWN}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def message_type(descriptor_set: str, name: str) -> Descriptor:
    """The message `name` of a FileDescriptorSet in Base64. Raises ValueError."""
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(descriptor_set, validate=True)).file
    except (DecodeError, binascii.Error):
        raise ValueError("is no FileDescriptorSet; `protoc --descriptor_set_out` makes one") from None
    if not files:
        raise ValueError("holds no file; `protoc --descriptor_set_out` makes one that does")
    pool = descriptor_pool.DescriptorPool()
    waiting = {file.name: file for file in files}
    done: set[str] = set()
    for file in files:
        _add(file.name, waiting, done, pool)
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        known = [f"{f.package}.{m.name}".lstrip(".") for f in files for m in f.message_type]
        shown = ", ".join(known[:20]) or "none"
        raise ValueError(f"has no message {name!r}; the messages are {shown}") from None


def _add(name: str, waiting: dict, done: set[str], pool: descriptor_pool.DescriptorPool) -> None:
    """Add a file after those that it imports, whatever the set's order."""
    if name in done:
        return
    done.add(name)
    file = waiting.get(name) or _well_known_file(name)
    if file is None:
        raise ValueError(f"lacks {name}; make it with `protoc --include_imports`")
    for other in file.dependency:
        _add(other, waiting, done, pool)
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except TypeError as e:
        raise ValueError(f"cannot be used: {name}: {e}") from None


def _well_known_file(name: str) -> descriptor_pb2.FileDescriptorProto | None:
    """One of Google's own files, which need not be in a set."""
    if not name.startswith("google/protobuf/"):
        return None
    from google.protobuf import duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2  # noqa: F401

    try:
        found = descriptor_pool.Default().FindFileByName(name)
    except KeyError:
        return None
    file = descriptor_pb2.FileDescriptorProto()
    found.CopyToProto(file)
    return file


def index_path(message: Descriptor) -> tuple[int, ...]:
    """Indexes of the message in its file, for Confluent's wire format: from the outermost message inwards."""
    parent = message.containing_type
    siblings = parent.nested_types if parent is not None else list(message.file.message_types_by_name.values())
    own = next(i for i, m in enumerate(siblings) if m.full_name == message.full_name)
    return (*(index_path(parent) if parent is not None else ()), own)


def is_map(field: FieldDescriptor) -> bool:
    return repeated(field) and field.message_type is not None and field.message_type.GetOptions().map_entry


def repeated(field: FieldDescriptor) -> bool:
    return _labelled(field, "is_repeated", 3)


def required(field: FieldDescriptor) -> bool:
    return _labelled(field, "is_required", 2)


def _labelled(field: FieldDescriptor, question: str, label: int) -> bool:
    """`label` as descriptor.proto numbers it: protobuf before 6.31, which Airflow may pin, has no other answer, and
    later versions give up the number."""
    answer = getattr(field, question, None)
    return bool(field.label == label if answer is None else answer)


def single(field: FieldDescriptor) -> str:
    """The kind of the field, or of its elements."""
    if field.message_type is None:
        return KINDS[field.type]
    name = field.message_type.full_name
    if name == f"{_WELL_KNOWN}Timestamp":
        return "timestamp"
    return "duration" if name == f"{_WELL_KNOWN}Duration" else "message"


def wrapped(field: FieldDescriptor) -> FieldDescriptor | None:
    """The only field of Google's wrappers, which stand for a scalar that may be missing."""
    if field.message_type is None or field.message_type.full_name not in _WRAPPERS:
        return None
    return field.message_type.fields_by_name["value"]


def at(message: Descriptor, path: tuple[str, ...]) -> tuple[FieldDescriptor, ...] | None:
    """The fields on the way to a value; None if there is no such field.

    Raises ValueError where a parent is no message."""
    fields: list[FieldDescriptor] = []
    place: Descriptor | None = message
    for i, key in enumerate(path):
        if place is None or (fields and repeated(fields[-1])):
            raise ValueError(f"$.{'.'.join(path[:i])} is {described(fields[-1])}, not a message")
        field = place.fields_by_name.get(key)
        if field is None:
            return None
        fields.append(field)
        place = field.message_type
    return tuple(fields)


def described(field: FieldDescriptor) -> str:
    kind = single(field)
    kind = field.message_type.full_name if kind == "message" else kind
    if is_map(field):
        return f"a map ({field.name})"
    return f"repeated {kind}" if repeated(field) else kind


def struct_field(message: Descriptor, name: str) -> FieldDescriptor | None:
    """The field that a struct's field takes: of that name, else the only one of that name in another case.

    Raises ValueError where two could be meant."""
    if name in message.fields_by_name:
        return message.fields_by_name[name]
    near = [f for f in message.fields if f.name.lower() == name]
    if len(near) > 1:
        raise ValueError(f"both {near[0].name} and {near[1].name} of {message.full_name} could be the struct's {name}")
    return near[0] if near else None


def misfit(field: FieldDescriptor, kind: HiveType) -> str | None:
    """Why no value of `field` can be a `kind`; None if some can."""
    if is_map(field):
        if not isinstance(kind, Map):
            return f"{described(field)} cannot be {kind}"
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return element_misfit(key, kind.key) or element_misfit(value, kind.value)
    if repeated(field):
        if not isinstance(kind, Array):
            return f"{described(field)} cannot be {kind}"
        return element_misfit(field, kind.element)
    return element_misfit(field, kind)


def element_misfit(field: FieldDescriptor, kind: HiveType) -> str | None:
    """Why no element of a repeated field can be a `kind`; None if some can."""
    inner = wrapped(field)
    if inner is not None and not isinstance(kind, Struct):
        return element_misfit(inner, kind)
    if isinstance(kind, Struct) and field.message_type is not None:
        return _struct_misfit(field.message_type, kind)
    target = kind.name if isinstance(kind, Primitive) else str(kind).partition("(")[0].partition("<")[0]
    if target in SCALARS[single(field)]:
        return None
    shown = field.message_type.full_name if field.message_type is not None else single(field)
    return f"{shown} cannot be {kind}"


def _struct_misfit(message: Descriptor, kind: Struct) -> str | None:
    for name, wanted in kind.fields:
        try:
            field = struct_field(message, name)
        except ValueError as e:
            return str(e)
        reason = misfit(field, wanted) if field is not None else None
        if reason:
            return f"{name}: {reason}"
    return None


def event_misfit(field: FieldDescriptor) -> str | None:
    """Why the field can be no event time."""
    inner = wrapped(field)
    kind = single(inner if inner is not None else field)
    if not repeated(field) and kind in ("int32", "int64", "uint32", "uint64", "string", "timestamp"):
        return None
    return f"{described(field)} cannot be an event time"
