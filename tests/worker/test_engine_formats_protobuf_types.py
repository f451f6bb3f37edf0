"""Protobuf by docs/types.md: which types a column takes, with their values; event times and unknown fields."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from spark_jobs.engine.failures import JobError
from spark_jobs.engine.formats import Bad
from tests.engine_fixtures import chunk_of
from tests.format_fixtures import Dirty, between
from tests.protobuf_values import INT32, decoder, put, tagged, varint

TYPES = [
    ("P-bool", "bool", True, "boolean", True),
    ("P-integer", "int32", -5, "int", -5),
    ("P-integer", "int32", 128, "tinyint", Dirty("128 does not fit in 8 bits")),
    ("P-integer", "uint32", 2**32 - 1, "bigint", 2**32 - 1),
    ("P-integer", "uint32", 2**31, "int", Dirty("does not fit in 32 bits")),
    ("P-integer", "fixed32", 2**31 - 1, "int", 2**31 - 1),
    ("P-integer", "uint64", 2**63 - 1, "bigint", 2**63 - 1),
    ("P-integer", "uint64", 2**63, "bigint", Dirty("does not fit in 64 bits")),
    ("P-integer", "fixed64", 2**64 - 1, "bigint", Dirty("does not fit in 64 bits")),
    ("P-integer", "sint64", -(2**63), "bigint", -(2**63)),
    ("P-integer", "sfixed32", -(2**31), "int", -(2**31)),
    ("P-integer", "sfixed64", 2**15, "smallint", Dirty("does not fit in 16 bits")),
    ("P-integer-float", "uint64", 2**64 - 1, "double", 2.0**64),
    ("P-integer-float", "int32", 16777217, "float", 16777216.0),
    ("P-integer-decimal", "uint64", 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
    ("P-integer-decimal", "int64", 1000, "decimal(5,2)", Dirty("does not fit in decimal(5,2)")),
    ("P-integer-timestamp", "int64", 1357358706123, "timestamp", datetime(2013, 1, 5, 4, 5, 6, 123_000, UTC)),
    ("P-integer-timestamp", "uint64", 2**63, "timestamp", Dirty("outside of the years")),
    ("P-float", "float", 0.5, "double", 0.5),
    ("P-float", "float", float("inf"), "float", Dirty("not a finite float")),
    ("P-double", "double", -0.0, "double", -0.0),
    ("P-double", "double", 0.1, "float", 0.10000000149011612),
    ("P-double", "double", 1e39, "float", Dirty("not a finite float")),
    ("P-double", "double", float("nan"), "double", Dirty("not a finite double")),
    ("P-string", "string", "aü\x00", "string", "aü\x00"),
    ("P-string-binary", "string", "aü", "binary", "aü".encode()),
    ("P-string-date", "string", "2013-01-05", "date", date(2013, 1, 5)),
    ("P-string-date", "string", "", "date", Dirty("expected a date")),
    ("P-string-timestamp", "string", "2013-01-05T04:05Z", "timestamp", datetime(2013, 1, 5, 4, 5, tzinfo=UTC)),
    ("P-string-timestamp", "string", "1357358706123", "timestamp", Dirty("ISO 8601")),
    ("P-bytes", "bytes", b"\xff\x00", "binary", b"\xff\x00"),
    ("P-enum", "e", 1, "string", "ONE"),
    ("P-enum", "e", -1, "string", "MINUS"),
    ("P-enum", "e", 7, "string", Dirty("7 is not a number of t.Kind")),
    ("P-enum-number", "e", 7, "int", 7),
    ("P-enum-number", "e", 1000, "tinyint", Dirty("does not fit in 8 bits")),
    (
        "P-timestamp",
        "at",
        {"seconds": -1, "nanos": 999_999_999},
        "timestamp",
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    ),
    ("P-timestamp", "at", {"seconds": 0, "nanos": -1}, "timestamp", Dirty("not within a second")),
    ("P-timestamp", "at", {"seconds": 0, "nanos": 10**9}, "timestamp", Dirty("not within a second")),
    ("P-timestamp", "at", {"seconds": 253402300800}, "timestamp", Dirty("outside of the years")),
    ("P-duration", "took", {"seconds": -1, "nanos": -500}, "decimal(18,9)", Decimal("-1.000000500")),
    ("P-duration", "took", {"seconds": 3}, "decimal(3,1)", Decimal("3.0")),
    ("P-duration", "took", {"nanos": 1}, "decimal(18,6)", Dirty("more than 6 digits")),
    ("P-duration", "took", {"seconds": 1, "nanos": -1}, "decimal(18,9)", Dirty("no duration")),
    ("P-duration", "took", {"seconds": 315_576_000_001}, "decimal(38,9)", Dirty("no duration")),
    ("P-wrapper", "w", {"value": 5}, "int", 5),
    ("P-wrapper", "w", {"value": 0}, "bigint", 0),
    ("P-wrapper", "w", {"value": 500}, "tinyint", Dirty("does not fit")),
    ("P-wrapper", "ws", {"value": "x"}, "string", "x"),
    ("P-wrapper", "w", {"value": 5}, "struct<value:int>", {"value": 5}),
    ("P-message", "at", {"seconds": 5}, "struct<seconds:bigint,nanos:int>", {"seconds": 5, "nanos": 0}),
    (
        "P-message",
        "m",
        {"int32": 5, "ms": [{"int32": 6}]},
        "struct<int32:int,ms:array<struct<int32:bigint>>>",
        {"int32": 5, "ms": [{"int32": 6}]},
    ),
    ("P-message", "m", {"int32": 500}, "struct<int32:tinyint>", Dirty("500 does not fit in 8 bits")),
    ("P-repeated", "r_double", [1.5, -0.0], "array<double>", [1.5, -0.0]),
    ("P-repeated", "r_int32", [1, 128], "array<tinyint>", Dirty("128 does not fit")),
    ("P-repeated", "es", [0, 1], "array<string>", ["NONE", "ONE"]),
    ("P-map", "is", {7: "x"}, "map<bigint,string>", [(7, "x")]),
    ("P-map", "is", {7: "x"}, "map<decimal(3,1),string>", [(Decimal("7.0"), "x")]),
    ("P-map", "is", {2**53: "x", 2**53 + 1: "y"}, "map<double,string>", Dirty("duplicate key")),
    ("P-map", "si", {"k": 500}, "map<string,tinyint>", Dirty("500 does not fit in 8 bits")),
]


@pytest.mark.parametrize(("row", "name", "value", "kind", "expected"), TYPES)
def test_types(row, name, value, kind, expected):
    texts = {"date": "2000-01-01", "timestamp": "2000-01-01T00:00Z"} if name == "string" else {}
    neighbour = put("string", texts.get(kind, ""))
    found, _ = between(decoder({"c": f"{kind} from $.{name}"}), put(name, value), neighbour)
    if isinstance(expected, Dirty):
        assert isinstance(found, Bad), found
        assert expected in found.reason
        assert found.field.startswith("c")
        return
    got = found["c"]
    got = got.replace(tzinfo=UTC) if isinstance(got, datetime) else got
    assert repr(got) == repr(expected.quantize(got) if isinstance(expected, Decimal) else expected)


SPEC = [
    ("bool", "int"),
    ("int32", "boolean"),
    ("int32", "string"),
    ("int64", "date"),
    ("int64", "binary"),
    ("float", "decimal(5,2)"),
    ("double", "int"),
    ("string", "int"),
    ("bytes", "string"),
    ("e", "double"),
    ("e", "binary"),
    ("at", "bigint"),
    ("at", "string"),
    ("took", "bigint"),
    ("w", "boolean"),
    ("m", "string"),
    ("m", "map<string,int>"),
    ("r_int32", "int"),
    ("r_int32", "array<string>"),
    ("si", "map<int,int>"),
    ("si", "struct<k:int>"),
    ("int32", "array<int>"),
    ("m", "struct<int32:string>"),
    ("int32.x", "int"),
    ("r_int32.x", "int"),
    ("ms.int32", "int"),
    ("m", "struct<same:int>"),
]


@pytest.mark.parametrize("row", ["P-spec"])
@pytest.mark.parametrize(("path", "kind"), SPEC)
def test_what_can_never_fit_is_refused(row, path, kind):
    """As the spec does: tests/spec/test_spec_formats.py."""
    with pytest.raises(JobError, match=r"cannot be|not a message|could be the struct's same"):
        decoder({"c": f"{kind} from $.{path}"})


@pytest.mark.parametrize(
    ("row", "name", "value", "form", "expected"),
    [
        ("P-time-integer", "int64", 1357358706123, "epoch_ms", 1357358706123),
        ("P-time-integer", "uint64", 2**63, "epoch_ns", 9223372036854),
        ("P-time-integer", "uint32", 1357358706, "epoch_s", 1357358706000),
        ("P-time-integer", "w", {"value": 5}, "epoch_s", 5000),
        ("P-time-integer", "int64", 1, "iso8601", "expected an event time as a string"),
        ("P-time-string", "string", "2013-01-05T04:05:06.1239+01:00", "iso8601", 1357355106123),
        ("P-time-string", "ws", {"value": "05.01.2013"}, "%d.%m.%Y", 1357344000000),
        ("P-time-string", "string", "1357358706123", "epoch_ms", "got a string"),
        ("P-time-timestamp", "at", {"seconds": -1, "nanos": 999_999_999}, "epoch_s", -1),
        ("P-time-timestamp", "at", {"nanos": -1}, "epoch_ms", "not within a second"),
        ("P-time-missing", "at", None, "epoch_ms", "no event time"),
    ],
)
def test_event_times(row, name, value, form, expected):
    made = decoder({"c": "int from $.int32"}, "proto3", f"$.{name}", form)
    decoded = made.decode(chunk_of([put(name, value)]))
    if isinstance(expected, int):
        assert not decoded.bad
        assert decoded.event_ms.to_pylist() == [expected]
    else:
        assert decoded.bad[0].field == f"$.{name}"
        assert expected in decoded.bad[0].reason
    with pytest.raises(JobError, match="cannot be an event time"):
        decoder({"c": "int from $.int32"}, "proto3", "$.r_int64")


@pytest.mark.parametrize("row", ["P-unknown-ignore", "P-unknown-capture", "P-unknown-fail"])
def test_unknown_fields(row):
    policy = row.rpartition("-")[2]
    made = decoder({"c": "int from $.int32"}, unknown=policy)
    message = put("int32", 5) + put("bytes", b"\xff") + put("es", [1, 7]) + put("m", {"string": "ü", "double": 1.5})
    message += (
        put("si", {"k": 1}) + tagged(999, 0, varint(-1)) + tagged(999, 2, b"a") + tagged(998, 5, struct.pack("<I", 7))
    )
    message += tagged(997, 3, tagged(1, 0, b"\x05")) + tagged(997, 4, b"") + tagged(INT32, 2, b"x")
    found, decoded = between(made, message, put("int32", 1))
    assert found["c"] == 5
    texts = {
        "bytes": '"/w=="',
        "es": '["ONE",7]',
        "m": '{"double":1.5,"string":"ü"}',
        "si": '{"k":1}',
        "#5": '"eA=="',
        "#997": '{"#1":5}',
        "#998": "7",
        "#999": '[18446744073709551615,"YQ=="]',
    }
    if policy == "ignore":
        assert decoded.unknown == {}
        return
    assert decoded.unknown == {name: (1, t) for name, t in texts.items()}
    if policy == "capture":
        assert decoded.table["_extra"].to_pylist()[:2] == [[], list(texts.items())]
