"""Avro by docs/types.md: each row of its section, each message between neighbours; written by hand and by fastavro."""

from __future__ import annotations

import io
import json
import random
import struct
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.engine.failures import JobError
from spark_jobs.engine.formats import Bad, decoder_for
from spark_jobs.engine.formats.avro_decoder import AvroDecoder
from tests.engine_fixtures import chunk_of
from tests.format_fixtures import Dirty, between, check, spec
from tidegate.core.avro import parse
from tidegate.core.pipeline import AvroFormat, Format


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def decoder(schema: Any, columns: dict[str, str], time: str = "", form: str = "epoch_ms", unknown: str = "ignore"):
    avro = AvroFormat(schema=json.dumps(schema))
    return decoder_for(spec(Format("avro", unknown, avro=avro), columns, time, form))


def written(schema: Any, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def number(n: int) -> bytes:
    n = (n << 1) ^ (n >> 63)
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def text(s: bytes | str) -> bytes:
    s = s.encode() if isinstance(s, str) else s
    return number(len(s)) + s


def one(schema: Any, kind: str, message: bytes | None, expected: Any, neighbour: bytes | None = None) -> None:
    """A record of one field `c`."""
    made = decoder(record(c=schema, end="int"), {"c": kind, "end": "int"})
    good = number(1) if neighbour is None else neighbour + number(1)
    check(made, message if message is None else message + number(7), good, expected)


MESSAGES = [
    ("A-message-plain", number(5) + number(7), {"c": 5, "end": 7}),
    ("A-message-tombstone", None, Dirty("tombstone")),
    ("A-message-cut", b"", Dirty("cut off")),
    ("A-message-cut", number(5), Dirty("cut off")),
    ("A-message-cut", number(5) + b"\x80", Dirty("cut off")),
    ("A-message-trailing", number(5) + number(7) + b"\x00", Dirty("1 bytes too many")),
    ("A-message-trailing", (number(5) + number(7)) * 2, Dirty("2 bytes too many")),
    ("A-wire-number", b"\x8a\x80\x00" + number(7), {"c": 5, "end": 7}),
    ("A-wire-number", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00" + number(7), {"c": 0, "end": 7}),
    ("A-wire-number", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + number(7), {"c": -(2**63), "end": 7}),
    ("A-wire-number", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02" + number(7), Dirty("beyond 64 bits")),
    ("A-wire-number", b"\x80" * 10 + b"\x00" + number(7), Dirty("more than 10 bytes")),
    ("A-wire-int", number(5) + number(2**31 - 1), {"c": 5, "end": 2**31 - 1}),
    ("A-wire-int", number(5) + number(-(2**31)), {"c": 5, "end": -(2**31)}),
    ("A-wire-int", number(5) + number(2**31), Dirty("an int beyond 32 bits")),
    ("A-wire-int", number(5) + number(-(2**31) - 1), Dirty("an int beyond 32 bits")),
]


@pytest.mark.parametrize(("row", "message", "expected"), MESSAGES)
def test_messages(row, message, expected):
    made = decoder(record(c="long", end="int"), {"c": "bigint", "end": "int"})
    check(made, message, number(1) + number(2), expected)
    skipping = decoder(record(c="long", end="int"), {"c": "bigint from $.gone"})
    check(skipping, message, number(1) + number(2), expected if isinstance(expected, Dirty) else None)


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
WIRE = [
    ("A-wire-boolean", "boolean", "boolean", b"\x01", True),
    ("A-wire-boolean", "boolean", "boolean", b"\x00", False),
    ("A-wire-boolean", "boolean", "boolean", b"\x02", Dirty("neither 0 nor 1")),
    ("A-wire-boolean", "boolean", "boolean", b"\xff", Dirty("neither 0 nor 1")),
    ("A-wire-length", "string", "string", number(-1) + b"a", Dirty("negative length")),
    ("A-wire-length", "string", "string", number(2**40) + b"a", Dirty("cut off")),
    ("A-wire-length", "bytes", "binary", number(2**62) + b"a", Dirty("cut off")),
    ("A-wire-length", "bytes", "binary", number(-(2**62)) + b"a", Dirty("negative length")),
    ("A-wire-enum", ENUM, "string", number(1), "B"),
    ("A-wire-enum", ENUM, "string", number(2), Dirty("a symbol that its enum does not have")),
    ("A-wire-enum", ENUM, "string", number(-1), Dirty("a symbol that its enum does not have")),
    ("A-wire-union", ["null", "int"], "int", b"\x00", None),
    ("A-wire-union", ["null", "int"], "int", b"\x82\x00" + number(3), 3),
    ("A-wire-union", ["null", "int"], "int", number(2) + number(3), Dirty("a branch that its union does not have")),
    ("A-wire-union", ["null", "int"], "int", number(-1) + number(3), Dirty("a branch that its union does not have")),
]
INTS = {"type": "array", "items": "int"}
BLOCKS = [
    ("A-wire-block", INTS, b"\x00", []),
    ("A-wire-block", INTS, number(2) + number(1) + number(2) + number(1) + number(3) + b"\x00", [1, 2, 3]),
    ("A-wire-block", INTS, number(-2) + number(2) + number(1) + number(2) + b"\x00", [1, 2]),
    ("A-wire-block", INTS, number(-2) + number(3) + number(1) + number(2) + b"\x00", Dirty("not as long as it says")),
    ("A-wire-block", INTS, number(-2) + number(-2) + number(1) + number(2) + b"\x00", Dirty("negative length")),
    ("A-wire-block", INTS, number(2**60) + number(1) + b"\x00", Dirty("cut off")),
    ("A-wire-block", INTS, number(-(2**63)) + number(1) + b"\x00", Dirty("cut off")),
    ("A-wire-nothing", {"type": "array", "items": "null"}, b"\x00", []),
    ("A-wire-nothing", {"type": "array", "items": "null"}, number(2**60) + b"\x00", Dirty("take no bytes")),
    (
        "A-wire-nothing",
        {"type": "array", "items": record(x="null") | {"name": "Q"}},
        number(1) + b"\x00",
        Dirty("take no bytes"),
    ),
]


@pytest.mark.parametrize(
    ("row", "schema", "kind", "message", "expected"),
    WIRE + [(row, schema, "array<int>", message, expected) for row, schema, message, expected in BLOCKS[:7]],
)
def test_the_encoding(row, schema, kind, message, expected):
    good = {"boolean": b"\x00", "string": text("x"), "bytes": text("x")}
    neighbour = good.get(schema, b"\x00") if isinstance(schema, str) else b"\x00"
    one(schema, kind, message, expected, neighbour)


@pytest.mark.parametrize(
    ("row", "schema", "message", "expected"),
    [(row, schema, message, expected) for row, schema, _, message, expected in WIRE] + BLOCKS,
)
def test_the_encoding_where_no_column_looks(row, schema, message, expected):
    made = decoder(record(skipped=schema, c="int"), {"c": "int"})
    good = {"string": text("x"), "bytes": text("x")}.get(schema, b"\x00") if isinstance(schema, str) else b"\x00"
    check(made, message + number(7), good + number(1), expected if isinstance(expected, Dirty) else 7)


INNER = record(x="int", s="string") | {"name": "Inner"}


@pytest.mark.parametrize("row", ["A-wire-ignored"])
def test_what_nobody_looks_at_is_not_judged(row):
    fields = {
        "s": "string",
        "d": "double",
        "t": {"type": "long", "logicalType": "timestamp-millis"},
        "m": {"type": "map", "values": "int"},
    }
    made = decoder(record(**fields, c="int"), {"c": "int"})
    pairs = number(2) + (text("k") + number(1)) * 2 + b"\x00"
    message = text(b"\xff") + struct.pack("<d", float("nan")) + number(2**62) + pairs
    check(made, message + number(7), text("x") + bytes(8) + b"\x00\x00" + number(1), 7)


TYPES = [
    ("A-boolean", "boolean", "boolean", b"\x01", True),
    ("A-boolean", "boolean", "int", b"\x01", Dirty("boolean cannot be int")),
    ("A-int", "int", "int", number(-5), -5),
    ("A-int", "int", "tinyint", number(127), 127),
    ("A-int", "int", "tinyint", number(128), Dirty("128 does not fit in 8 bits")),
    ("A-int", "int", "smallint", number(-32769), Dirty("does not fit in 16 bits")),
    ("A-int", "int", "bigint", number(5), 5),
    ("A-int", "int", "string", number(5), Dirty("int cannot be string")),
    ("A-int", "int", "date", number(5), Dirty("int cannot be date")),
    ("A-long", "long", "bigint", number(2**63 - 1), 2**63 - 1),
    ("A-long", "long", "int", number(2**31), Dirty("does not fit in 32 bits")),
    ("A-long", "long", "int", number(-(2**31)), -(2**31)),
    ("A-long", "long", "boolean", number(1), Dirty("long cannot be boolean")),
    ("A-number-float", "long", "double", number(2**53 + 1), 2.0**53),
    ("A-number-float", "int", "float", number(16777217), 16777216.0),
    ("A-number-decimal", "long", "decimal(5,2)", number(999), Decimal("999.00")),
    ("A-number-decimal", "long", "decimal(5,2)", number(1000), Dirty("does not fit in decimal(5,2)")),
    ("A-number-timestamp", "long", "timestamp", number(1357358706123), datetime(2013, 1, 5, 4, 5, 6, 123_000, UTC)),
    ("A-number-timestamp", "int", "timestamp", number(-1), datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
    ("A-number-timestamp", "long", "timestamp", number(253402300800000), Dirty("outside of the years")),
    ("A-float", "float", "float", struct.pack("<f", 0.1), 0.10000000149011612),
    ("A-float", "float", "double", struct.pack("<f", 0.1), 0.10000000149011612),
    ("A-float", "float", "double", struct.pack("<f", float("nan")), Dirty("not a finite")),
    ("A-double", "double", "double", struct.pack("<d", -0.0), -0.0),
    ("A-double", "double", "double", struct.pack("<d", float("inf")), Dirty("not a finite")),
    ("A-double", "double", "float", struct.pack("<d", 0.1), 0.10000000149011612),
    ("A-double", "double", "float", struct.pack("<d", 1e39), Dirty("not a finite float")),
    ("A-double", "double", "decimal(5,2)", bytes(8), Dirty("double cannot be decimal(5,2)")),
    ("A-double", "double", "int", bytes(8), Dirty("double cannot be int")),
    ("A-bytes", "bytes", "binary", text(b"\x00\xff"), b"\x00\xff"),
    ("A-bytes", "bytes", "string", text("x"), Dirty("bytes cannot be string")),
    ("A-fixed", {"type": "fixed", "name": "F", "size": 3}, "binary", b"abc", b"abc"),
    ("A-string", "string", "string", text("aü\x00"), "aü\x00"),
    ("A-string", "string", "string", text(b"a\xff"), Dirty("invalid UTF-8")),
    ("A-string", "string", "int", text("5"), Dirty("string cannot be int")),
    ("A-string-binary", "string", "binary", text("aü"), "aü".encode()),
    ("A-string-binary", "string", "binary", text(b"\xff"), Dirty("invalid UTF-8")),
    ("A-string-date", "string", "date", text("2013-01-05"), date(2013, 1, 5)),
    ("A-string-date", "string", "date", text("2013-02-30"), Dirty("is no date")),
    ("A-string-timestamp", "string", "timestamp", text("2013-01-05T04:05Z"), datetime(2013, 1, 5, 4, 5, tzinfo=UTC)),
    ("A-string-timestamp", "string", "timestamp", text("1357358706123"), Dirty("ISO 8601")),
    ("A-enum", ENUM, "string", number(0), "A"),
    ("A-enum", ENUM, "int", number(0), Dirty("enum R.E cannot be int")),
]


def logical(base: Any, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more} if isinstance(base, str) else {**base, "logicalType": name}


CENTS = logical("bytes", "decimal", precision=6, scale=3)
MILLIS, MICROS, NANOS = (logical("long", f"timestamp-{u}") for u in ("millis", "micros", "nanos"))
FIXED16 = {"type": "fixed", "name": "U", "size": 16}
DECIMAL4 = {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 1}
SOME_UUID = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
LOGICAL = [
    ("A-decimal", CENTS, "decimal(5,2)", text((1230).to_bytes(2, "big")), Decimal("1.23")),
    ("A-decimal", CENTS, "decimal(5,2)", text((1234).to_bytes(2, "big")), Dirty("more than 2 digits")),
    ("A-decimal", CENTS, "decimal(5,2)", text((-1230).to_bytes(9, "big", signed=True)), Decimal("-1.23")),
    ("A-decimal", CENTS, "decimal(5,2)", text((10**6).to_bytes(3, "big")), Dirty("does not fit in decimal(5,2)")),
    ("A-decimal", CENTS, "decimal(20,5)", text((10**12).to_bytes(6, "big")), Decimal("1000000000.00000")),
    ("A-decimal", CENTS, "decimal(5,2)", text(b""), Dirty("without a byte")),
    ("A-decimal", CENTS, "decimal(38,3)", text(bytes(1001)), Dirty("does not fit")),
    ("A-decimal", DECIMAL4, "decimal(5,1)", (-15).to_bytes(4, "big", signed=True), Decimal("-1.5")),
    ("A-decimal", CENTS, "double", text(b"\x01"), Dirty("decimal cannot be double")),
    ("A-decimal", CENTS, "binary", text(b"\x01"), Dirty("decimal cannot be binary")),
    ("A-date", logical("int", "date"), "date", number(15710), date(2013, 1, 5)),
    ("A-date", logical("int", "date"), "date", number(-719162), date(1, 1, 1)),
    ("A-date", logical("int", "date"), "date", number(-719163), Dirty("outside of the years")),
    ("A-date", logical("int", "date"), "date", number(2932897), Dirty("outside of the years")),
    ("A-date", logical("int", "date"), "int", number(1), Dirty("date cannot be int")),
    ("A-time", logical("int", "time-millis"), "int", number(86400001), 86400001),
    ("A-time", logical("long", "time-micros"), "bigint", number(-1), -1),
    ("A-time", logical("long", "time-micros"), "int", number(2**31), Dirty("does not fit in 32 bits")),
    ("A-time", logical("int", "time-millis"), "timestamp", number(1), Dirty("time-millis cannot be timestamp")),
    ("A-timestamp", MILLIS, "timestamp", number(1357358706123), datetime(2013, 1, 5, 4, 5, 6, 123_000, UTC)),
    ("A-timestamp", MICROS, "timestamp", number(-1), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
    ("A-timestamp", NANOS, "timestamp", number(-1), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
    ("A-timestamp", MILLIS, "timestamp", number(253402300800000), Dirty("outside of the years")),
    ("A-timestamp", MICROS, "timestamp", number(-62135596800000001), Dirty("outside of the years")),
    ("A-timestamp", MILLIS, "int", number(1), Dirty("timestamp-millis cannot be int")),
    ("A-timestamp-number", MILLIS, "bigint", number(2**62), 2**62),
    (
        "A-local-timestamp",
        logical("long", "local-timestamp-millis"),
        "timestamp",
        number(0),
        datetime(1970, 1, 1, tzinfo=UTC),
    ),
    ("A-local-timestamp", logical("long", "local-timestamp-nanos"), "bigint", number(9), 9),
    ("A-uuid", logical("string", "uuid"), "string", text("no uuid"), "no uuid"),
    ("A-uuid", logical("string", "uuid"), "date", text("2013-01-05"), Dirty("uuid cannot be date")),
    ("A-uuid-fixed", logical(FIXED16, "uuid"), "string", SOME_UUID.bytes, str(SOME_UUID)),
    ("A-uuid-fixed", logical(FIXED16, "uuid"), "binary", SOME_UUID.bytes, SOME_UUID.bytes),
    (
        "A-duration",
        {"type": "fixed", "name": "P", "size": 12, "logicalType": "duration"},
        "binary",
        b"x" * 12,
        b"x" * 12,
    ),
]
PEOPLE = {"type": "array", "items": ["null", INNER]}
COUNTS = {"type": "map", "values": "int"}
NESTED = [
    ("A-array", INTS, "array<bigint>", number(1) + number(5) + b"\x00", [5]),
    ("A-array", INTS, "array<tinyint>", number(2) + number(5) + number(128) + b"\x00", Dirty("128 does not fit")),
    ("A-array", INTS, "int", number(1) + number(5) + b"\x00", Dirty("array cannot be int")),
    ("A-array", {"type": "array", "items": "string"}, "array<int>", b"\x00", []),
    (
        "A-array",
        {"type": "array", "items": "string"},
        "array<int>",
        number(1) + text("5") + b"\x00",
        Dirty("cannot be int"),
    ),
    (
        "A-array",
        {"type": "array", "items": INTS},
        "array<array<int>>",
        number(2) + b"\x00" + number(1) + number(3) + b"\x00\x00",
        [[], [3]],
    ),
    ("A-map", COUNTS, "map<string,int>", number(1) + text("k") + number(5) + b"\x00", [("k", 5)]),
    ("A-map", COUNTS, "map<string,int>", number(2) + (text("k") + number(5)) * 2 + b"\x00", Dirty("duplicate key 'k'")),
    ("A-map", COUNTS, "map<string,int>", (number(1) + text("k") + number(5)) * 2 + b"\x00", Dirty("duplicate key 'k'")),
    ("A-map", COUNTS, "map<string,int>", number(1) + text(b"\xff") + number(5) + b"\x00", Dirty("invalid UTF-8")),
    ("A-map", COUNTS, "map<int,int>", number(1) + text("7") + number(5) + b"\x00", Dirty("keys of a map are strings")),
    ("A-map", COUNTS, "map<string,int>", number(2) + text("k") + number(5) + b"\x00", Dirty("cut off")),
    ("A-record", INNER, "struct<x:bigint,gone:string>", number(5) + text("s"), {"c": {"x": 5, "gone": None}}),
    ("A-record", INNER, "struct<s:string>", number(5) + text(b"\xff"), Dirty("invalid UTF-8")),
    ("A-record", INNER, "struct<x:int>", number(5) + text(b"\xff"), {"c": {"x": 5}}),
    (
        "A-record",
        PEOPLE,
        "array<struct<x:tinyint>>",
        number(2) + b"\x00" + b"\x02" + number(5) + text("") + b"\x00",
        [None, {"x": 5}],
    ),
    (
        "A-name-struct",
        record(unitPrice="int") | {"name": "N"},
        "struct<unitprice:int>",
        number(5),
        {"c": {"unitprice": 5}},
    ),
    (
        "A-name-struct",
        record(ab="int", AB="int") | {"name": "N"},
        "struct<ab:int>",
        number(5) + number(6),
        {"c": {"ab": 5}},
    ),
    (
        "A-name-struct",
        record(aB="int", AB="int") | {"name": "N"},
        "struct<ab:int>",
        number(5) + number(6),
        Dirty("both aB and AB of N"),
    ),
]
UNIONS = [
    ("A-union-null", ["null", "string"], "string", number(1) + text("x"), "x"),
    ("A-union-null", ["string", "null"], "string", number(1), None),
    ("A-union-several", ["null", "int", "string"], "int", number(1) + number(5), 5),
    ("A-union-several", ["null", "int", "string"], "int", number(2) + text("5"), Dirty("string cannot be int")),
    ("A-union-several", ["null", "int", "string"], "int", number(2) + text(b"\xff"), Dirty("string cannot be int")),
    (
        "A-union-several",
        ["int", "string", MILLIS],
        "timestamp",
        number(1) + text("1970-01-01T00:00Z"),
        datetime(1970, 1, 1, tzinfo=UTC),
    ),
    (
        "A-union-several",
        ["int", "string", MILLIS],
        "timestamp",
        number(2) + number(0),
        datetime(1970, 1, 1, tzinfo=UTC),
    ),
]


def named(schema: Any) -> Any:
    return {**schema, "namespace": "R"} if schema == ENUM else schema


@pytest.mark.parametrize(("row", "schema", "kind", "message", "expected"), TYPES + LOGICAL + NESTED + UNIONS)
def test_types(row, schema, kind, message, expected):
    schema = ["null", named(schema)] if not isinstance(schema, list) else schema
    prefix = number(1) if row not in ("A-union-null", "A-union-several") else b""
    made = decoder(record(c=schema, end="int"), {"c": kind, "end": "int"})
    neighbour = number(schema.index("null")) if "null" in schema else number(0) + number(0)
    found, _ = between(made, prefix + message + number(7), neighbour + number(1))
    if isinstance(expected, Dirty):
        assert isinstance(found, Bad), found
        assert expected in found.reason, found.reason
        assert found.reason == "cut off" or found.field.startswith("c")
    else:
        value = found["c"]
        if isinstance(value, datetime):
            value = value.replace(tzinfo=UTC)
        wanted = expected["c"] if isinstance(expected, dict) and set(expected) == {"c"} else expected
        assert repr(value) == repr(wanted if not isinstance(wanted, Decimal) else wanted.quantize(value))
        assert found["end"] == 7


def test_places_within_a_column_are_named():
    schema = record(c={"type": "array", "items": {"type": "map", "values": INNER}})
    made = decoder(schema, {"c": "array<map<string,struct<x:tinyint>>>"})
    message = number(2) + b"\x00" + number(1) + text("k") + number(500) + text("") + b"\x00\x00"
    found, _ = between(made, message, b"\x00")
    assert found == Bad("500 does not fit in 8 bits", "c[1].k.x")


PATHS = record(a=["null", "string", INNER], z=record(x=record(y="long") | {"name": "Y"}) | {"name": "Z"})


@pytest.mark.parametrize(
    ("row", "message", "expected"),
    [
        ("A-path-found", number(2) + number(5) + text("q") + number(9), {"c": 5, "y": 9, "gone": None}),
        ("A-path-missing", number(0) + number(9), {"c": None, "y": 9, "gone": None}),
        ("A-path-other", number(1) + text("s") + number(9), Dirty("expected a record, got string")),
    ],
)
def test_paths(row, message, expected):
    made = decoder(PATHS, {"c": "int from $.a.x", "y": "int from $.z.x.y", "gone": "int from $.a.gone.far"})
    check(made, message, number(0) + number(1), expected)


def test_one_value_for_several_columns_and_the_event_time():
    columns = {
        "n": "bigint from $.t",
        "w": "timestamp from $.t",
        "whole": "struct<x:int,s:string> from $.a",
        "x": "int from $.a.x",
    }
    made = decoder(record(t=MILLIS, a=INNER), columns, "$.t")
    found, decoded = between(made, number(1357358706123) + number(5) + text("q"), number(0) + number(1) + text(""))
    assert (found["n"], found["whole"], found["x"]) == (1357358706123, {"x": 5, "s": "q"}, 5)
    assert found["w"].replace(tzinfo=UTC) == datetime(2013, 1, 5, 4, 5, 6, 123_000, UTC)
    assert decoded.event_ms[1].as_py() == 1357358706123


TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "next", "type": ["null", "Tree"]},
        {"name": "more", "type": {"type": "array", "items": "Tree"}},
    ],
}


@pytest.mark.parametrize("row", ["A-message-depth"])
@pytest.mark.parametrize("columns", [{"n": "int"}, {"n": "int from $.next.n"}, {"n": "struct<n:int> from $.next"}])
def test_depth(row, columns):
    def nested(levels: int, by_array: bool) -> bytes:
        before = number(1) + (number(0) + number(1) if by_array else number(1))
        last = number(1) + number(0) + b"\x00"
        return before * (levels - 1) + last + b"\x00" * (levels - 1)

    good = nested(1, False)
    for by_array in (False, True):
        made = decoder(TREE, columns)
        assert not isinstance(between(made, nested(200, by_array), good)[0], Bad)
        check(made, nested(201, by_array), good, Dirty("nested too deeply"))
        check(made, nested(100_000, by_array), good, Dirty("nested too deeply"))
        after = number(1) + number(1) + good + number(1)  # a record on the path to a column, then an array
        assert not isinstance(between(made, after + nested(199, by_array) + b"\x00", good)[0], Bad)
        check(made, after + nested(200, by_array) + b"\x00", good, Dirty("nested too deeply"))


@pytest.mark.parametrize(
    ("row", "schema", "form", "message", "expected"),
    [
        ("A-time-integer", "long", "epoch_ms", number(1357358706123), 1357358706123),
        ("A-time-integer", "int", "epoch_s", number(1357358706), 1357358706000),
        ("A-time-integer", "long", "epoch_us", number(-1), -1),
        ("A-time-integer", "long", "epoch_ns", number(1357358706123999999), 1357358706123),
        ("A-time-integer", "long", "iso8601", number(1), "expected an event time as a string"),
        ("A-time-integer", "long", "epoch_s", number(253402300800), "outside of the years"),
        ("A-time-string", "string", "iso8601", text("2013-01-05T04:05:06.1239+01:00"), 1357355106123),
        ("A-time-string", "string", "%d.%m.%Y %H:%M", text("05.01.2013 04:05"), 1357358700000),
        ("A-time-string", "string", "epoch_ms", text("1357358706123"), "got a string"),
        ("A-time-timestamp", MILLIS, "epoch_s", number(1357358706123), 1357358706123),
        ("A-time-timestamp", MICROS, "epoch_ms", number(-1), -1),
        ("A-time-timestamp", NANOS, "iso8601", number(1357358706123999999), 1357358706123),
        ("A-time-timestamp", logical("long", "local-timestamp-micros"), "epoch_ms", number(1000), 1),
        ("A-time-other", logical("int", "date"), "epoch_ms", number(1), "date cannot be an event time"),
        ("A-time-other", "double", "epoch_ms", bytes(8), "double cannot be an event time"),
    ],
)
def test_event_times(row, schema, form, message, expected):
    made = decoder(record(t=["null", schema], c="int"), {"c": "int"}, "$.t", form)
    decoded = made.decode(chunk_of([number(1) + message + number(7), number(0) + number(7)]))
    assert decoded.bad[1] == Bad("no event time", "$.t")
    if isinstance(expected, int):
        assert 0 not in decoded.bad
        assert decoded.event_ms.to_pylist() == [expected, None]
    else:
        assert decoded.bad[0].field == "$.t"
        assert expected in decoded.bad[0].reason


@pytest.mark.parametrize("row", ["A-unknown-ignore", "A-unknown-capture", "A-unknown-fail"])
def test_unknown_fields(row):
    policy = row.rpartition("-")[2]
    fields = {"b": "bytes", "u": ["null", INNER], "d": "double", "m": COUNTS, "a": {"type": "array", "items": ENUM}}
    made = decoder(record(c="int", **fields, s="string"), {"c": "int"}, unknown=policy)
    pairs = number(2) + text("k") + number(1) + text("k") + number(2) + b"\x00"
    message = number(1) + text(b"\xff\x00") + number(1) + number(5) + text("ü") + struct.pack("<d", float("nan"))
    message += pairs + number(1) + number(1) + b"\x00" + text(b"a\xff")
    decoded = made.decode(chunk_of([b"", message]))
    assert list(decoded.bad) == [0]
    if policy == "ignore":
        assert decoded.unknown == {}
        return
    texts = {"b": '"/wA="', "u": '{"x":5,"s":"ü"}', "d": "NaN", "m": '{"k":2}', "a": '["B"]', "s": '"a\\\\xff"'}
    assert decoded.unknown == {name: (1, t) for name, t in texts.items()}
    if policy == "capture":
        assert decoded.table["_extra"].to_pylist()[1] == list(texts.items())


class Registry:
    """In place of the real one: `known` maps ids to (schema, references)."""

    def __init__(self, known: dict[int, tuple[str, tuple[str, ...]]]) -> None:
        self.known, self.asked = known, []

    def schema(self, wanted: int, kind: str) -> tuple[str, tuple[str, ...]]:
        from spark_jobs.engine.formats.registry import UnknownSchema, WrongSchema

        self.asked.append(wanted)
        if wanted not in self.known:
            raise UnknownSchema(wanted, "the registry x")
        if self.known[wanted][0] == "protobuf":
            raise WrongSchema(f"schema id {wanted} is of type PROTOBUF, not {kind}")
        return self.known[wanted]


def framed(schema_id: int, datum: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + datum


def confluent(registry: Registry | None, unknown_schema: str = "fail", **more: Any) -> AvroDecoder:
    avro = AvroFormat("confluent", registry_conn_id="r" if registry else None, unknown_schema=unknown_schema, **more)
    made = spec(Format("avro", avro=avro), {"c": "int", "later": "string"})
    return AvroDecoder(made, lambda: registry)  # type: ignore[arg-type, return-value]


ONE, TWO = json.dumps(record(c="int")), json.dumps(record(later="string", c="long"))


@pytest.mark.parametrize(
    ("row", "message", "expected"),
    [
        ("A-message-confluent", framed(1, number(5)), {"c": 5, "later": None}),
        ("A-message-confluent", framed(2**32 - 1, text("x") + number(5)), {"c": 5, "later": "x"}),
        ("A-message-header", b"\x00\x00\x00\x01", Dirty("no Confluent header")),
        ("A-message-header", b"\x01" + framed(1, number(5))[1:], Dirty("no Confluent header")),
        ("A-message-header", b"", Dirty("no Confluent header")),
        ("A-message-tombstone", None, Dirty("tombstone")),
        ("A-message-other-schema", framed(7, number(5)), Dirty("schema id 7 is of type PROTOBUF, not AVRO")),
        ("A-message-trailing", framed(1, number(5) + b"\x00"), Dirty("1 bytes too many")),
    ],
)
def test_confluent_messages(row, message, expected):
    registry = Registry({1: (ONE, ()), 2**32 - 1: (TWO, ()), 7: ("protobuf", ())})
    check(confluent(registry), message, framed(1, number(1)), expected)
    assert len(registry.asked) == len(set(registry.asked)) <= 2


@pytest.mark.parametrize("row", ["A-message-unknown-schema"])
def test_an_id_that_nobody_knows(row):
    registry = Registry({1: (ONE, ())})
    messages = [framed(1, number(1)), framed(99, number(5)), framed(1, number(2)), framed(99, number(5))]
    with pytest.raises(JobError, match="schema id 99 is not in the registry x") as error:
        confluent(registry).decode(chunk_of(messages))
    assert (error.value.failure.retry, error.value.failure.offset) == (True, 1)
    assert "format.unknown_schema: dirty" in error.value.failure.advice
    check(confluent(registry, "dirty"), messages[1], messages[0], Dirty("schema id 99 is not in the registry x"))
    local = confluent(None, schemas={1: ONE})
    with pytest.raises(JobError, match="schema id 99 is not in format.schemas"):
        local.decode(chunk_of(messages))
    check(confluent(None, "dirty", schemas={1: ONE}), messages[1], messages[0], Dirty("not in format.schemas"))
    both = confluent(registry, schemas={99: TWO})
    check(both, framed(99, text("x") + number(5)), messages[0], {"c": 5, "later": "x"})


def test_types_of_other_schemas_are_found():
    count = record(n="int") | {"name": "Count", "namespace": "other"}
    registry = Registry({1: (json.dumps(record(c="other.Count")), (json.dumps(ENUM), json.dumps(count)))})
    avro = AvroFormat("confluent", registry_conn_id="r")
    made = AvroDecoder(spec(Format("avro", avro=avro), {"n": "int from $.c.n"}), lambda: registry)  # type: ignore[arg-type, return-value]
    check(made, framed(1, number(5)), framed(1, number(1)), {"n": 5})


@pytest.mark.parametrize("row", ["A-spec"])
@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("[", "not JSON"),
        ('"int"', "not records"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"Gone"}]}', "a: the type 'Gone' is not defined"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "twice"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":["int",["null"]]}]}', "a union in a union"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"F"}}]}', "has no 'size'"),
        ('{"type":"record","name":"R","fields":{}}', "are no list"),
        ('{"type":"record","name":"R"}', "has no 'fields'"),
        ("[" * 100_000, "nested too deeply"),
        ('{"type":' * 300 + '"int"' + "}" * 300, "nested too deeply"),
    ],
)
def test_a_schema_that_is_none_stops_the_job(row, schema, says):
    """The spec refuses those that it has: tests/unit/test_spec_formats.py."""
    with pytest.raises(JobError, match="an Avro schema cannot be used") as error:
        decoder_for(spec(Format("avro", avro=AvroFormat(schema=schema)), {"c": "int"}))
    assert says in str(error.value)


def test_types_that_are_used_again_and_again_cost_no_more_than_once():
    inner: Any = record(x="int") | {"name": "N0"}
    for i in range(1, 40):
        inner = record(left=inner, right=f"N{i - 1}") | {"name": f"N{i}"}
    decoder(record(a={"type": "array", "items": inner}, c="N39"), {"c": "int from $.c.left.left.gone"})
    wide = [record(x="int") | {"name": f"B{i}"} for i in range(4000)]
    told = "an Avro schema cannot be used"
    try:  # Python's recursion limit decides, which other tests of the process may have raised
        decoder(record(c=wide), {"c": "int from $.c.x"})
    except JobError as e:
        told = str(e)
    assert "an Avro schema cannot be used" in told


def test_names_are_found_by_their_namespaces():
    text_ = json.dumps(
        {
            "type": "record",
            "name": "a.R",
            "fields": [
                {"name": "x", "type": {"type": "enum", "name": "E", "symbols": ["S"]}},
                {"name": "y", "type": "E"},
                {"name": "z", "type": "a.E"},
                {"name": "w", "type": {"type": "record", "name": "b.Q", "fields": [{"name": "e", "type": "a.E"}]}},
                {"name": "v", "type": "b.Q"},
            ],
        }
    )
    schema = parse(text_)
    fields = dict(schema.fields)
    assert fields["x"] is fields["y"] is fields["z"] is dict(fields["w"].fields)["e"]
    assert fields["v"] is fields["w"]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "int", "logicalType": "timestamp-millis"}, "int"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "bytes"),
        ({"type": "bytes", "logicalType": "decimal", "precision": "5"}, "bytes"),
        ({"type": "string", "logicalType": "decimal", "precision": 5}, "string"),
        ({"type": "fixed", "name": "F", "size": 15, "logicalType": "uuid"}, "fixed"),
        ({"type": "long", "logicalType": "whatever"}, "long"),
        ({"type": {"type": "long", "logicalType": "timestamp-micros"}}, "timestamp-micros"),
    ],
)
def test_a_logical_type_that_is_not_valid_is_ignored(schema, kind):
    assert parse(json.dumps(schema)).kind == kind


EVERYTHING = record(
    b="boolean",
    i=["null", "int"],
    l="long",
    f="float",
    d="double",
    y="bytes",
    s=["string", "null"],
    e=ENUM,
    x={"type": "fixed", "name": "F", "size": 2},
    a={"type": "array", "items": ["null", "long"]},
    m={"type": "map", "values": "string"},
    r=INNER,
)
COLUMNS = {
    "b": "boolean",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "y": "binary",
    "s": "string",
    "e": "string",
    "x": "binary",
    "a": "array<bigint>",
    "m": "map<string,string>",
    "r": "struct<x:int,s:string>",
}
ints, longs = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
rows = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        "i": st.none() | ints,
        "l": longs,
        "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "d": floats,
        "y": st.binary(max_size=9),
        "s": st.none() | st.text(max_size=9),
        "e": st.sampled_from("AB"),
        "x": st.binary(min_size=2, max_size=2),
        "a": st.lists(st.none() | longs, max_size=3),
        "m": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
        "r": st.fixed_dictionaries({"x": ints, "s": st.text(max_size=3)}),
    }
)
WHOLE = decoder(EVERYTHING, COLUMNS)
PARTS = [decoder(EVERYTHING, {name: kind}) for name, kind in COLUMNS.items()]


@settings(max_examples=40, deadline=None)
@given(st.lists(rows, min_size=1, max_size=4))
def test_what_another_library_writes_is_read(values):
    decoded = WHOLE.decode(chunk_of([written(EVERYTHING, v) for v in values]))
    assert not decoded.bad
    found = [{**row, "m": dict(row["m"])} for row in decoded.table.to_pylist()]
    wanted = [{**{name: v[name] for name in COLUMNS}, "r": {"x": v["r"]["x"], "s": v["r"]["s"]}} for v in values]
    assert repr(found) == repr(wanted)  # minus zero shows


@settings(max_examples=40, deadline=None)
@given(rows, st.randoms(use_true_random=False))
def test_mutated_messages_shift_nothing_and_are_judged_alike_whatever_the_columns(value, rng: random.Random):
    """A message is malformed for one set of columns if and only if it is for any other."""
    raw = bytearray(written(EVERYTHING, value))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(raw) + 1)
        raw[at : at + rng.randint(0, 2)] = rng.choice([b"", b"\x00", b"\x80", b"\xff", b"\x01", rng.randbytes(2)])
    good = written(EVERYTHING, value)
    found, _ = between(WHOLE, bytes(raw), good)
    parts = [between(part, bytes(raw), good)[0] for part in PARTS]
    reasons = {part.reason for part in parts if isinstance(part, Bad) and not part.field}
    assert reasons == ({found.reason} if isinstance(found, Bad) and not found.field else set())
