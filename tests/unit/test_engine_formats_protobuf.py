"""Protobuf by docs/types.md: each row of its section, each message between neighbours; bytes written by hand."""

from __future__ import annotations

import base64
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as F
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.engine.failures import JobError
from spark_jobs.engine.formats import Bad, decoder_for
from tests.engine_fixtures import chunk_of
from tests.format_fixtures import Dirty, between, check, spec
from tidegate import descriptors
from tidegate.core.pipeline import Format, ProtobufFormat

KINDS = [
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool"),
    *("string", "bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
]
GOOGLE = ("timestamp", "duration", "wrappers")
WRAPPERS = {"w": "Int32Value", "ws": "StringValue", "wd": "DoubleValue"}
TIMES = {"at": "Timestamp", "took": "Duration"}


def field(message: Any, name: str, kind: str, number: int, label: int = F.LABEL_OPTIONAL, **more: Any) -> None:
    message.field.add(name=name, number=number, label=label, type=getattr(F, f"TYPE_{kind.upper()}"), **more)


def everything(syntax: str) -> str:
    """All kinds: singular at 1.., repeated `r_` at 101.., and what else there is at 201.., in `t.All`."""
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="t", syntax=syntax)
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in GOOGLE)
    kind = file.enum_type.add(name="Kind")
    kind.options.allow_alias = True
    for number, name in ((0, "NONE"), (1, "ONE"), (1, "ALSO_ONE"), (-1, "MINUS")):
        kind.value.add(name=name, number=number)
    file.message_type.add(name="First")
    all_ = file.message_type.add(name="All")
    for number, name in enumerate(KINDS, 1):
        field(all_, name, name, number)
        field(all_, f"r_{name}", name, 100 + number, F.LABEL_REPEATED)
    field(all_, "e", "enum", 201, type_name=".t.Kind")
    field(all_, "es", "enum", 202, F.LABEL_REPEATED, type_name=".t.Kind")
    field(all_, "m", "message", 203, type_name=".t.All")
    field(all_, "ms", "message", 204, F.LABEL_REPEATED, type_name=".t.All")
    for number, (name, word) in enumerate({**WRAPPERS, **TIMES}.items(), 205):
        field(all_, name, "message", number, type_name=f".google.protobuf.{word}")
    for number, (name, key, value) in enumerate((("si", "string", "int32"), ("is", "int64", "string")), 211):
        entry = all_.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        field(entry, "key", key, 1)
        field(entry, "value", value, 2)
        field(all_, name, "message", number, F.LABEL_REPEATED, type_name=f".t.All.{entry.name}")
    all_.oneof_decl.add(name="choice")
    field(all_, "left", "int32", 221, oneof_index=0)
    field(all_, "right", "string", 222, oneof_index=0)
    field(all_, "from", "int32", 223)
    field(all_, "unitPrice", "int32", 224)
    field(all_, "Same", "int32", 225)
    field(all_, "sAme", "int32", 226)
    inner = all_.nested_type.add(name="Inner")
    field(inner, "x", "int32", 1)
    if syntax == "proto3":
        all_.oneof_decl.add(name="_opt")
        field(all_, "opt", "int32", 231, oneof_index=1, proto3_optional=True)
    else:
        strict = file.message_type.add(name="Strict")
        field(strict, "x", "int32", 1, F.LABEL_REQUIRED)
        field(strict, "s", "message", 2, type_name=".t.Strict")
        group = all_.nested_type.add(name="G")
        field(group, "x", "int32", 1)
        field(all_, "g", "group", 232, type_name=".t.All.G")
    return base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()


SETS = {syntax: everything(syntax) for syntax in ("proto2", "proto3")}
TYPES_OF = {syntax: GetMessageClass(descriptors.message_type(text, "t.All")) for syntax, text in SETS.items()}


def decoder(
    columns: dict[str, str],
    syntax: str = "proto3",
    time: str = "",
    form: str = "epoch_ms",
    unknown: str = "ignore",
    wire: str = "plain",
    message: str = "t.All",
):
    settings_ = ProtobufFormat(SETS[syntax], message, wire)
    return decoder_for(spec(Format("protobuf", unknown, protobuf=settings_), columns, time, form))


def varint(n: int) -> bytes:
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def tagged(number: int, wire: int, payload: bytes) -> bytes:
    return varint(number << 3 | wire) + (varint(len(payload)) if wire == 2 else b"") + payload


def put(name: str, value: Any, syntax: str = "proto3") -> bytes:
    """A field by the library: `value` is set, or given to it."""
    return TYPES_OF[syntax](**{name: value}).SerializeToString()


def test_numbers_of_fields():
    number = TYPES_OF["proto3"].DESCRIPTOR.fields_by_name
    assert (number["int32"].number, number["string"].number, number["w"].number) == (5, 9, 205)


INT32, STRING = 5, 9
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
    assert found == Bad("7 is none of the numbers of t.Kind", "c[1]")


def test_groups_and_presence_of_proto2():
    message = tagged(232, 3, tagged(1, 0, b"\x05")) + tagged(232, 4, b"")
    columns = {
        "c": "int from $.int32",
        "g": "int from $.g.x",
        "w": "struct<x:int> from $.g",
        "s": "string from $.string",
    }
    check(decoder(columns, "proto2"), message, b"", {"c": None, "g": 5, "w": {"x": 5}, "s": None})


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
    ("P-enum", "e", 7, "string", Dirty("7 is none of the numbers of t.Kind")),
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
    """As the spec does: tests/unit/test_spec_formats.py."""
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
