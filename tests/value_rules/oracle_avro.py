"""The oracle for Avro messages: paths, conversions and unknown fields, by the page. Imports nothing of the engine."""

from __future__ import annotations

import base64
import ctypes
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.value_rules.oracle_avro_binary import Schema, Value, parse, read_datum
from tests.value_rules.oracle_json import PlainSpec, Refused, Row
from tests.value_rules.oracle_text import Dirty, Number, write_text
from tests.value_rules.oracle_times import EPOCH, event_ms
from tests.value_rules.oracle_unknown import Looking
from tests.value_rules.oracle_values import BITS, FIRST_MICROS, LAST_MICROS, Kind, convert, kind_of

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
_PER_SECOND = {"millis": 1000, "micros": 1_000_000, "nanos": 1_000_000_000}


@dataclass(frozen=True)
class AvroSettings:
    """`schema` for plain messages; `schemas` (id, text) for Confluent's, with the ids that are not there dirty."""

    schema: str | None = None
    schemas: tuple[tuple[int, str], ...] = ()


_parsed = cache(parse)


def read(spec: PlainSpec, message: bytes | None) -> Row | Refused:
    try:
        top = _datum(spec.settings, message)
        values = {c.name: _column(top, c.path, c.type, c.name, c.nullable) for c in spec.columns}
        event = None if spec.time is None else _event(top, spec)
    except Dirty as e:
        return Refused(e.category, e.field)
    looking = Looking(
        lambda v: v.payload if v.schema.kind == "record" else (),
        _elements,
        as_json,
        lambda v: [name for name, _ in v.payload] if v.schema.kind == "record" else (),
    )
    return Row(values, event, {} if spec.unknown == "ignore" else looking.unknown(spec, top))


def _elements(value: Value) -> list[Value]:
    if value.schema.kind == "map":
        return list({key: item for key, item in value.payload}.values())
    return value.payload if value.schema.kind == "array" else []


def _datum(settings: AvroSettings, message: bytes | None) -> Value:
    if message is None:
        raise Dirty("tombstone")
    if settings.schema is not None:
        return read_datum(_parsed(settings.schema), message)
    if len(message) < 5 or message[0] != 0:
        raise Dirty("header")
    text = dict(settings.schemas).get(int.from_bytes(message[1:5], "big"))
    if text is None:
        raise Dirty("unknown schema")
    return read_datum(_parsed(text), message[5:])


def _column(top: Value, path: tuple[str, ...], kind: str, name: str, nullable: bool) -> Any:
    try:
        value = to_type(_at(top, path), kind_of(kind))
    except Dirty as e:
        raise Dirty(e.category, name + e.field) from None
    if value is None and not nullable:
        raise Dirty("null", name)
    return value


def _at(top: Value, path: tuple[str, ...]) -> Value | None:
    place: Value | None = top
    for key in path:
        if place is None or place.kind == "null":
            return None
        if place.kind != "record":
            raise Dirty("path")
        place = dict(place.payload).get(key)
    return place


def to_type(value: Value | None, kind: Kind) -> Any:
    """Raises Dirty with the place inside the column."""
    if value is None or value.kind == "null":
        return None
    source, (name, detail) = value.kind, kind
    if name == "array" and source == "array":
        return [_inside(f"[{i}]", item, detail) for i, item in enumerate(value.payload)]
    if name == "map" and source == "map" and detail[0][0] == "string":
        return _map(value, detail[1])
    if name == "struct" and source == "record":
        found = [(field, inner, named(value.payload, field)) for field, inner in detail]
        return {field: _inside(f".{field}", item, inner) for field, inner, item in found}
    if name == "bigint" and _FAMILY.get(source) == "stamp":
        return _integer(value, kind)
    rule = _RULES.get((_FAMILY.get(source, source), name if name not in BITS else "integer"))
    if rule is None:
        raise Dirty("kind")
    return rule(value, kind)


def _inside(place: str, value: Value | None, kind: Kind) -> Any:
    try:
        return to_type(value, kind)
    except Dirty as e:
        raise Dirty(e.category, place + e.field) from None


def named(fields: list[tuple[str, Any]], wanted: str) -> Any:
    """The field of a record for a struct's: that of the name, else the only one in another case. Raises Dirty."""
    for name, value in fields:
        if name == wanted:
            return value
    found = [value for name, value in fields if name.lower() == wanted]
    if len(found) > 1:
        raise Dirty("name")
    return found[0] if found else None


def _map(value: Value, kind: Kind) -> list[tuple[str, Any]]:
    pairs: dict[str, Any] = {}
    for raw, item in value.payload:
        key = _utf8(raw)
        if key in pairs:
            raise Dirty("duplicate")
        pairs[key] = _inside(f".{key}", item, kind)
    return list(pairs.items())


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Dirty("utf8") from None


def _integer(value: Value, kind: Kind) -> Any:
    return convert(Number(str(value.payload), True), kind)


def _real(value: Value, kind: Kind) -> float:
    number = ctypes.c_float(value.payload).value if kind[0] == "float" else value.payload
    if not math.isfinite(number):
        raise Dirty("range")
    return number


def _text(value: Value, kind: Kind) -> Any:
    return convert(_utf8(value.payload), kind)


def _decimal(value: Value, kind: Kind) -> Any:
    if not 1 <= len(value.payload) <= 1000:
        raise Dirty("range")
    unscaled = int.from_bytes(value.payload, "big", signed=True)
    return convert(Number(f"{unscaled}e-{value.schema.scale}", False), kind)


def _date(value: Value, kind: Kind) -> int:
    if not FIRST_DAY <= value.payload <= LAST_DAY:
        raise Dirty("range")
    return value.payload


def _timestamp(value: Value, kind: Kind) -> int:
    micros = value.payload * 1_000_000 // _PER_SECOND[value.kind.rpartition("-")[2]]
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        raise Dirty("range")
    return micros


def _uuid(value: Value, kind: Kind) -> str:
    if value.schema.kind == "string":
        return _utf8(value.payload)
    digits = value.payload.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _uuid_bytes(value: Value, kind: Kind) -> bytes:
    if value.schema.kind == "string":
        raise Dirty("kind")
    return value.payload


def _same(value: Value, kind: Kind) -> Any:
    return value.payload


_FAMILY = {"int": "number", "long": "number", "float": "real", "double": "real", "time-millis": "time"}
_FAMILY |= {"time-micros": "time"} | {f"{w}timestamp-{u}": "stamp" for w in ("", "local-") for u in _PER_SECOND}
_RULES = {
    ("boolean", "boolean"): _same,
    **{("number", name): _integer for name in ("integer", "float", "double", "decimal", "timestamp")},
    ("real", "float"): _real,
    ("real", "double"): _real,
    ("bytes", "binary"): _same,
    ("fixed", "binary"): _same,
    **{("string", name): _text for name in ("string", "binary", "date", "timestamp")},
    ("enum", "string"): _same,
    ("decimal", "decimal"): _decimal,
    ("date", "date"): _date,
    ("time", "integer"): _integer,
    ("stamp", "timestamp"): _timestamp,
    ("uuid", "string"): _uuid,
    ("uuid", "binary"): _uuid_bytes,
    ("duration", "binary"): _same,
}


def _event(top: Value, spec: PlainSpec) -> int:
    try:
        return _moment(_at(top, spec.time or ()), spec.time_format)
    except Dirty as e:
        raise Dirty("event time: " + e.category, "$" + "".join(f".{key}" for key in spec.time or ())) from None


def _moment(value: Value | None, form: str) -> int:
    if value is None or value.kind == "null":
        raise Dirty("null")
    family = _FAMILY.get(value.kind, value.kind)
    if family == "stamp":
        return _timestamp(value, ("timestamp", None)) // 1000
    if family == "number" and form in EPOCH:
        return event_ms(Number(str(value.payload), True), form)
    if family == "string" and form not in EPOCH:
        return event_ms(_utf8(value.payload), form)
    raise Dirty("kind")


def as_json(value: Value) -> str:
    """For `_extra`."""
    kind, payload = value.schema.kind, value.payload
    if kind == "record":
        return "{" + ",".join(f"{write_text(name)}:{as_json(item)}" for name, item in payload) + "}"
    if kind == "map":
        last = {_shown(key): as_json(item) for key, item in payload}
        return "{" + ",".join(f"{write_text(key)}:{text}" for key, text in last.items()) + "}"
    if kind == "array":
        return "[" + ",".join(map(as_json, payload)) + "]"
    if kind in ("bytes", "fixed"):
        return f'"{base64.b64encode(payload).decode()}"'
    if kind == "string":
        return write_text(_shown(payload))
    if kind in ("float", "double"):
        return (
            repr(payload)
            if math.isfinite(payload)
            else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(payload), "NaN")
        )
    return str(payload) if isinstance(payload, int) and not isinstance(payload, bool) else write_text(payload)


def _shown(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


__all__ = ["AvroSettings", "Schema", "as_json", "read", "to_type"]
