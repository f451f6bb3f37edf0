"""The C library's readers of binary formats: against the row rules, at their limits, and with wrong programs."""

from __future__ import annotations

import json
from array import array
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from engine_fixtures import chunk_of

from spark_jobs.engine import native
from spark_jobs.engine.formats import Decoder
from spark_jobs.engine.formats.avro_decoder import AvroDecoder
from spark_jobs.engine.formats.protobuf_decoder import ProtobufDecoder
from spark_jobs.engine.formats.protobuf_program import _Plans
from tests.avro_values import number, record, text, written
from tests.format_fixtures import spec
from tests.protobuf_values import SETS, TYPES_OF, tagged
from tests.value_rules import seeds_protobuf
from tests.value_rules.encode_protobuf import Declared
from tests.value_rules.engine_formats import compiled
from tests.value_rules.oracle_json import PlainColumn, PlainSpec
from tests.wire_differential import DECODERS, cases, compare
from tidegate.core.spec.pipeline import AvroFormat, Format, Pipeline, ProtobufFormat

SAMPLE = 25
"""Messages of each case; `python -m tests.wire_differential` takes a million."""


@pytest.mark.parametrize("form", sorted(DECODERS))
def test_what_the_library_takes_is_what_the_row_rules_say(form: str, rng: Random) -> None:
    found: dict[str, int] = {}
    for case in cases(form, rng, random_specs=20):
        for outcome, count in compare(form, case, rng, SAMPLE).items():
            found[outcome] = found.get(outcome, 0) + count
    assert min(found["sure"], found["not sure, dirty"]) > 1_000, found  # both sides were looked at
    assert found["not sure, a row"] < found["sure"] / 4, found


def avro(columns: dict[str, str], *schemas: Any, time: str = "", form: str = "epoch_ms") -> Pipeline:
    """Schemas have the ids 0, 1, ..."""
    texts = {i: json.dumps(schema) for i, schema in enumerate(schemas)}
    return spec(Format("avro", avro=AvroFormat("confluent", None, texts, None, "dirty")), columns, time, form)


def unsure(decoder: Decoder, *messages: bytes | None) -> list[int]:
    program = decoder._program  # type: ignore[attr-defined]
    assert program is not None, native.why_not()
    return program.run(list(messages))[1]


def framed(schema_id: int, datum: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + datum


def test_each_id_is_learned_when_it_is_first_met() -> None:
    one, two = record(c="int", s="string"), record(s=["null", "string"], c="long")
    decoder = AvroDecoder(avro({"c": "int", "s": "string"}, one, two))
    first, second = framed(0, number(7) + text("x")), framed(1, b"\0" + number(8))
    chunk = [first, second, None, framed(9, b"\0"), framed(9, b"\0"), b"", b"\0\0\0", b"\1" + first[1:], second, first]
    assert unsure(decoder, *chunk) == [2, 3, 4, 5, 6, 7]
    decoded = decoder.decode(chunk_of(chunk))
    assert decoded.table.column("c").to_pylist()[:2] + decoded.table.column("c").to_pylist()[-2:] == [7, 8, 8, 7]
    assert {i: bad.reason for i, bad in decoded.bad.items()} == {
        2: "null value (tombstone)",
        **dict.fromkeys((3, 4), "schema id 9 is not in format.schemas"),
        **dict.fromkeys((5, 6, 7), "no Confluent header (a zero byte and a schema id)"),
    }


def test_it_is_sure_of_ordinary_messages() -> None:
    inner = record(x="int", s="string") | {"name": "Inner"}
    schema = record(
        a=["null", "string"], b={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, c=inner,
        d={"type": "array", "items": ["null", "Inner"]}, e={"type": "map", "values": "double"},
        f={"type": "long", "logicalType": "timestamp-micros"}, g={"type": "int", "logicalType": "date"},
        h={"type": "enum", "name": "E", "symbols": ["A", "B"]}, i={"type": "fixed", "name": "U", "size": 16,
        "logicalType": "uuid"}, j="string", z={"type": "map", "values": {"type": "array", "items": "Inner"}},
    )  # fmt: skip
    columns = {
        "a": "string", "b": "decimal(12,3)", "x": "bigint from $.c.x", "c": "struct<s:string,x:tinyint>",
        "d": "array<struct<x:int,s:string>>", "e": "map<string,float>", "f": "timestamp", "g": "date", "h": "string",
        "i": "string", "j": "timestamp",
    }  # fmt: skip
    value = {
        "a": "ü", "b": b"\xff\x38", "c": {"x": -3, "s": ""}, "d": [{"x": 1, "s": "x"}, None],
        "e": {"k": 1.5, "l": -0.0},
        "f": 1_357_358_706_123_456, "g": -719_162, "h": "B", "i": bytes(range(16)), "j": "2013-01-05T04:05:06+01:00",
        "z": {"q": [{"x": 5, "s": "deep"}]},
    }  # fmt: skip
    plain = {**schema, "fields": [
        {**f, "type": "bytes"} if f["name"] == "b" else {**f, "type": "long"} if f["name"] == "f"
        else {**f, "type": "int"} if f["name"] == "g"
        else {**f, "type": {"type": "fixed", "name": "U", "size": 16}} if f["name"] == "i" else f
        for f in schema["fields"]
    ]}  # fmt: skip
    message = framed(0, written(plain, value))
    pipeline = avro(columns, schema, time="$.f", form="iso8601")
    fast, slow = AvroDecoder(pipeline), AvroDecoder(pipeline, vectorised=False)
    assert unsure(fast, message, message) == []
    decoded = fast.decode(chunk_of([message]))
    assert decoded.table.equals(slow.decode(chunk_of([message])).table)
    assert decoded.event_ms is not None
    assert decoded.event_ms.to_pylist() == [1_357_358_706_123]
    assert {n: decoded.table[n][0].as_py() for n in "xbi"} == {
        "x": -3, "b": Decimal("-2.000"), "i": "00010203-0405-0607-0809-0a0b0c0d0e0f"
    }  # fmt: skip
    for n in range(len(message)):  # nothing of a message that is cut off stays
        assert unsure(fast, message[:n], message, message + b"\0") == [0, 2]
        assert fast.decode(chunk_of([message[:n], message])).table.slice(1).equals(decoded.table)


LINK = record(v="int", n=["null", "R"])


@pytest.mark.parametrize("levels", [198, 199, 200, 5_000])
def test_two_hundred_records_and_not_one_more(levels: int) -> None:
    """The top one, `levels` of them below it."""
    decoder = AvroDecoder(avro({"v": "int"}, LINK))
    message = framed(0, b"\2" + b"\2\2" * levels + b"\0")
    assert unsure(decoder, message) == ([] if levels < 200 else [0])
    bad = decoder.decode(chunk_of([message])).bad
    assert bool(bad) == (levels >= 200)


def test_schemas_that_are_nested_without_records_do_not_overflow_the_stack() -> None:
    schema: Any = "R"
    for _ in range(150):
        schema = {"type": "array", "items": schema}
    decoder = AvroDecoder(avro({"v": "int"}, record(v="int", n=schema)))
    one = b"\2" * 150
    message = framed(0, b"\2" + (one + b"\2") * 190 + b"\0" * (190 * 150 + 1))
    assert unsure(decoder, message) == [0]  # far below the limit of records: the row rules are asked


def test_numbers_at_their_limits() -> None:
    decoder = AvroDecoder(avro({"c": "bigint"}, record(c="long")))
    for datum, taken in (
        (b"\xff" * 9 + b"\x01", True), (b"\xfe" + b"\xff" * 8 + b"\x01", True), (b"\x80" * 9 + b"\x00", True),
        (b"\xff" * 9 + b"\x02", False), (b"\xff" * 9 + b"\x81\x00", False), (b"\x80\x80\x00", True), (b"\x80", False),
    ):  # fmt: skip
        assert unsure(decoder, framed(0, datum)) == ([] if taken else [0])
        assert bool(decoder.decode(chunk_of([framed(0, datum)])).bad) != taken
    narrow = AvroDecoder(avro({"c": "tinyint"}, record(c="int")))
    assert unsure(narrow, *(framed(0, number(n)) for n in (-129, -128, 127, 128, 2**31, -(2**31) - 1))) == [0, 3, 4, 5]


@pytest.mark.parametrize("vectorised", [True, False], ids=["library", "rules"])
@pytest.mark.parametrize("kind", ["float", "double", "int", "boolean", "string"])
def test_a_length_beyond_all_memory_is_only_a_dirty_record(kind: Any, vectorised: bool) -> None:
    decoder = AvroDecoder(avro({"c": kind}, record(s="string", c=kind)), vectorised=vectorised)
    message = framed(0, number(2**63 - 1) + b"x" * 20)
    assert decoder.decode(chunk_of([message])).bad[0].reason == "cut off"


def test_a_pipeline_that_the_library_cannot_serve_is_left_to_the_rules() -> None:
    deep = "array<" * 40 + "int" + ">" * 40
    assert AvroDecoder(avro({"c": deep}, record(c="int")))._program is None
    pattern = avro({"c": "int"}, record(c="int", t="string"), time="$.t", form="%d/%m/%y")
    assert AvroDecoder(pattern)._program is None
    decoded = AvroDecoder(pattern).decode(chunk_of([framed(0, number(1) + text("05/01/13"))]))
    assert decoded.event_ms is not None
    assert decoded.event_ms.to_pylist() == [1_357_344_000_000]
    assert decoded.slow.messages == {"time format": 1}


@pytest.mark.parametrize(
    ("schema", "kind", "datum", "expected"),
    [
        ("long", "decimal(5,2)", number(999), "999.00"),
        ("long", "decimal(5,2)", number(-999), "-999.00"),
        ("long", "decimal(5,2)", number(1000), None),
        ("long", "decimal(5,2)", number(-1000), None),
        ("string", "timestamp", text('2013-01-05T04:05:06Z"'), None),
        ("string", "timestamp", text('2013-01-05T04:05:06Z"x'), None),
        ("string", "timestamp", text("2013-01-05T04:05:06Z\0"), None),
        ("string", "timestamp", text("1969-12-31T23:59:59.9999999Z"), "1969-12-31 23:59:59.999999+00:00"),
        ("string", "date", text("2013-01-05"), "2013-01-05"),
        ("string", "date", text('2013-01-05"'), None),
        ("string", "string", text(b"abcdefg\xc3"), None),
        ("string", "string", text("abcdefgü"), "abcdefgü"),
    ],
)
def test_values_at_their_limits(schema: str, kind: str, datum: bytes, expected: str | None) -> None:
    """With bytes behind them that would make them right, or wrong."""
    decoder = AvroDecoder(avro({"c": kind}, record(c=schema, z="string")))
    message = framed(0, datum + text(b"\xbc2"))
    decoded = decoder.decode(chunk_of([message]))
    assert (unsure(decoder, message) == []) == (expected is not None)
    assert bool(decoded.bad) == (expected is None)
    assert expected is None or str(decoded.table["c"][0].as_py()) == expected


@pytest.mark.parametrize(
    ("form", "time", "ms"),
    [
        ("iso8601", "1969-12-31T23:59:59.9995Z", -1),
        ("iso8601", "2013-01-05T04:05:06.1239Z", 1_357_358_706_123),
        ("%Y/%m/%d", "2013/01/05", 1_357_344_000_000),
        ("%Y/%m/%d", "2013\\/01/05", None),  # JSON's writers escape it so
    ],
)
def test_event_times_in_words(form: str, time: str, ms: int | None) -> None:
    decoder = AvroDecoder(avro({"z": "int"}, record(t="string", z="int"), time="$.t", form=form))
    message = framed(0, text(time) + number(1))
    decoded = decoder.decode(chunk_of([message]))
    assert (unsure(decoder, message) == []) == (ms is not None)
    assert decoded.event_ms is not None
    assert decoded.event_ms.to_pylist() == [ms]


STEP = {"end": [0, -1, 0, 0, 0, 0]}


@pytest.mark.parametrize(
    ("steps", "pool"),
    [
        ([[3, -1, 0, 0, 0, 0]], []),  # no end
        ([[99, -1, 0, 0, 0, 0], STEP["end"]], []),
        ([[3, 2, 0, 0, 0, 0], STEP["end"]], []),  # no such column
        ([[3, -2, 0, 0, 0, 0], STEP["end"]], []),
        ([[7, 1, 5, 0, 0, 0], STEP["end"]], []),  # text into an int
        ([[7, -1, 0, 0, 0, -1], STEP["end"]], []),
        ([[10, -1, 0, 0, 1, 0], STEP["end"]], []),  # branches that the pool does not have
        ([[10, -1, 0, 0, 1, 0], STEP["end"]], [2]),
        ([[12, -1, 0, 2, 0, 0], STEP["end"]], []),
        ([[13, 1, 0, 0, 0, 0], STEP["end"]], []),
        ([[14, 0, 0, 0, 0, 0], STEP["end"]], []),
        ([[16, 1, 0, 0, 1, 0], STEP["end"]], []),
    ],
)
def test_a_program_that_makes_no_sense_is_refused(steps: list[list[int]], pool: list[int]) -> None:
    program = AvroDecoder(avro({"c": "int"}, record(c="int")))._program
    assert program is not None
    flat, more = array("i", [n for step in steps for n in step]), array("i", pool)
    add = program._library.tg_avro_add
    arguments = (flat.buffer_info()[0], len(steps), more.buffer_info()[0], len(pool), b"", 0)
    assert add(program._handle, 5, *arguments) == -2
    good = array("i", STEP["end"])
    assert add(program._handle, 5, good.buffer_info()[0], 1, more.buffer_info()[0], 0, b"", 0) == 0
    assert add(program._handle, 5, good.buffer_info()[0], 1, more.buffer_info()[0], 0, b"", 0) == -2  # it is there


# ---------------------------------------------------------------- protobuf


def protobuf(columns: dict[str, str], unknown: str = "ignore", wire: str = "plain", message: str = "t.All") -> Pipeline:
    return spec(Format("protobuf", unknown, protobuf=ProtobufFormat(SETS["proto3"], message, wire)), columns)


def test_it_is_sure_of_ordinary_protobuf_messages() -> None:
    columns = {name: kind for name, kind in (
        ("double", "double"), ("int64", "bigint"), ("uint32", "bigint"), ("bool", "boolean"), ("string", "string"),
        ("bytes", "binary"), ("r_sint32", "array<int>"), ("r_string", "array<string>"), ("e", "string"),
        ("es", "array<string>"), ("m", "struct<string:string,r_int32:array<int>>"), ("opt", "int"),
        ("ms", "array<struct<sint64:bigint,m:struct<string:string>>>"), ("w", "int"), ("at", "timestamp"),
        ("took", "decimal(12,3)"), ("si", "map<string,int>"), ("left", "int"), ("right", "string"),
        ("x", "bigint from $.m.int64"), ("y", "double from $.m.wd"),
    )}  # fmt: skip
    made = TYPES_OF["proto3"](
        double=1.5, int64=-7, uint32=2**32 - 1, string="ü", r_sint32=[-1, 0, 2**31 - 1], r_string=["", "x"], e=-1,
        es=[0, 1], m={"string": "in", "r_int32": [1], "int64": 9, "wd": {"value": -0.0}}, opt=0,
        ms=[{"sint64": -3}, {"m": {"string": "deep"}}], w={}, at={"seconds": -1, "nanos": 999_999_999},
        took={"seconds": -1, "nanos": -500_000_000}, si={"k": 5}, right="r",
    )  # fmt: skip
    message = made.SerializeToString()
    pipeline = protobuf(columns)
    fast, slow = ProtobufDecoder(pipeline), ProtobufDecoder(pipeline, vectorised=False)
    assert unsure(fast, message, b"", message) == []
    decoded = fast.decode(chunk_of([message, b""]))
    assert decoded.table.equals(slow.decode(chunk_of([message, b""])).table)
    row = decoded.table.to_pylist()[0]
    assert (row["e"], row["left"], row["right"], row["w"], row["x"]) == ("MINUS", None, "r", 0, 9)
    assert str(row["at"]) == "1969-12-31 23:59:59.999999+00:00"
    for n in range(len(message)):  # nothing of a message that is cut off stays
        chunk = chunk_of([message, message[:n], message])
        one, other = fast.decode(chunk), slow.decode(chunk)
        assert one.bad == other.bad
        assert one.table.equals(other.table) or n in one.bad or one.bad


@pytest.mark.parametrize(
    "message",
    [
        tagged(203, 2, tagged(5, 0, b"\1")) + tagged(203, 2, tagged(5, 0, b"\2")),  # merged
        tagged(221, 0, b"\1") + tagged(222, 2, b"x"),  # two of a oneof
        tagged(5, 2, b"\1\2"),  # another wire type
        tagged(999, 3, b"") + tagged(999, 4, b""),
        tagged(211, 2, tagged(1, 2, b"a")) + tagged(211, 2, tagged(1, 2, b"b")),  # a map's order means nothing
        tagged(211, 2, tagged(1, 2, b"a") + tagged(3, 0, b"\1")),
        tagged(9, 2, b"\xff"),
        tagged(204, 2, tagged(9, 2, b"\xff")),
        tagged(5, 0, b"\x80" * 9 + b"\2"),
        b"\xa8\x80\x80\x80\x80\0\1",  # a tag of six bytes
    ],
)
def test_what_is_rare_in_protobuf_is_not_sure(message: bytes) -> None:
    columns = {"int32": "int", "m": "struct<int32:int>", "left": "int", "right": "string", "si": "map<string,int>"}
    pipeline = protobuf(columns)
    fast, slow = ProtobufDecoder(pipeline), ProtobufDecoder(pipeline, vectorised=False)
    assert unsure(fast, message) == [0]
    one, other = fast.decode(chunk_of([message])), slow.decode(chunk_of([message]))
    assert (one.bad, one.table.to_pylist()) == (other.bad, other.table.to_pylist())


def test_unknown_fields_and_headers_of_protobuf() -> None:
    capture = ProtobufDecoder(protobuf({"int32": "int"}, unknown="capture"))
    known, unknown, other = tagged(5, 0, b"\1"), tagged(999, 0, b"\1"), tagged(9, 2, b"x")
    assert unsure(capture, known, known + unknown, other, b"") == [1, 2]
    extra = capture.decode(chunk_of([known, known + unknown, other])).table["_extra"].to_pylist()
    assert extra == [[], [("#999", "1")], [("string", '"x"')]]
    framed_ = ProtobufDecoder(protobuf({"int32": "int"}, wire="confluent"))
    head = b"\0\0\0\0\7"
    messages = [head + b"\2\2" + known, head + b"\0" + known, head + b"\2\4" + known, b"\1" + head[1:] + b"\2\2", head]
    assert unsure(framed_, *messages, head + b"\2\2") == [1, 2, 3, 4]  # the second message of its file
    first = ProtobufDecoder(protobuf({}, wire="confluent", message="t.First"))
    assert unsure(first, head + b"\0", head + b"\2\0", head + b"\2\2") == [2]


def test_a_number_that_a_closed_enum_does_not_have_is_an_unknown_field_even_if_another_follows() -> None:
    made = seeds_protobuf.settings((Declared("e", 5, "enum", "t.Colour"),), proto3=False)
    pipeline = compiled(PlainSpec((PlainColumn("c", "string", ("e",)),), unknown="capture", settings=made))
    decoder, good, odd = ProtobufDecoder(pipeline), tagged(5, 0, b"\1"), tagged(5, 0, b"\7")
    assert unsure(decoder, good, odd + good, good + odd) == [1, 2]
    rows = decoder.decode(chunk_of([good, odd + good, good + odd])).table.to_pylist()
    assert [(row["c"], row["_extra"]) for row in rows] == [
        ("GREEN", []),
        ("GREEN", [("#5", "7")]),
        ("GREEN", [("#5", "7")]),
    ]


@pytest.mark.parametrize("levels", [50, 58, 59, 90, 99, 100, 101, 5_000])
def test_deep_protobuf_messages(levels: int) -> None:
    message = b""
    for _ in range(levels):
        message = tagged(203, 2, message)
    pipeline = protobuf({"int32": "int"})
    fast, slow = ProtobufDecoder(pipeline), ProtobufDecoder(pipeline, vectorised=False)
    assert unsure(fast, message) == ([] if levels < 60 else [0])
    assert fast.decode(chunk_of([message])).bad == slow.decode(chunk_of([message])).bad


def test_plans_that_make_no_sense_are_refused(rng: Random) -> None:
    """Each number of them becomes others: what is taken must not hurt, and what points elsewhere is not taken."""
    columns = {"int32": "int", "e": "string", "r_int32": "array<int>", "m": "struct<string:string>", "at": "timestamp"}
    refused, decoder = 0, ProtobufDecoder(protobuf(columns))
    program = decoder._program
    assert program is not None
    library, message = program._library, decoder._type
    messages = [TYPES_OF["proto3"](int32=1, e=1, r_int32=[1], m={"string": "x"}, at={"seconds": 1}).SerializeToString()]
    for _ in range(500):
        plans = _Plans("epoch_ms")
        wanted = [(path, kind, n) for n, (path, kind) in zip(program.nodes, decoder._assembly.targets, strict=True)]
        plans.plan(message, wanted)
        rows = rng.choice((plans._plans, plans._fields, plans._takers))
        at = rng.randrange(len(rows))
        row = list(rows[at] or ())
        row[rng.randrange(len(row))] = rng.choice((-2, -1, 0, 1, 2, 3, 5, 7, 15, 16, 17, 100, 2**31 - 1, -(2**31)))
        rows[at] = tuple(row)  # type: ignore[call-overload]
        made = library.tg_protobuf_new(program._address, *plans.parts([]))
        if not made:
            refused += 1
            continue
        program._handle, own = made, program._handle
        program.run(messages)
        library.tg_protobuf_free(made)
        program._handle = own
    assert refused > 100
