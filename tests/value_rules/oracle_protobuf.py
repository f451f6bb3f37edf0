"""The oracle for protobuf messages: paths, conversions, unknown fields, by the page. Imports nothing of the engine."""

from __future__ import annotations

import base64
import ctypes
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.value_rules.oracle_avro import named
from tests.value_rules.oracle_json import PlainSpec, Refused, Row
from tests.value_rules.oracle_protobuf_message import Message, decode, default
from tests.value_rules.oracle_protobuf_wire import START, Field, Types, read_fields, types_of, varint, zigzag
from tests.value_rules.oracle_text import Dirty, Number, write_text
from tests.value_rules.oracle_times import EPOCH, event_ms
from tests.value_rules.oracle_unknown import Looking
from tests.value_rules.oracle_values import BITS, FIRST_MICROS, LAST_MICROS, Kind, convert, kind_of

WRAPPERS = {f"google.protobuf.{name}Value" for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool",
                                                         "String", "Bytes")}  # fmt: skip
INTEGERS = ("int32", "sint32", "sfixed32", "int64", "sint64", "sfixed64", "uint32", "fixed32", "uint64", "fixed64")
STAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"


@dataclass(frozen=True)
class ProtobufSettings:
    descriptor_set: bytes
    message: str
    confluent: bool = False


_types = cache(types_of)


def read(spec: PlainSpec, message: bytes | None) -> Row | Refused:
    settings: ProtobufSettings = spec.settings
    types = _types(settings.descriptor_set)
    try:
        top = decode(types, settings.message, _body(types, settings, message))
        values = {c.name: _column(types, top, c.path, c.type, c.name, c.nullable) for c in spec.columns}
        event = None if spec.time is None else _event(types, top, spec)
    except Dirty as e:
        return Refused(e.category, e.field)
    looking = Looking(
        _members,
        lambda shown: _elements(types, *shown),
        lambda shown: shown[1] if shown[0] is None else as_json(types, *shown),
        lambda shown: [f.name for f in shown[1].type.fields.values()] if isinstance(shown[1], Message) else (),
    )
    return Row(values, event, {} if spec.unknown == "ignore" else looking.unknown(spec, (None, top)))


def _body(types: Types, settings: ProtobufSettings, message: bytes | None) -> bytes:
    if message is None:
        raise Dirty("tombstone")
    if not settings.confluent:
        return message
    if len(message) < 6 or message[0] != 0:
        raise Dirty("header")
    count, at = varint(message, 5)
    count, path = zigzag(count), []
    if count < 0 or count > len(message):
        raise Dirty("header")
    for _ in range(count):
        index, at = varint(message, at)
        path.append(zigzag(index))
    if (path or [0]) != types.indexes[settings.message]:
        raise Dirty("indexes")
    return message[at:]


def _column(types: Types, top: Message, path: tuple[str, ...], kind: str, name: str, nullable: bool) -> Any:
    try:
        declared, value = _at(types, top, path)
        value = to_type(types, declared, value, kind_of(kind))
    except Dirty as e:
        raise Dirty(e.category, name + e.field) from None
    if value is None and not nullable:
        raise Dirty("null", name)
    return value


def _at(types: Types, top: Message, path: tuple[str, ...]) -> tuple[Field, Any]:
    place: Message | None = top
    kind = top.type
    for i, key in enumerate(path):
        declared = next(f for f in kind.fields.values() if f.name == key)
        value = None if place is None else present(types, place, declared)
        if i + 1 == len(path):
            return declared, value
        place, kind = value, types.messages[declared.type_name]
    raise AssertionError(path)


def present(types: Types, message: Message, declared: Field) -> Any:
    """The field's value by its presence: null, its default, or what is there."""
    if declared.number in message.fields:
        return message.fields[declared.number]
    if declared.repeated:
        return {} if _is_map(types, declared) else []
    if declared.kind in ("message", "group") or declared.oneof is not None or not message.type.proto3:
        return None
    return default(types, declared)


def _is_map(types: Types, declared: Field) -> bool:
    return declared.kind == "message" and types.messages[declared.type_name].map_entry


def to_type(types: Types, declared: Field, value: Any, kind: Kind) -> Any:
    """Raises Dirty with the place inside the column."""
    if value is None:
        return None
    if isinstance(value, dict):
        return _map(types, declared, value, kind)
    if isinstance(value, list):
        single = Field(declared.name, declared.number, declared.kind, False, False, declared.type_name)
        return [_inside(types, f"[{i}]", single, item, kind[1]) for i, item in enumerate(value)]
    if isinstance(value, Message):
        return _message(types, value, kind)
    return scalar(types, declared, value, kind)


def _inside(types: Types, place: str, declared: Field, value: Any, kind: Kind) -> Any:
    try:
        return to_type(types, declared, value, kind)
    except Dirty as e:
        raise Dirty(e.category, place + e.field) from None


def _map(types: Types, declared: Field, value: dict[Any, Any], kind: Kind) -> list[tuple[Any, Any]]:
    entry = types.messages[declared.type_name].fields
    pairs: list[tuple[Any, Any]] = []
    for key, item in value.items():
        shown = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
        made = _inside(types, f".{shown}", entry[1], key, kind[1][0])
        pairs.append((made, _inside(types, f".{shown}", entry[2], item, kind[1][1])))
    if len({key for key, _ in pairs}) < len(pairs):
        raise Dirty("duplicate")
    return pairs


def _message(types: Types, value: Message, kind: Kind) -> Any:
    fields = value.type.fields
    if kind[0] == "struct":
        declared = [(f.name, f) for f in fields.values()]
        chosen = [(name, inner, named(declared, name)) for name, inner in kind[1]]
        return {
            name: None if found is None else _inside(types, f".{name}", found, present(types, value, found), inner)
            for name, inner, found in chosen
        }
    if value.type.name in WRAPPERS:
        return to_type(types, fields[1], present(types, value, fields[1]), kind)
    seconds, nanos = value.fields.get(1, 0), value.fields.get(2, 0)
    if value.type.name == STAMP and kind[0] == "timestamp":
        return _micros(seconds, nanos)
    if value.type.name == DURATION and kind[0] == "decimal":
        if abs(seconds) > 315_576_000_000 or abs(nanos) >= 10**9 or seconds * nanos < 0:
            raise Dirty("range")
        return convert(Number(f"{seconds * 10**9 + nanos}e-9", False), kind)
    raise Dirty("kind")


def _micros(seconds: int, nanos: int) -> int:
    micros = seconds * 1_000_000 + nanos // 1000
    if not 0 <= nanos < 10**9 or not FIRST_MICROS <= micros <= LAST_MICROS:
        raise Dirty("range")
    return micros


def scalar(types: Types, declared: Field, value: Any, kind: Kind) -> Any:
    source, name = declared.kind, kind[0]
    if source in INTEGERS and (name in BITS or name in ("float", "double", "decimal", "timestamp")):
        return convert(Number(str(value), True), kind)
    if source in ("float", "double") and name in ("float", "double"):
        number = ctypes.c_float(value).value if name == "float" else value
        if not math.isfinite(number):
            raise Dirty("range")
        return number
    if source == "string" and name in ("string", "binary", "date", "timestamp"):
        return convert(_utf8(value), kind)
    if source == "enum":
        if name in BITS:
            return convert(Number(str(value), True), kind)
        if name == "string" and value in types.enums[declared.type_name]:
            return types.enums[declared.type_name][value]
        raise Dirty("enum")
    if (source, name) in (("bool", "boolean"), ("bytes", "binary")):
        return value
    raise Dirty("kind")


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Dirty("utf8") from None


def _event(types: Types, top: Message, spec: PlainSpec) -> int:
    try:
        return _moment(types, *_at(types, top, spec.time or ()), spec.time_format)
    except Dirty as e:
        raise Dirty("event time: " + e.category, "$" + "".join(f".{key}" for key in spec.time or ())) from None


def _moment(types: Types, declared: Field, value: Any, form: str) -> int:
    if isinstance(value, Message) and value.type.name == STAMP:
        return _micros(value.fields.get(1, 0), value.fields.get(2, 0)) // 1000
    if isinstance(value, Message) and value.type.name in WRAPPERS:
        declared = value.type.fields[1]
        value = present(types, value, declared)
    if value is None:
        raise Dirty("null")
    if declared.kind in INTEGERS and form in EPOCH:
        multiply, divide = EPOCH[form]
        ms = value * multiply // divide
        if not -62_135_596_800_000 <= ms <= 253_402_300_799_999:
            raise Dirty("range")
        return ms
    if declared.kind == "string" and form not in EPOCH:
        return event_ms(_utf8(value), form)
    raise Dirty("kind")


def _members(shown: tuple[Field | None, Any]) -> list[tuple[str, Any]]:
    message = shown[1]
    if not isinstance(message, Message):
        return []
    there = [(f, message.fields[n]) for n, f in sorted(message.type.fields.items()) if n in message.fields]
    known = [(f.name, (f, value)) for f, value in there if _is_there(message, f)]
    return known + [(name, (None, text)) for name, text in _numbered(message.unknown).items()]


def _elements(types: Types, declared: Field, value: Any) -> list[Any]:
    if isinstance(value, dict):
        entry = types.messages[declared.type_name].fields
        return [(entry[2], value[key]) for key in sorted(value)]
    return [(declared, item) for item in value] if isinstance(value, list) else []


def _is_there(message: Message, declared: Field) -> bool:
    value = message.fields[declared.number]
    if isinstance(value, list | dict | Message) or declared.oneof is not None or not message.type.proto3:
        return True
    return bool(value) or str(value) == "-0.0"


def _numbered(unknown: list[Any]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for number, wire, value in unknown:
        if wire == START:
            inner = _numbered(list(read_fields(value, any_number=True)))
            text = "{" + ",".join(f"{write_text(key)}:{item}" for key, item in inner.items()) + "}"
        elif wire == 2:
            text = f'"{base64.b64encode(value).decode()}"'
        else:
            text = str(value if isinstance(value, int) else int.from_bytes(value, "little"))
        found.setdefault(f"#{number}", []).append(text)
    return {key: items[0] if len(items) == 1 else f"[{','.join(items)}]" for key, items in found.items()}


def as_json(types: Types, declared: Field, value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(as_json(types, declared, item) for item in value) + "]"
    if isinstance(value, dict):
        entry = types.messages[declared.type_name].fields
        if any(isinstance(key, bytes) and not _is_text(key) for key in value):
            return "[" + ",".join(write_text(key) for key in sorted(map(_key, value))) + "]"
        pairs = ((_key(key), as_json(types, entry[2], item)) for key, item in value.items())
        return "{" + ",".join(f"{write_text(key)}:{text}" for key, text in pairs) + "}"
    if isinstance(value, Message):
        fields = value.type.fields
        shown = [(fields[n], v) for n, v in sorted(value.fields.items()) if _is_there(value, fields[n])]
        return "{" + ",".join(f"{write_text(f.name)}:{as_json(types, f, v)}" for f, v in shown) + "}"
    if declared.kind == "enum":
        name = types.enums[declared.type_name].get(value)
        return str(value) if name is None else write_text(name)
    if declared.kind == "bytes":
        return f'"{base64.b64encode(value).decode()}"'
    if declared.kind == "string":
        return write_text(value.decode("utf-8", "backslashreplace"))
    if declared.kind == "bool":
        return write_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    return repr(value)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _key(key: Any) -> str:
    if isinstance(key, bytes):
        return key.decode("utf-8", "backslashreplace")
    return str(key).lower() if isinstance(key, bool) else str(key)
