"""Avro by docs/types.md: messages, their encoding, paths and event times; each message between neighbours."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest

from spark_jobs.engine.formats import Bad
from tests.avro_values import (
    COUNTS,
    ENUM,
    INNER,
    INTS,
    MICROS,
    MILLIS,
    NANOS,
    decoder,
    logical,
    number,
    one,
    record,
    text,
)
from tests.engine_fixtures import chunk_of
from tests.format_fixtures import Dirty, between, check

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
