"""The oracle's protobuf reader: a FileDescriptorSet's bytes become message types, a message's bytes its fields as they
are on the wire. By protobuf's encoding and the page; imports nothing of the engine."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.value_rules.oracle_text import Dirty

MAX_DEPTH = 100
"""Messages and groups below the top one."""
SHORT = 5
"""Bytes of a tag or a length, at most."""
KINDS = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32", 16: "sfixed64", 17: "sint32",
    18: "sint64",
}  # fmt: skip
VARINT, FIXED64, BYTES, START, END, FIXED32 = range(6)
WIRE = {
    "double": FIXED64, "fixed64": FIXED64, "sfixed64": FIXED64, "float": FIXED32, "fixed32": FIXED32,
    "sfixed32": FIXED32, "string": BYTES, "message": BYTES, "bytes": BYTES, "group": START,
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """`type_name`: of messages and enums, without the dot in front; `oneof`: its number, of `optional` too."""

    name: str
    number: int
    kind: str
    repeated: bool
    required: bool
    type_name: str = ""
    oneof: int | None = None


@dataclass
class MessageType:
    name: str
    fields: dict[int, Field] = field(default_factory=dict)
    map_entry: bool = False
    proto3: bool = False


@dataclass
class Types:
    """`indexes`: the path of a message by the order in its file, outermost first; `closed`: enums of proto2."""

    messages: dict[str, MessageType] = field(default_factory=dict)
    enums: dict[str, dict[int, str]] = field(default_factory=dict)
    indexes: dict[str, list[int]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)


Wire = tuple[int, int, int | bytes]
"""(field number, wire type, varint or the bytes)."""


def read_fields(data: bytes, depth: int = 0, *, any_number: bool = False) -> Iterator[Wire]:
    """The fields in their order; groups as the bytes between their tags. `depth` is this message's, `any_number` for
    the inside of an unknown group. Raises Dirty."""
    at = 0
    while at < len(data):
        number, wire, value, at = _field(data, at, depth + 1, any_number=any_number)
        yield number, wire, value


def _field(data: bytes, at: int, depth: int, *, any_number: bool = False) -> tuple[int, int, int | bytes, int]:
    tag, at = varint(data, at, SHORT)
    number, wire = tag >> 3, tag & 7
    if number >= 1 << 29 or (number == 0 and not any_number):
        raise Dirty("field number")
    if wire == VARINT:
        value, at = varint(data, at)
        return number, wire, value, at
    if wire == START:
        return _group(data, at, number, depth)
    if wire == BYTES:
        size, at = varint(data, at, SHORT)
    elif wire in (FIXED32, FIXED64):
        size = 4 if wire == FIXED32 else 8
    else:
        raise Dirty("wire type")
    if at + size > len(data):
        raise Dirty("truncated")
    return number, wire, data[at : at + size], at + size


def _group(data: bytes, at: int, number: int, depth: int) -> tuple[int, int, int | bytes, int]:
    start = at
    if depth > MAX_DEPTH:
        raise Dirty("depth")
    while True:
        before = at
        tag, after = varint(data, at, SHORT)
        if tag & 7 == END:
            if tag >> 3 != number:
                raise Dirty("group")
            return number, START, data[start:before], after
        *_, at = _field(data, at, depth + 1, any_number=True)


def varint(data: bytes, at: int, longest: int = 10) -> tuple[int, int]:
    """At most `longest` bytes; bits beyond 64 are cut off."""
    number = shift = 0
    while True:
        if at >= len(data):
            raise Dirty("truncated")
        byte = data[at]
        number |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            break
        if shift >= 7 * longest:
            raise Dirty("varint")
    return number & (1 << 64) - 1, at


def signed(number: int, bits: int = 64) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def fixed(kind: str, data: bytes) -> int | float:
    forms = {"double": "<d", "float": "<f", "fixed64": "<Q", "sfixed64": "<q", "fixed32": "<I", "sfixed32": "<i"}
    return struct.unpack(forms[kind], data)[0]


def types_of(descriptor_set: bytes) -> Types:
    """What a FileDescriptorSet (google/protobuf/descriptor.proto) declares."""
    types = Types()
    for number, _, file in read_fields(descriptor_set):
        if number == 1:
            _file(_bytes(file), types)
    return types


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _file(data: bytes, types: Types) -> None:
    found = list(read_fields(data))
    package = next((_bytes(v).decode() for n, _, v in found if n == 2), "")
    proto3 = any(n == 12 and v == b"proto3" for n, _, v in found)
    for i, value in enumerate(v for n, _, v in found if n == 4):
        _message(_bytes(value), package, proto3, types, [i])
    for number, _, value in found:
        if number == 5:
            _enum(_bytes(value), package, proto3, types)


def _message(data: bytes, space: str, proto3: bool, types: Types, path: list[int]) -> None:
    found = list(read_fields(data))
    name = next(_bytes(v).decode() for n, _, v in found if n == 1)
    made = MessageType(f"{space}.{name}".lstrip("."), proto3=proto3)
    types.messages[made.name], types.indexes[made.name] = made, path
    for i, value in enumerate(v for n, _, v in found if n == 3):
        _message(_bytes(value), made.name, proto3, types, [*path, i])
    for number, _, value in found:
        if number == 2:
            each = _declared(_bytes(value))
            made.fields[each.number] = each
        elif number == 4:
            _enum(_bytes(value), made.name, proto3, types)
        elif number == 7:  # options
            made.map_entry = any(n == 7 and v == 1 for n, _, v in read_fields(_bytes(value)))


def _declared(data: bytes) -> Field:
    found = {n: v for n, _, v in read_fields(data)}
    return Field(
        _bytes(found[1]).decode(),
        int(found[3]),  # type: ignore[arg-type]
        KINDS[int(found[5])],  # type: ignore[arg-type]
        found.get(4) == 3,
        found.get(4) == 2,
        _bytes(found.get(6, b"")).decode().lstrip("."),
        int(found[9]) if 9 in found else None,  # type: ignore[arg-type]
    )


def _enum(data: bytes, space: str, proto3: bool, types: Types) -> None:
    names: dict[int, str] = {}
    name = ""
    for number, _, value in read_fields(data):
        if number == 1:
            name = _bytes(value).decode()
        elif number == 2:
            found = {n: v for n, _, v in read_fields(_bytes(value))}
            names.setdefault(signed(int(found.get(2, 0))), _bytes(found[1]).decode())  # type: ignore[arg-type]
    full = f"{space}.{name}".lstrip(".")
    types.enums[full] = names
    if not proto3:
        types.closed.add(full)
