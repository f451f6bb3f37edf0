"""Protobuf by hand: descriptor sets from plain declarations, and random messages in their encoding."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from random import Random

from tests.value_rules.oracle_protobuf_wire import KINDS, WIRE

_NUMBERS = {kind: number for number, kind in KINDS.items()}
_VARINTS = (
    0,
    1,
    2,
    5,
    127,
    128,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64 - 2**31,
    2**64 - 1 - 5,
)
_TEXTS = ("", "x", "123", "1.5", "true", "aü😀", "2013-01-05", "2013-01-05T04:05:06Z", "\x00", "x" * 200)


@dataclass(frozen=True)
class Declared:
    """A field. `of`: full name of a message or enum; `label`: optional | repeated | required; `presence`: proto3's
    `optional`; `oneof`: a member of the message's one oneof."""

    name: str
    number: int
    kind: str
    of: str = ""
    label: str = "optional"
    presence: bool = False
    oneof: bool = False


@dataclass(frozen=True)
class DeclaredMessage:
    """`name` within the package, nested ones as `Outer.Inner`."""

    name: str
    fields: tuple[Declared, ...]
    map_entry: bool = False
    nested: tuple[DeclaredMessage, ...] = ()


@dataclass(frozen=True)
class DeclaredFile:
    package: str
    messages: tuple[DeclaredMessage, ...]
    enums: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    proto3: bool = True
    name: str = "test.proto"
    needs: tuple[str, ...] = ()


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def sized(number: int, content: bytes | str) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return tag(number, 2) + varint(len(raw)) + raw


def descriptor_set(*files: DeclaredFile) -> bytes:
    return b"".join(sized(1, _file(file)) for file in files)


def _file(file: DeclaredFile) -> bytes:
    out = sized(1, file.name) + (sized(2, file.package) if file.package else b"")
    out += b"".join(sized(3, other) for other in file.needs)
    out += b"".join(sized(4, _message(message)) for message in file.messages)
    out += b"".join(sized(5, _enum(name, values)) for name, values in file.enums)
    return out + (sized(12, "proto3") if file.proto3 else b"")


def _message(message: DeclaredMessage) -> bytes:
    out, oneofs = sized(1, message.name), ["choice"] * any(field.oneof for field in message.fields)
    for field in message.fields:
        raw = sized(1, field.name) + tag(3, 0) + varint(field.number)
        raw += tag(4, 0) + varint({"optional": 1, "required": 2, "repeated": 3}[field.label])
        raw += tag(5, 0) + varint(_NUMBERS[field.kind]) + (sized(6, "." + field.of) if field.of else b"")
        if field.oneof:
            raw += tag(9, 0) + varint(0)
        if field.presence:
            raw += tag(9, 0) + varint(len(oneofs)) + tag(17, 0) + varint(1)
            oneofs.append(f"_{field.name}")
        out += sized(2, raw)
    out += b"".join(sized(3, _message(inner)) for inner in message.nested)
    out += sized(7, tag(7, 0) + varint(1)) if message.map_entry else b""
    return out + b"".join(sized(8, sized(1, name)) for name in oneofs)


def _enum(name: str, values: tuple[tuple[str, int], ...]) -> bytes:
    out = sized(1, name)
    for symbol, number in values:
        out += sized(2, sized(1, symbol) + tag(2, 0) + varint(number & (1 << 64) - 1))
    return out


def scalar(kind: str, rng: Random) -> bytes:
    """A value's bytes, without its tag; strings and bytes with their length."""
    if WIRE.get(kind) == 2:
        raw = rng.choice(_TEXTS).encode() if kind != "bytes" or rng.random() < 0.5 else rng.randbytes(4)
        return varint(len(raw)) + raw
    if kind in ("double", "float"):
        number = rng.choice((0.0, -0.0, 1.5, -2.25, 0.1, 1e30, float("nan"), float("inf"), rng.uniform(-1000, 1000)))
        return struct.pack("<d" if kind == "double" else "<f", number)
    if kind in ("fixed64", "sfixed64", "fixed32", "sfixed32"):
        size = 8 if "64" in kind else 4
        return (rng.choice(_VARINTS) & (1 << 8 * size) - 1).to_bytes(size, "little")
    if kind == "bool":
        return varint(rng.choice((0, 1, 1, 1, 2)))
    if kind in ("int64", "uint64", "sint64"):
        return varint(rng.choice((*_VARINTS, rng.randrange(1 << 64), 1357358706123)))
    small = rng.choice((0, 1, 2, 7, 127, 2**31 - 1, rng.randrange(1 << 31)))
    if kind in ("int32", "enum") and rng.random() < 0.3:
        return varint((1 << 64) - 1 - small)  # negative
    return varint(small * 2 & (1 << 32) - 1 if kind == "sint32" and rng.random() < 0.5 else small)


def wire_of(kind: str) -> int:
    return WIRE.get(kind, 0)
