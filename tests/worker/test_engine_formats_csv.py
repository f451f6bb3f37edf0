"""CSV by docs/types.md: each row of its section, each message between neighbours."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.formats import Bad
from spark_jobs.engine.formats.csv_decoder import Cutter
from spark_jobs.engine.formats.text_columns import TextColumn
from spark_jobs.engine.strict import Unfit
from spark_jobs.engine.text_rules import convert_text, text_event_ms
from tests.engine_fixtures import chunk_of
from tests.format_fixtures import Dirty, between, check, rows_of, spec
from tidegate.core.base.hivetypes import parse
from tidegate.core.spec.pipeline import CsvFormat, Format

PAIR = {"a": "string", "c": "string"}


def csv(columns: dict[str, str] = PAIR, fields: tuple[str, ...] = (), unknown: str = "ignore", **options: object):
    return spec(Format("csv", unknown, CsvFormat(fields or tuple(columns), **options)), columns)  # type: ignore[arg-type]


MESSAGES = [
    ("C-message-record", b"x,y", {"a": "x", "c": "y"}),
    ("C-message-record", b'"x","y"', {"a": "x", "c": "y"}),
    ("C-message-tombstone", None, Dirty("tombstone")),
    ("C-message-empty", b"", Dirty("empty message")),
    ("C-message-empty", b"\n", Dirty("empty message")),
    ("C-message-empty", b"\r\n", Dirty("empty message")),
    ("C-message-utf8", b"x,\xff", Dirty("invalid UTF-8 at byte 2")),
    ("C-message-utf8", b"\xed\xa0\x80,y", Dirty("invalid UTF-8 at byte 0")),
    ("C-message-bom", b"\xef\xbb\xbfx,y", Dirty("byte order mark")),
    ("C-message-bom", b"x,\xef\xbb\xbfy", "\ufeffy"),
    ("C-message-line", b"x,y\n", "y"),
    ("C-message-line", b"x,y\r\n", "y"),
    ("C-message-line", b'x,"y"\r\n', "y"),
    ("C-message-lines", b"x,y\nz,w", Dirty("line break that is not quoted")),
    ("C-message-lines", b"x,y\n\n", Dirty("line break that is not quoted")),
    ("C-message-lines", b"x,y\r", Dirty("line break that is not quoted")),
    ("C-message-lines", b"\nx,y", Dirty("line break that is not quoted")),
    ("C-message-lines", b"x\r,y", Dirty("line break that is not quoted")),
    ("C-message-lines", b'x,"y"\nz', Dirty("line break")),
    ("C-message-quote", b'x,y"z', Dirty("field 2: a quote within a field")),
    ("C-message-quote", b'x, "y"', Dirty("a quote within a field")),
    ("C-message-quote", b'x,"y', Dirty("field 2: a quote that is not closed")),
    ("C-message-quote", b'x,"y""', Dirty("not closed")),
    ("C-message-quote", b'"x"y,z', Dirty("field 1: 'y' after the closing quote")),
    ("C-message-quote", b'"x" ,y', Dirty("' ' after the closing quote")),
    ("C-message-few", b"x", Dirty("1 fields instead of 2")),
    ("C-message-many", b"x,y,z", {"a": "x", "c": "y"}),
    ("C-message-many", b"x,y,", {"a": "x", "c": "y"}),
    ("C-message-control", b"x,\x00\x1b", "\x00\x1b"),
    ("C-message-control", "x,\u2028\x85\x0b\x0c".encode(), "\u2028\x85\x0b\x0c"),
    ("C-field-null", b"x,", None),
    ("C-field-null", b",", {"a": None, "c": None}),
    ("C-field-empty", b'x,""', ""),
    ("C-field-quoted", b'x,"a,b"', "a,b"),
    ("C-field-quoted", b'x,"a""b"', 'a"b'),
    ("C-field-quoted", b'x,""""', '"'),
    ("C-field-quoted", b'"a\r\nb","\n"\n', {"a": "a\r\nb", "c": "\n"}),
    ("C-field-space", b" x , y ", {"a": " x ", "c": " y "}),
    ("C-field-space", b" ,\t", {"a": " ", "c": "\t"}),
]


@pytest.mark.parametrize(("row", "message", "expected"), MESSAGES)
def test_messages(row, message, expected):
    check(decoder_for(csv()), message, b'"one\n","two"', expected)


ESCAPED = {"escape": "\\", "null_text": "\\N"}


@pytest.mark.parametrize(
    ("row", "message", "expected"),
    [
        ("C-field-null", rb"x,\N", None),
        ("C-field-quoted", rb'x,"\N"', "N"),
        ("C-field-empty", b"x,", ""),
        ("C-message-record", rb"x,a\,b", "a,b"),
        ("C-message-record", rb"x,a\\", "a\\"),
        ("C-message-record", rb"x,\"a", '"a'),
        ("C-message-record", rb'x,"a\"b""c\\"', 'a"b"c\\'),
        ("C-message-record", rb'x,"a\""', 'a"'),
        ("C-message-lines", b"x,a\\\nb", "a\nb"),
        ("C-message-escape", b"x,a\\", Dirty("an escape with nothing after it")),
        ("C-message-quote", b'x,"a\\"', Dirty("not closed")),
    ],
)
def test_escapes(row, message, expected):
    check(decoder_for(csv(**ESCAPED)), message, b"one,two", expected)


def test_without_a_quote_it_is_a_character_and_any_delimiter_will_do():
    check(decoder_for(csv(quote=None, delimiter="\t")), b'"x\t"y,z', b"1\t2", {"a": '"x', "c": '"y,z'})
    check(decoder_for(csv(delimiter="|")), b'x|"a|b"', b"1|2", "a|b")
    check(decoder_for(csv(delimiter="^", quote="]", escape="-")), b"a-^b^]c]]d-]]", b"1^2", {"a": "a^b", "c": "c]d]"})


TYPES = [
    ("C-boolean", "boolean", "true", True),
    ("C-boolean", "boolean", "1", Dirty("expected true or false")),
    ("C-integer", "int", "-7", -7),
    ("C-integer", "int", "007", Dirty("expected an integer")),
    ("C-integer", "tinyint", "128", Dirty("does not fit in 8 bits")),
    ("C-field-empty", "int", '""', Dirty("expected an integer, got ''")),
    ("C-float", "double", "1.5", 1.5),
    ("C-float", "double", "-0", -0.0),
    ("C-float", "float", "1e39", Dirty("not a finite float")),
    ("C-decimal", "decimal(5,2)", "1.230", Decimal("1.23")),
    ("C-decimal", "decimal(5,2)", "1.234", Dirty("more than 2 digits")),
    ("C-string", "string", "x", "x"),
    ("C-binary", "binary", "aü", "aü".encode()),
    ("C-date", "date", "2013-01-05", date(2013, 1, 5)),
    ("C-date", "date", "2013-02-30", Dirty("is no date")),
    ("C-timestamp", "timestamp", "2013-01-05T04:05:06.5Z", datetime(2013, 1, 5, 4, 5, 6, 500_000, UTC)),
    ("C-timestamp", "timestamp", "1357358706123", datetime(2013, 1, 5, 4, 5, 6, 123_000, UTC)),
    ("C-timestamp", "timestamp", "2013-01-05", Dirty("ISO 8601")),
]


@pytest.mark.parametrize(("row", "kind", "text", "expected"), TYPES)
def test_types(row, kind, text, expected):
    decoder = decoder_for(csv({"a": "string", "c": kind}))
    found, _ = between(decoder, f"x,{text}".encode(), b"y,")
    if isinstance(expected, Dirty):
        assert isinstance(found, Bad)
        assert found.field == "c"
        assert expected in found.reason
    else:
        value = found["c"].replace(tzinfo=UTC) if isinstance(expected, datetime) else found["c"]
        assert repr(value) == repr(expected.quantize(value) if isinstance(expected, Decimal) else expected)


@pytest.mark.parametrize("row", ["C-nested", "T-nested"])
def test_there_is_no_text_of_nested_types(row):
    with pytest.raises(Unfit, match="a text cannot be array<int>"):
        convert_text("[1]", parse("array<int>"))
    with pytest.raises(JobError, match=r"\$\.c\.d is not among format.fields"):
        decoder_for(csv({"a": "string", "c": "string from $.c.d"}, ("a", "c")))


@pytest.mark.parametrize(
    ("row", "form", "text", "expected"),
    [
        ("C-time", "epoch_ms", "1357358706123", 1357358706123),
        ("T-time", "epoch_s", "1357358706", 1357358706000),
        ("T-time", "epoch_us", "-1", -1),
        ("T-time", "epoch_ns", "1357358706123999999", 1357358706123),
        ("T-time", "iso8601", "2013-01-05T04:05:06.123999+01:00", 1357355106123),
        ("T-time", "iso8601", "1969-12-31T23:59:59.9995Z", -1),
        ("T-time", "%d.%m.%Y %H:%M", "05.01.2013 04:05", 1357358700000),
        ("T-time", "epoch_ms", "1.5", None),
        ("T-time", "epoch_ms", "007", None),
        ("T-time", "epoch_s", "253402300800", None),
        ("T-time", "iso8601", "1357358706123", None),
        ("C-time", "epoch_ms", "", None),
    ],
)
def test_event_times(row, form, text, expected):
    made = spec(Format("csv", csv=CsvFormat(("c", "at"))), {"c": "string"}, "$.at", form)
    good = {"epoch_ms": "1"}.get(form, "0") if form.startswith("epoch") else {"iso8601": "2013-01-05T00:00Z"}.get(form)
    decoded = rows_of(made, [f"x,{good or '05.01.2013 04:05'}".encode(), f"y,{text}".encode()])
    assert 0 not in decoded.bad
    assert decoded.event_ms[1].as_py() == expected
    assert (decoded.bad[1].field == "$.at") if expected is None else not decoded.bad


@pytest.mark.parametrize("row", ["C-unknown-ignore", "C-unknown-capture", "C-unknown-fail"])
def test_unknown_fields(row):
    policy = row.rpartition("-")[2]
    made = csv({"c": "int"}, ("_", "c", "kept", "_"), policy)
    decoded = rows_of(made, [b"0,1,k,0", b'0,2,,0,"a,b",', b"0,x,k,0"])
    if policy == "ignore":
        assert decoded.unknown == {}
        assert decoded.table.column_names == ["c"]
        return
    assert decoded.unknown == {"kept": (0, "k"), "#5": (1, "a,b"), "#6": (1, "")}
    if policy == "capture":
        extra = decoded.table["_extra"].to_pylist()
        assert extra[:2] == [[("kept", "k")], [("kept", None), ("#5", "a,b"), ("#6", None)]]


def test_the_first_reason_in_the_order_of_the_columns_counts_and_the_message_comes_before():
    made = csv({"a": "int not null", "b": "int", "c": "int not null"})
    decoded = rows_of(made, [b",x,", b"1,x,", b"1,1,", b"x,x", b"y,,", b"1,,1"])
    assert [(i, decoded.bad[i].field) for i in sorted(decoded.bad)] == [(0, "a"), (1, "b"), (2, "c"), (3, ""), (4, "a")]


TEXTS = st.one_of(
    st.text(max_size=6),
    st.text("0123456789-+.eE", max_size=24),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.dates().map(str),
    st.datetimes().map(lambda d: d.isoformat()),
    st.datetimes().map(lambda d: f"{d} +02:00".replace(" +", "+")),
    st.from_regex(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9])?(\.[0-9]{1,9})?Z?", fullmatch=True
    ),
    st.sampled_from(["true", "false", "TRUE", "0", "-0", "NaN", "inf", "0000-01-01", "0x1F", " 1", "1_000", "٣"]),
    st.none(),
)
KINDS = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(3,3)"),
    *("decimal(38,0)", "string", "binary", "date", "timestamp", "epoch_s", "epoch_ms", "epoch_us", "iso8601"),
)


EDGES = [
    *(
        "true",
        "false",
        "TRUE",
        "0",
        "-0",
        "00",
        "-00",
        "+1",
        " 1",
        "1 ",
        "1_000",
        "0x1F",
        "٣",
        "NaN",
        "inf",
        "-inf",
        "1.",
        ".5",
    ),
    *("127", "128", "-128", "-129", "32767", "32768", "2147483647", "2147483648", "9223372036854775807"),
    *(
        "9223372036854775808",
        "-9223372036854775808",
        "1" * 40,
        "999.99",
        "1000",
        "0.001",
        "1e2",
        "1E+2",
        "1e-2",
        "1e999",
    ),
    *("1e39", "1e-400", "3.4028235e38", "0.1", "123456789012345678.9", "0000-01-01", "0001-01-01", "9999-12-31"),
    *("2013-02-29", "2012-02-29", "0000-01-01T00:00:00", "0001-01-01T00:00:00Z", "2013-01-05 23:59:59.999999"),
    *("2013-01-05T24:00:00", "2013-01-05T23:59:60", "2013-01-05T04:05:06.1234567Z", "2013-01-05T04:05:06ZZ"),
    *("1969-12-31T23:59:59.9995Z", "2013-01-05T04:05:06+02:00", "1357358706123", "253402300799999", "253402300800000"),
    *("-62135596800000", "-62135596800001", "253402300799", "253402300800", "", "\x00", "2013-01-05T04:05:06"),
]


def agree(name: str, texts: list[str | None]) -> None:
    event = name.startswith(("epoch", "iso"))
    kind = None if event else parse(name)
    column, refused = TextColumn(kind, name).convert(texts)
    for i, text in enumerate(texts):
        try:
            expected = None if text is None else text_event_ms(text, name) if event else convert_text(text, kind)
        except Unfit:
            assert i in refused, (name, text)
            assert column[i].as_py() is None
            continue
        assert i not in refused, (name, text)
        assert repr(column[i].as_py()) == repr(pa.array([expected], column.type)[0].as_py()), (name, text)


@pytest.mark.parametrize("name", KINDS)
def test_the_vectorised_columns_agree_with_the_rules_at_the_edges(name):
    for text in EDGES:
        agree(name, [None, text, None])  # a text that Arrow does not take at all would hide its neighbours
    agree(name, [*EDGES, None])


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(KINDS), st.lists(TEXTS, min_size=1, max_size=6))
def test_the_vectorised_columns_agree_with_the_rules(name, texts):
    agree(name, texts)


FIELDS = st.lists(st.text(st.sampled_from('ab,;"\\\r\n \u00fc'), max_size=5), min_size=1, max_size=4)


@settings(max_examples=80, deadline=None)
@given(FIELDS, st.booleans(), st.sampled_from(["", "\n", "\r\n"]))
def test_what_is_written_comes_back(fields, escape, end):
    """Quoted with doubled quotes, or unquoted with escapes: any text survives."""
    cutter = Cutter(CsvFormat(("x",), escape="\\", null_text="<null>"))
    if escape:
        written = ",".join("".join(f"\\{c}" if c in ',"\\\r\n' else c for c in f) for f in fields)
    else:
        written = ",".join('"' + f.replace("\\", "\\\\").replace('"', '""') + '"' for f in fields)
    if escape and not written:
        return
    assert cutter.fields((written + end).encode()) == fields


@settings(max_examples=80, deadline=None)
@given(st.lists(st.binary(max_size=12) | st.text('a,"\n\\', max_size=12).map(str.encode), max_size=8))
def test_whatever_comes_rows_stay_in_their_places(messages):
    decoder = decoder_for(csv({"a": "string", "n": "int"}))
    chunk = [m for pair in zip(messages, [b"%d,%d" % (i, i) for i in range(len(messages))], strict=True) for m in pair]
    decoded = decoder.decode(chunk_of(chunk))
    assert decoded.table["n"].to_pylist()[1::2] == list(range(len(messages)))
    assert not any(i % 2 for i in decoded.bad)


def test_a_long_field_that_is_not_closed_costs_no_more_than_its_length():
    for message in (b'x,"' + b"a" * 200_000, b'x,"' + b'""' * 100_000, b'x,"' + b'\\"' * 100_000):
        for options in ({}, ESCAPED):
            assert 0 in rows_of(csv(**options), [message]).bad
