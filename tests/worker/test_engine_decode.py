"""What a JSON value may be for each type, by both decoders: the vectorised one, and the one that defines the rules."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from engine_fixtures import chunk_of, pipeline

from spark_jobs.engine.formats.json_decoder import JsonDecoder
from tidegate.core.spec.pipeline import Column, EventTime, Format

DIRTY = object()


def spec_of(columns: tuple[Column, ...], **changes):
    return replace(pipeline("/nowhere"), columns=columns, partition_by=("date",), **changes)


def decode_one(kind: str, literal: str, *, vectorised: bool, nullable: bool = True):
    """The value that a column of `kind` gets from a JSON literal, or DIRTY; neighbours must not change."""
    spec = spec_of(
        (Column(name="c", type=kind, path="$.c", nullable=nullable), Column(name="n", type="int", path="$.n")),
        event_time=EventTime(None),
    )
    message = b'{"n":2,"c":' + literal.encode("utf-8", "surrogatepass") + b"}"
    decoded = JsonDecoder(spec, vectorised=vectorised).decode(
        chunk_of([b'{"n":1}', message, b'{"n":3}'] if nullable else [message])
    )
    at = 1 if nullable else 0
    if nullable:
        assert (decoded.table["n"][0].as_py(), decoded.table["n"][2].as_py()) == (1, 3)
        assert set(decoded.bad) <= {at}
    return DIRTY if at in decoded.bad else decoded.table["c"][at].as_py()


CASES = [
    ("int", "1", 1),
    ("int", "-0", 0),
    ("int", "1.7", DIRTY),
    ("int", "1.0", DIRTY),
    ("int", "1e3", DIRTY),
    ("int", '"123"', DIRTY),
    ("int", "true", DIRTY),
    ("int", "[1]", DIRTY),
    ("int", "{}", DIRTY),
    ("int", "null", None),
    ("int", "2147483647", 2147483647),
    ("int", "2147483648", DIRTY),
    ("int", "01", DIRTY),
    ("int", "+1", DIRTY),
    ("int", "NaN", DIRTY),
    ("tinyint", "-128", -128),
    ("tinyint", "128", DIRTY),
    ("smallint", "32768", DIRTY),
    ("bigint", "9223372036854775807", 9223372036854775807),
    ("bigint", "9223372036854775808", DIRTY),
    ("bigint", "1" * 5000, DIRTY),
    ("double", "1", 1.0),
    ("double", "1.5", 1.5),
    ("double", "1e999", DIRTY),
    ("double", "-1e999", DIRTY),
    ("double", "NaN", DIRTY),
    ("double", "Infinity", DIRTY),
    ("double", "-inf", DIRTY),
    ("double", "nan", DIRTY),
    ("double", '"1.5"', DIRTY),
    ("double", "false", DIRTY),
    ("double", "18446744073709551616", 18446744073709551616.0),
    ("float", "0.5", 0.5),
    ("float", "1e39", DIRTY),
    ("float", "3.4028235e38", 3.4028234663852886e38),
    ("decimal(5,2)", "1.23", Decimal("1.23")),
    ("decimal(5,2)", "1.230", Decimal("1.23")),
    ("decimal(5,2)", "1e2", Decimal("100")),
    ("decimal(5,2)", "7", Decimal("7")),
    ("decimal(5,2)", "-0.0", Decimal("0")),
    ("decimal(5,2)", "1.234", DIRTY),
    ("decimal(5,2)", "1.23000000000000000000000001", DIRTY),
    ("decimal(5,2)", "0.1000000000000000055511151231257827", DIRTY),
    ("decimal(5,2)", "0.30000000000000004", DIRTY),
    ("decimal(20,2)", "1.23000000000000000000000001", DIRTY),
    ("decimal(20,2)", "1.23", Decimal("1.23")),
    ("decimal(20,6)", "12345678901234.123456", Decimal("12345678901234.123456")),
    ("decimal(38,30)", "0.10000000000000000001", Decimal("0.10000000000000000001")),
    ("decimal(5,2)", "1.23000000000000000000000000", Decimal("1.23")),
    ("decimal(5,2)", "999.99", Decimal("999.99")),
    ("decimal(5,2)", "1000", DIRTY),
    ("decimal(5,2)", "1000.000", DIRTY),
    ("decimal(5,2)", "1234.5600", DIRTY),
    ("decimal(5,2)", "123.4500", Decimal("123.45")),
    ("decimal(5,2)", "1e999999999999999999999", DIRTY),
    ("decimal(5,2)", "0e999999999999999999999", Decimal("0")),
    ("decimal(5,2)", "1e-999999999999999999999", DIRTY),
    ("decimal(5,2)", "1." + "0" * 500, Decimal("1")),
    ("decimal(5,2)", "1" + "0" * 500 + "e-500", Decimal("1")),
    ("decimal(5,2)", "-999.99", Decimal("-999.99")),
    ("decimal(2,2)", "0", Decimal("0")),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("decimal(38,0)", "-" + "9" * 38, Decimal("-" + "9" * 38)),
    ("decimal(38,0)", "1" + "0" * 38, DIRTY),
    ("decimal(38,38)", "0." + "9" * 38, Decimal("0." + "9" * 38)),
    ("decimal(38,38)", "1e-38", Decimal("1e-38")),
    ("decimal(38,38)", "1e-39", DIRTY),
    ("decimal(5,2)", '"1.23"', DIRTY),
    ("decimal(38,10)", "1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789")),
    ("boolean", "true", True),
    ("boolean", "0", DIRTY),
    ("boolean", '"true"', DIRTY),
    ("string", '"x"', "x"),
    ("string", '""', ""),
    ("string", r'"a\"b\\\n\u00fc"', 'a"b\\\nü'),
    ("string", r'"\u0000"', "\x00"),
    ("string", r'"\ud83d\ude00"', "😀"),
    ("string", r'"\ud83d"', DIRTY),
    ("string", "1", DIRTY),
    ("string", "true", DIRTY),
    ("string", "{}", DIRTY),
    ("string", '["x"]', DIRTY),
    ("string", '"a,]b"', "a,]b"),
    ("string", '"null"', "null"),
    ("binary", '"ü"', "ü".encode()),
    ("binary", "1", DIRTY),
    ("date", '"2013-01-05"', date(2013, 1, 5)),
    ("date", '"2013-02-30"', DIRTY),
    ("date", '"2013-1-5"', DIRTY),
    ("date", '"20130105"', DIRTY),
    ("date", '"infinity"', DIRTY),
    ("date", '"0000-01-01"', DIRTY),
    ("date", '" 2013-01-05"', DIRTY),
    ("date", '"2013-01-05T00:00:00"', DIRTY),
    ("date", "20130105", DIRTY),
    ("timestamp", '"2013-01-05T04:05:06Z"', datetime(2013, 1, 5, 4, 5, 6, tzinfo=UTC)),
    ("timestamp", '"2013-01-05T04:05:06"', datetime(2013, 1, 5, 4, 5, 6, tzinfo=UTC)),
    ("timestamp", '"2013-01-05 04:05"', datetime(2013, 1, 5, 4, 5, tzinfo=UTC)),
    ("timestamp", '"2013-01-05T04:05:06.123456+02:00"', datetime(2013, 1, 5, 2, 5, 6, 123456, tzinfo=UTC)),
    ("timestamp", '"2013-01-05T04:05:06.1234569-0330"', datetime(2013, 1, 5, 7, 35, 6, 123456, tzinfo=UTC)),
    ("timestamp", '"2013-01-05T04:05:06.123456789Z"', datetime(2013, 1, 5, 4, 5, 6, 123456, tzinfo=UTC)),
    ("timestamp", '"2013-01-05T04:05:06.1234567890Z"', DIRTY),
    ("timestamp", '"2013-01-05T04:05:06.Z"', DIRTY),
    ("timestamp", '"2013-01-05T04:05:06+1"', DIRTY),
    ("timestamp", '"2013-01-05T04:05:06+01:60"', DIRTY),
    ("timestamp", '"2013-01-05T04:05:06Z "', DIRTY),
    ("timestamp", '"2013-01-05T04:05:06+23:59"', datetime(2013, 1, 4, 4, 6, 6, tzinfo=UTC)),
    ("timestamp", "1357358706123", datetime(2013, 1, 5, 4, 5, 6, 123000, tzinfo=UTC)),
    ("timestamp", '"1357358706123"', DIRTY),
    ("timestamp", "1.5", DIRTY),
    ("timestamp", "999999999999999999", DIRTY),
    ("timestamp", '"2013-01-05T24:00:00"', DIRTY),
    ("timestamp", '"2013-01-05T23:59:60"', DIRTY),
    ("timestamp", '"0001-01-01T00:00:00+01:00"', DIRTY),
    ("timestamp", '"2013-01-05"', DIRTY),
    ("timestamp", '"epoch"', DIRTY),
    ("timestamp", '"now"', DIRTY),
    ("array<int>", "[1,null,3]", [1, None, 3]),
    ("array<int>", "[1,1.5]", DIRTY),
    ("array<int>", "[]", []),
    ("array<int>", "{}", DIRTY),
    ("array<decimal(3,1)>", "[1.50]", [Decimal("1.5")]),
    ("array<decimal(16,1)>", "[1.50000000000000000000000001]", DIRTY),
    ("map<string,int>", '{"a":1,"b":null}', [("a", 1), ("b", None)]),
    ("map<string,int>", '{"a":1,"a":2}', DIRTY),
    ("map<int,string>", '{"7":"x"}', [(7, "x")]),
    ("map<int,string>", '{"07":"x"}', DIRTY),
    ("map<int,string>", '{"-0":"x"}', DIRTY),
    ("map<int,string>", '{"null":"x"}', DIRTY),
    ("map<int,string>", '{"7x":"x"}', DIRTY),
    ("map<tinyint,string>", '{"-128":"x","127":"y"}', [(-128, "x"), (127, "y")]),
    ("map<tinyint,string>", '{"128":"x"}', DIRTY),
    ("map<boolean,int>", '{"true":1,"false":2}', [(True, 1), (False, 2)]),
    ("map<boolean,int>", '{"True":1}', DIRTY),
    ("map<date,int>", '{"2013-01-05":1}', [(date(2013, 1, 5), 1)]),
    ("map<date,int>", '{"2013-01-05 ":1}', DIRTY),
    ("map<double,int>", '{"7":1}', [(7.0, 1)]),
    ("map<double,int>", '{"9007199254740993":1,"9007199254740992":2}', DIRTY),
    ("map<string,int>", '{"a":1,"\\u0061":2}', DIRTY),
    ("map<string,int>", '{"":1,"\\u0000":2,"ü":3}', [("", 1), ("\x00", 2), ("ü", 3)]),
    (
        "map<string,array<map<string,int>>>",
        '{"a":[{"a":1},{"a":2}],"b":[]}',
        [("a", [[("a", 1)], [("a", 2)]]), ("b", [])],
    ),
    ("struct<a:int,b:array<string>>", '{"a":1,"b":["x"],"z":9}', {"a": 1, "b": ["x"]}),
    ("struct<a:int,b:array<string>>", '{"b":[1]}', DIRTY),
    ("struct<a:int>", '{"a":1,"a":2}', DIRTY),
    ("struct<a:int>", "[]", DIRTY),
    (
        "struct<a:timestamp,f:float>",
        '{"a":0,"f":0.1}',
        {"a": datetime(1970, 1, 1, tzinfo=UTC), "f": 0.10000000149011612},
    ),
]


@pytest.mark.parametrize("vectorised", [True, False], ids=["vectorised", "rows"])
@pytest.mark.parametrize(("kind", "literal", "expected"), CASES)
def test_types(kind, literal, expected, vectorised):
    assert decode_one(kind, literal, vectorised=vectorised) == expected


@pytest.mark.parametrize("vectorised", [True, False], ids=["vectorised", "rows"])
@pytest.mark.parametrize("kind", ["int", "string", "decimal(5,2)", "array<int>"])
def test_null_is_dirty_where_the_column_is_not_nullable(kind, vectorised):
    assert decode_one(kind, "null", vectorised=vectorised, nullable=False) is DIRTY


@pytest.mark.parametrize("vectorised", [True, False], ids=["vectorised", "rows"])
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (None, "tombstone"),
        (b"", "empty message"),
        (b" \n", "empty message"),
        (b"\xff\xfe", "invalid UTF-8 at byte 0"),
        (b'{"c":"\xc3"}', "invalid UTF-8"),
        (b'\xef\xbb\xbf{"c":"x"}', "not JSON"),
        (b'{"c":"x"}{"c":"y"}', "not JSON"),
        (b'{"c":"x"} y', "not JSON"),
        (b'{"c":"x"}\n{"c":"y"}', "not JSON"),
        (b'{"c":"x",}', "not JSON"),
        (b'{"c":["x" , ]}', "not JSON"),
        (b'{"c":"x\x00"}', "not JSON"),
        (b'{"c":"x"}\x00', "not JSON"),
        (b'{"c":"a\nb"}', "not JSON"),
        (b"{'c':'x'}", "not JSON"),
        (b'{"c":"x"/**/}', "not JSON"),
        (b'{"c":"x","z":Infinity,"y":InfinityZ}', "not JSON"),
        (b'["x"]', "expected an object, got an array"),
        (b'"x"', "expected an object, got a string"),
        (b"null", "expected an object, got null"),
        (b'{"c":"x","c":"y"}', "duplicate key"),
        (b'{"z":1,"c":"x","z":2}', "duplicate key"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_message_that_is_no_row_does_not_shift_its_neighbours(message, reason, vectorised):
    decoder = JsonDecoder(
        spec_of((Column(name="c", type="string", path="$.c"),), event_time=EventTime(None)), vectorised=vectorised
    )
    decoded = decoder.decode(chunk_of([b'{"c":"one"}', message, b'{ "c" :\n"three"}', b'{"c":"fo\\nur"}']))
    assert set(decoded.bad) == {1}
    assert reason in decoded.bad[1].reason
    found = decoded.table["c"].to_pylist()
    assert (found[0], found[2], found[3]) == ("one", "three", "fo\nur")


@pytest.mark.parametrize("vectorised", [True, False], ids=["vectorised", "rows"])
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b'{"a":{"b":1,"c":"x"}}', (1, "x")),
        (b'{"a":{"b":1,"b":2}}', "n"),
        (b'{"a":null}', (None, None)),
        (b"{}", (None, None)),
        (b'{"a":5}', "n"),
        (b'{"a":[]}', "n"),
        (b'{"A":{"b":1}}', (None, None)),
        (b'{"a":{"b":1},"z":{"q":1,"q":2}}', (1, None)),
        (b'{"a":{"b":1},"z":NaN}', (1, None)),
        (b'{"a":{"b":1},"z":-inf}', (1, None)),
        (b'{"a":{"b":1},"z":[NaN,-inf,Infinity,+nan]}', (1, None)),
    ],
)
def test_paths(message, expected, vectorised):
    columns = (Column(name="n", type="int", path="$.a.b"), Column(name="m", type="string", path='$."a"."c"'))
    decoded = JsonDecoder(spec_of(columns, event_time=EventTime(None)), vectorised=vectorised).decode(
        chunk_of([message])
    )
    if isinstance(expected, str):
        assert decoded.bad[0].field == expected
    else:
        assert decoded.bad == {}
        assert (decoded.table["n"][0].as_py(), decoded.table["m"][0].as_py()) == expected


@pytest.mark.parametrize("vectorised", [True, False], ids=["vectorised", "rows"])
def test_one_value_for_several_columns_and_the_event_time(vectorised):
    columns = (
        Column(name="n", type="bigint", path="$.t"),
        Column(name="x", type="double", path="$.t"),
        Column(name="w", type="timestamp", path="$.t"),
        Column(name="upper", type="string", path="$.T"),
        Column(name="whole", type="struct<b:int>", path="$.a"),
        Column(name="part", type="int", path="$.a.b"),
    )
    decoded = JsonDecoder(spec_of(columns, event_time=EventTime("$.t")), vectorised=vectorised).decode(
        chunk_of([b'{"t":1357358706123,"T":"up","a":{"b":7}}'])
    )
    assert decoded.bad == {}
    assert decoded.table.to_pylist() == [
        {
            "n": 1357358706123,
            "x": 1357358706123.0,
            "w": datetime(2013, 1, 5, 4, 5, 6, 123000, tzinfo=UTC),
            "upper": "up",
            "whole": {"b": 7},
            "part": 7,
        }
    ]
    assert decoded.event_ms.to_pylist() == [1357358706123]


EVENT_TIMES = [
    ("epoch_s", "1357358706", 1357358706000),
    ("epoch_s", "1357358706.5", DIRTY),
    ("epoch_s", "1357358706123", DIRTY),  # ms by mistake: the year 44983
    ("epoch_ms", "1357358706123", 1357358706123),
    ("epoch_ms", '"1357358706123"', DIRTY),
    ("epoch_us", "1357358706123999", 1357358706123),
    ("epoch_us", "-1", -1),
    ("epoch_ns", "1357358706123999999", 1357358706123),
    ("epoch_ms", "null", DIRTY),
    ("epoch_ms", "9223372036854775807", DIRTY),
    ("iso8601", '"2013-01-05T04:05:06.123999+01:00"', 1357355106123),
    ("iso8601", '"2013-01-05T04:05:06Z"', 1357358706000),
    ("iso8601", '"1969-12-31T23:59:59.9995"', -1),
    ("iso8601", '"yesterday"', DIRTY),
    ("iso8601", "1357358706123", DIRTY),
    ("%d.%m.%Y %H:%M", '"05.01.2013 04:05"', 1357358700000),
    ("%d.%m.%Y %H:%M %z", '"05.01.2013 04:05 +0100"', 1357355100000),
    ("%d.%m.%Y %H:%M", '"2013"', DIRTY),
    ("%d.%m.%Y %H:%M", "5", DIRTY),
]


@pytest.mark.parametrize("vectorised", [True, False], ids=["vectorised", "rows"])
@pytest.mark.parametrize(("form", "literal", "expected"), EVENT_TIMES)
def test_event_time(form, literal, expected, vectorised):
    spec = spec_of((Column(name="c", type="int", path="$.c"),), event_time=EventTime("$.when.at", form))
    decoded = JsonDecoder(spec, vectorised=vectorised).decode(
        chunk_of([b'{"when":{"at":%s}}' % literal.encode(), b'{"c":1}'])
    )
    assert decoded.bad[1].field == "$.when.at"
    if expected is DIRTY:
        assert decoded.bad[0].field == "$.when.at"
    else:
        assert 0 not in decoded.bad
        assert decoded.event_ms[0].as_py() == expected


@pytest.mark.parametrize("vectorised", [True, False], ids=["vectorised", "rows"])
def test_unknown_fields_are_captured_as_json_text(vectorised):
    spec = spec_of(
        (Column(name="c", type="int", path="$.c"),), event_time=EventTime("$.t"), format=Format("json", "capture")
    )
    decoded = JsonDecoder(spec, vectorised=vectorised).decode(
        chunk_of([b'{"c":1,"t":1,"x":{"y":[1.50,"\xc3\xbc"]},"z":null,"s":"q"}', b'{"c":2,"t":2}'])
    )
    extra = decoded.table["_extra"].to_pylist()
    assert [k for k, _ in extra[0]] == ["x", "z", "s"]
    assert {k: json.loads(v) for k, v in extra[0]} == {"x": {"y": [1.5, "ü"]}, "z": None, "s": "q"}
    assert extra[1] == []
    assert set(decoded.unknown) == {"x", "z", "s"}
