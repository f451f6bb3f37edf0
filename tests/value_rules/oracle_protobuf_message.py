"""The oracle's protobuf messages: fields of a declared type, by protobuf's rules of merging, presence and packing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.value_rules.oracle_protobuf_wire import (
    BYTES,
    FIXED32,
    FIXED64,
    MAX_DEPTH,
    START,
    VARINT,
    WIRE,
    Field,
    MessageType,
    Types,
    Wire,
    fixed,
    read_fields,
    signed,
    varint,
    zigzag,
)
from tests.value_rules.oracle_text import Dirty

DEFAULTS = {"string": b"", "bytes": b"", "bool": False, "double": 0.0, "float": 0.0}


@dataclass
class Message:
    """`fields`: what is there, by number: a value, a list, a dict for maps; strings are bytes. `unknown`: the rest."""

    type: MessageType
    fields: dict[int, Any] = field(default_factory=dict)
    unknown: list[Wire] = field(default_factory=list)


def decode(types: Types, name: str, data: bytes) -> Message:
    """Raises Dirty: corrupt, too deep, without a required field, text that is none."""
    message = Message(types.messages[name])
    _fill(types, message, data, 0)
    _require(types, message)
    return message


def _fill(types: Types, message: Message, data: bytes, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Dirty("depth")
    for number, wire, value in read_fields(data, depth):
        declared = message.type.fields.get(number)
        if declared is None or not _take(types, message, declared, wire, value, depth):
            message.unknown.append((number, wire, value))


def _take(types: Types, message: Message, declared: Field, wire: int, value: Any, depth: int) -> bool:
    """Whether the field could be taken; if not, it is unknown."""
    own = WIRE.get(declared.kind, VARINT)
    if declared.repeated and wire == BYTES and own in (VARINT, FIXED32, FIXED64):
        for raw in _packed(own, value):
            item = _scalar(declared.kind, raw)
            if _closed_out(types, declared, item):
                message.unknown.append((declared.number, VARINT, raw))
            else:
                message.fields.setdefault(declared.number, []).append(item)
        return True
    if wire != own:
        return False
    if own in (BYTES, START) and declared.kind in ("message", "group"):
        return _submessage(types, message, declared, value, depth)
    item = _scalar(declared.kind, value)
    if declared.kind == "string" and message.type.proto3:
        _check_text(item)
    if _closed_out(types, declared, item):
        return False
    if declared.repeated:
        message.fields.setdefault(declared.number, []).append(item)
    else:
        _clear_others(message, declared)
        message.fields[declared.number] = item
    return True


def _submessage(types: Types, message: Message, declared: Field, value: bytes, depth: int) -> bool:
    inner = types.messages[declared.type_name]
    if inner.map_entry:
        return _entry(types, message, declared, value, depth)
    if declared.repeated:
        made = Message(inner)
        message.fields.setdefault(declared.number, []).append(made)
    else:
        _clear_others(message, declared)
        made = message.fields.setdefault(declared.number, Message(inner))
    _fill(types, made, value, depth + 1)
    return True


def _entry(types: Types, message: Message, declared: Field, value: bytes, depth: int) -> bool:
    entry = Message(types.messages[declared.type_name])
    _fill(types, entry, value, depth + 1)
    kinds = entry.type.fields
    if entry.unknown:
        return False
    key = entry.fields.get(1, default(types, kinds[1]))
    held = entry.fields.get(2)
    if held is None:
        held = Message(types.messages[kinds[2].type_name]) if kinds[2].kind == "message" else default(types, kinds[2])
    message.fields.setdefault(declared.number, {})[key] = held
    return True


def default(types: Types, declared: Field) -> Any:
    if declared.kind == "enum":
        return next(iter(types.enums[declared.type_name]))
    return DEFAULTS.get(declared.kind, 0)


def _clear_others(message: Message, declared: Field) -> None:
    if declared.oneof is not None:
        for other in message.type.fields.values():
            if other.oneof == declared.oneof and other.number != declared.number:
                message.fields.pop(other.number, None)


def _closed_out(types: Types, declared: Field, item: Any) -> bool:
    return (
        declared.kind == "enum" and declared.type_name in types.closed and item not in types.enums[declared.type_name]
    )


def _packed(wire: int, data: bytes) -> list[Any]:
    items: list[Any] = []
    at, size = 0, {FIXED32: 4, FIXED64: 8}.get(wire)
    while at < len(data):
        if size is None:
            number, at = varint(data, at)
            items.append(number)
        else:
            if at + size > len(data):
                raise Dirty("truncated")
            items.append(data[at : at + size])
            at += size
    return items


def _scalar(kind: str, value: Any) -> Any:
    if kind in ("double", "float", "fixed64", "sfixed64", "fixed32", "sfixed32"):
        return fixed(kind, value)
    if kind in ("int32", "enum"):
        return signed(value, 32)
    if kind == "int64":
        return signed(value)
    if kind == "uint32":
        return value & (1 << 32) - 1
    if kind == "sint32":
        return signed(zigzag(value & (1 << 32) - 1), 32)
    if kind == "sint64":
        return signed(zigzag(value))
    return value != 0 if kind == "bool" else value


def _check_text(raw: bytes) -> None:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Dirty("utf8") from None


def _require(types: Types, message: Message) -> None:
    for number, declared in message.type.fields.items():
        if declared.required and number not in message.fields:
            raise Dirty("required")
        held = message.fields.get(number)
        inner = held.values() if isinstance(held, dict) else held if isinstance(held, list) else [held]
        for item in inner:
            if isinstance(item, Message):
                _require(types, item)
