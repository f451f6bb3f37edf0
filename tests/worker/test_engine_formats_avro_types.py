"""Avro by docs/types.md: which types a column takes, with their values."""

from __future__ import annotations

import struct
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from spark_jobs.engine.formats import Bad
from tests.avro_values import COUNTS, ENUM, INNER, INTS, MICROS, MILLIS, NANOS, decoder, logical, number, record, text
from tests.format_fixtures import Dirty, between

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


CENTS = logical("bytes", "decimal", precision=6, scale=3)
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
