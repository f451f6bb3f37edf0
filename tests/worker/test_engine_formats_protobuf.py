"""Protobuf by docs/types.md: messages and their encoding; each message between neighbours, bytes written by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.engine.formats import Bad
from tests.engine_fixtures import chunk_of
from tests.format_fixtures import Dirty, between, check
from tests.protobuf_values import INT32, STRING, TYPES_OF, decoder, put, tagged, varint


def test_numbers_of_fields():
    number = TYPES_OF["proto3"].DESCRIPTOR.fields_by_name
    assert (number["int32"].number, number["string"].number, number["w"].number) == (5, 9, 205)


MESSAGES = [
    ("P-message-plain", b"", 0),
    ("P-message-plain", tagged(INT32, 0, varint(7)), 7),
    ("P-message-tombstone", None, Dirty("tombstone")),
    ("P-message-corrupt", tagged(INT32, 0, b"\x80"), Dirty("not a t.All")),
    ("P-message-corrupt", tagged(STRING, 2, b"abc")[:-1], Dirty("not a t.All")),
    ("P-message-corrupt", b"\x00\x01", Dirty("not a t.All")),
    ("P-message-corrupt", varint(1 << 32 | 5 << 3) + b"\x01", Dirty("not a t.All")),
    ("P-message-corrupt", tagged(INT32, 6, b""), Dirty("not a t.All")),
    ("P-message-corrupt", tagged(INT32, 7, b""), Dirty("not a t.All")),
    ("P-message-corrupt", tagged(INT32, 0, b"\x80" * 10 + b"\x01"), Dirty("not a t.All")),
    ("P-message-corrupt", tagged(999, 3, b""), Dirty("not a t.All")),
    ("P-message-corrupt", tagged(999, 4, b""), Dirty("not a t.All")),
    ("P-message-corrupt", tagged(999, 3, tagged(1, 0, b"\x80")) + tagged(999, 4, b""), Dirty("not a t.All")),
    ("P-message-utf8", tagged(STRING, 2, b"\xff"), Dirty("bad UTF-8")),
    ("P-message-utf8", tagged(203, 2, tagged(STRING, 2, b"\xff")), Dirty("bad UTF-8")),
    ("P-wire-last", tagged(INT32, 0, varint(1)) + tagged(INT32, 0, varint(2)), 2),
    ("P-wire-type", tagged(INT32, 0, varint(1)) + tagged(INT32, 2, b"ab"), 1),
    ("P-wire-width", tagged(INT32, 0, varint(2**32 + 7)), 7),
    ("P-wire-width", tagged(INT32, 0, varint(-1)), -1),
    ("P-wire-width", tagged(INT32, 0, varint(2**31)), -(2**31)),
]


@pytest.mark.parametrize(("row", "message", "expected"), MESSAGES)
def test_messages(row, message, expected):
    check(decoder({"c": "int from $.int32"}), message, put("int32", 1), expected)
    skipping = decoder({"c": "boolean from $.bool"})
    check(skipping, message, put("int32", 1), expected if isinstance(expected, Dirty) else False)


def nested(levels: int) -> bytes:
    message = b""
    for _ in range(levels):
        message = tagged(203, 2, message)
    return message


@pytest.mark.parametrize("row", ["P-message-depth"])
def test_depth(row):
    made = decoder({"c": "int from $.int32"})
    check(made, nested(100), b"", 0)
    check(made, nested(101), b"", Dirty("not a t.All"))
    check(made, nested(50_000), b"", Dirty("not a t.All"))


@pytest.mark.parametrize("row", ["P-message-required"])
def test_required_fields(row):
    made = decoder({"c": "int from $.x"}, "proto2", message="t.Strict")
    x = tagged(1, 0, varint(5))
    check(made, b"", x, Dirty("required fields are missing: x"))
    check(made, x + tagged(2, 2, b""), x, Dirty("required fields are missing: s.x"))
    check(made, x + tagged(2, 2, x), x, 5)


@pytest.mark.parametrize("row", ["P-message-utf8-proto2"])
def test_text_of_proto2_is_looked_at_by_its_column(row):
    bad = tagged(STRING, 2, b"\xff") + tagged(109, 2, b"\xff")
    check(decoder({"c": "int from $.int32"}, "proto2"), bad, b"", None)
    for kind in ("string", "binary", "date", "timestamp"):
        found, _ = between(decoder({"c": f"{kind} from $.string"}, "proto2"), bad, b"")
        assert found == Bad("invalid UTF-8", "c")
    found, _ = between(decoder({"c": "array<string> from $.r_string"}, "proto2"), bad, b"")
    assert found == Bad("invalid UTF-8", "c[0]")
    found, _ = between(decoder({"c": "struct<string:string> from $.m"}, "proto2"), tagged(203, 2, bad), b"")
    assert found == Bad("invalid UTF-8", "c.string")
    decoded = decoder({"c": "int from $.int32"}, "proto2", "$.string", "iso8601").decode(chunk_of([bad]))
    assert decoded.bad[0] == Bad("invalid UTF-8", "$.string")


ENCODING = [
    ("P-wire-packed", "array<int> from $.r_int32", tagged(105, 2, b"\x01\x02") + tagged(105, 0, b"\x03"), [1, 2, 3]),
    ("P-wire-width", "boolean from $.bool", tagged(8, 0, varint(2**40)), True),
    ("P-wire-width", "int from $.sint32", tagged(14, 0, varint(2**32 | 3)), -2),
    ("P-wire-width", "int from $.uint32", tagged(11, 0, varint(2**32 | 3)), 3),
    ("P-wire-last", "int from $.m.int32", tagged(203, 2, put("int32", 5)) + tagged(203, 2, put("string", "x")), 5),
    (
        "P-wire-map",
        "map<string,int> from $.si",
        tagged(211, 2, b"\x0a\x01k\x10\x05") * 1 + tagged(211, 2, b"\x0a\x01k\x10\x06"),
        [("k", 6)],
    ),
    ("P-wire-map", "map<string,int> from $.si", tagged(211, 2, b""), [("", 0)]),
    ("P-wire-oneof", "int from $.left", put("left", 5) + put("right", "x"), None),
    ("P-wire-oneof", "string from $.right", put("left", 5) + put("right", "x"), "x"),
    ("P-presence-implicit", "string from $.string", b"", ""),
    ("P-presence-implicit", "double from $.double", b"", 0.0),
    ("P-presence-implicit", "binary from $.bytes", b"", b""),
    ("P-presence-implicit", "string from $.e", b"", "NONE"),
    ("P-presence-missing", "int from $.opt", b"", None),
    ("P-presence-missing", "int from $.opt", tagged(231, 0, b"\x00"), 0),
    ("P-presence-missing", "struct<int32:int> from $.m", b"", None),
    (
        "P-presence-missing",
        "struct<m:struct<int32:int>,int32:int> from $.m",
        tagged(203, 2, b""),
        {"m": None, "int32": 0},
    ),
    ("P-presence-repeated", "array<int> from $.r_int32", b"", []),
    ("P-presence-repeated", "map<string,int> from $.si", b"", []),
    ("P-path", "int from $.m.m.int32", tagged(203, 2, tagged(203, 2, put("int32", 5))), 5),
    ("P-path", "int from $.m.m.int32", tagged(203, 2, b""), None),
    ("P-path", "int from $.from", put("from", 5), 5),
    (
        "P-name-struct",
        "struct<unitprice:int,gone:int> from $.m",
        tagged(203, 2, put("unitPrice", 5)),
        {"unitprice": 5, "gone": None},
    ),
]


@pytest.mark.parametrize(("row", "column", "message", "expected"), ENCODING)
def test_the_encoding(row, column, message, expected):
    found, _ = between(decoder({"c": column, "same": "int from $.int64"}), message, put("int64", 1))
    assert repr(found) == repr({"c": expected, "same": 0})


@pytest.mark.parametrize("row", ["P-wire-enum"])
def test_a_closed_enum_has_no_other_numbers(row):
    message = tagged(201, 0, varint(7)) + tagged(202, 0, varint(1)) + tagged(202, 0, varint(7))
    columns = {"c": "string from $.e", "es": "array<string>"}
    check(decoder(columns, "proto2"), message, b"", {"c": None, "es": ["ONE"]})
    _, decoded = between(decoder(columns, "proto2", unknown="capture"), message, b"")
    assert decoded.table["_extra"].to_pylist()[1] == [("#201", "7"), ("#202", "7")]
    found, _ = between(decoder({"c": "array<string> from $.es"}), message, b"")
    assert found == Bad("7 is not a number of t.Kind", "c[1]")


def test_groups_and_presence_of_proto2():
    message = tagged(232, 3, tagged(1, 0, b"\x05")) + tagged(232, 4, b"")
    columns = {
        "c": "int from $.int32",
        "g": "int from $.g.x",
        "w": "struct<x:int> from $.g",
        "s": "string from $.string",
    }
    check(decoder(columns, "proto2"), message, b"", {"c": None, "g": 5, "w": {"x": 5}, "s": None})


HEADER = b"\x00\x00\x00\x00\x07"


@pytest.mark.parametrize(
    ("row", "message", "name", "expected"),
    [
        ("P-message-confluent", HEADER + b"\x02\x02" + put("int32", 5), "t.All", 5),
        ("P-message-confluent", b"\x00\xff\xff\xff\xff\x02\x02", "t.All", 0),
        ("P-message-confluent", HEADER + b"\x82\x00\x82\x00" + put("int32", 5), "t.All", 5),
        ("P-message-indexes", HEADER + b"\x00", "t.First", None),
        ("P-message-indexes", HEADER + b"\x02\x00", "t.First", None),
        ("P-message-indexes", HEADER + b"\x04\x02\x04" + tagged(1, 0, b"\x05"), "t.All.Inner", 5),
        (
            "P-message-indexes",
            HEADER + b"\x00" + put("int32", 5),
            "t.All",
            Dirty("message indexes [] are not those of t.All, [1]"),
        ),
        ("P-message-indexes", HEADER + b"\x04\x02\x02", "t.All", Dirty("message indexes [1, 1]")),
        ("P-message-header", HEADER, "t.All", Dirty("no Confluent header")),
        ("P-message-header", b"\x01" + HEADER[1:] + b"\x02\x02", "t.All", Dirty("no Confluent header")),
        ("P-message-header", HEADER + b"\x02", "t.All", Dirty("cut off in its message indexes")),
        ("P-message-header", HEADER + b"\x01", "t.All", Dirty("cut off in its message indexes")),
        ("P-message-header", HEADER + b"\xfe\xff\xff\xff\x0f\x02", "t.All", Dirty("cut off in its message indexes")),
        ("P-message-header", HEADER + b"\xff" * 11, "t.All", Dirty("a number")),
        ("P-message-header", b"", "t.All", Dirty("no Confluent header")),
        ("P-message-tombstone", None, "t.All", Dirty("tombstone")),
    ],
)
def test_confluent_messages(row, message, name, expected):
    columns = {
        "t.All": {"c": "int from $.int32"},
        "t.First": {"c": "int from $.gone"},
        "t.All.Inner": {"c": "int from $.x"},
    }[name]
    good = HEADER + {"t.All": b"\x02\x02", "t.First": b"\x00", "t.All.Inner": b"\x04\x02\x04"}[name]
    check(decoder(columns, wire="confluent", message=name), message, good, expected)


SCALARS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), ("int", st.integers(-(2**31), 2**31 - 1))),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), ("bigint", st.integers(-(2**63), 2**63 - 1))),
    **dict.fromkeys(("uint32", "fixed32"), ("bigint", st.integers(0, 2**32 - 1))),
    **dict.fromkeys(("uint64", "fixed64"), ("decimal(20,0)", st.integers(0, 2**64 - 1))),
    "double": ("double", st.floats(allow_nan=False, allow_infinity=False)),
    "float": ("float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "bool": ("boolean", st.booleans()),
    "string": ("string", st.text(max_size=9)),
    "bytes": ("binary", st.binary(max_size=9)),
}
values = st.fixed_dictionaries({name: strategy for name, (_, strategy) in SCALARS.items()})
WHOLE = decoder({name: kind for name, (kind, _) in SCALARS.items()})


@settings(max_examples=40, deadline=None)
@given(st.lists(values, min_size=1, max_size=4), st.data())
def test_what_the_library_writes_is_read_and_mutations_shift_nothing(rows, data):
    messages: list[bytes] = [TYPES_OF["proto3"](**row).SerializeToString() for row in rows]
    decoded = WHOLE.decode(chunk_of(messages))
    assert not decoded.bad
    found = [{n: int(v) if isinstance(v, Decimal) else v for n, v in row.items()} for row in decoded.table.to_pylist()]
    assert repr(found) == repr([{name: row[name] for name in SCALARS} for row in rows])
    raw = bytearray(messages[0])
    at = data.draw(st.integers(0, len(raw)))
    raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    between(WHOLE, bytes(raw), messages[-1])
