"""The C library's reader of CSV: what it is sure of, what it leaves to the row rules, and wrong programs.

Random messages: tests/worker/test_engine_native_wire.py; a checked memory: tests/worker/test_engine_native.py.
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from engine_fixtures import chunk_of

from spark_jobs.engine import native
from spark_jobs.engine.formats.csv_decoder import CsvDecoder
from tests.format_fixtures import spec
from tidegate.core.files import slow_path
from tidegate.core.spec.pipeline import CsvFormat, Format, Pipeline


def csv(
    columns: dict[str, str], fields: tuple[str, ...], unknown: str = "ignore", time: str = "", form: str = "epoch_ms",
    **options: Any,
) -> Pipeline:  # fmt: skip
    return spec(Format("csv", unknown, CsvFormat(fields, **options)), columns, time, form)


def pair(unknown: str = "ignore", **options: Any) -> Pipeline:
    return csv({"a": "string", "n": "int"}, ("a", "n"), unknown, **options)


def read(pipeline: Pipeline, *messages: bytes | None) -> tuple[list[dict], list[int]]:
    """Rows, which are what the row rules say too, and which messages the library was not sure of."""
    fast, slow = CsvDecoder(pipeline), CsvDecoder(pipeline, vectorised=False)
    assert fast._program is not None, native.why_not()
    assert slow._program is None
    one, other = fast.decode(chunk_of(list(messages))), slow.decode(chunk_of(list(messages)))
    assert (one.bad, one.unknown) == (other.bad, other.unknown)
    assert (one.event_ms is None) == (other.event_ms is None)
    rows = one.table.to_pylist()
    for i, row in enumerate(other.table.to_pylist()):
        assert i in one.bad or repr(row) == repr(rows[i])
        assert i in one.bad or one.event_ms is None or one.event_ms[i] == other.event_ms[i]  # type: ignore[index]
    return rows, fast._program.run(list(messages))[1]


FIELDS = ("s", "b", "y", "t", "i", "l", "f", "d", "c", "w", "at")
COLUMNS = {
    "s": "string", "b": "boolean", "y": "binary", "t": "tinyint", "i": "int not null", "l": "bigint", "f": "float",
    "d": "double", "c": "decimal(9,2)", "w": "date", "at": "timestamp",
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "time"),
    [
        ("iso8601", "2013-01-05T04:05:06.5+01:00"),
        ("epoch_ms", "1357358706500"),
        ("%Y-%m-%d %H:%M", "2013-01-05 04:05"),
    ],
)
@pytest.mark.parametrize("quoted", [False, True])
def test_it_is_sure_of_ordinary_messages(quoted: bool, form: str, time: str) -> None:
    pipeline = csv(COLUMNS, FIELDS, time="$.at", form=form)
    values = ["Köln", "true", "aü", "-128", "7", "-0", "1.5", "-0", "1234567.80", "2013-01-05", time]
    message = ",".join(f'"{v}"' if quoted else v for v in values).encode()
    rows, look = read(pipeline, message, message + b"\n", message + b"\r\n")
    assert look == []
    assert len({repr(row) for row in rows}) == 1
    assert repr(rows[0]["d"]) == "-0.0"
    cut = [part for n in range(len(message)) for part in (message[:n], message)]
    rows, look = read(pipeline, *cut)  # nothing of a message that is cut off stays
    assert all(repr(row) == repr(rows[1]) for row in rows[1::2])
    assert not any(i % 2 for i in look)


def test_nulls_quotes_and_escapes() -> None:
    rows, look = read(pair(), b",", b'"",1', b'"a ""b"", c",2', b'"""",3', b'"x\r\ny,\n",4\n', b" x ,-5", b"7,\r\n")
    assert look == []
    assert [(r["a"], r["n"]) for r in rows] == [
        (None, None), ("", 1), ('a "b", c', 2), ('"', 3), ("x\r\ny,\n", 4), (" x ", -5), ("7", None)
    ]  # fmt: skip
    hive = pair(delimiter="\x01", quote=None, escape="\\", null_text="\\N")
    rows, look = read(hive, b"\\N\x01\\N", b"\\\\N\x011", b'a\\\x01"\\\n\x012', b"\x013\n", b"x\x01\\4")
    assert look == []
    assert [(r["a"], r["n"]) for r in rows] == [(None, None), ("\\N", 1), ('a\x01"\n', 2), ("", 3), ("x", 4)]
    both = pair(quote="'", escape="^", null_text="-")
    rows, look = read(both, b"'^'''''^^',1", b"-,-", b"'-',2", b"^-,3", b"'a^\xc3\xbc',4")
    assert look == []
    assert [(r["a"], r["n"]) for r in rows] == [("'''^", 1), (None, None), ("-", 2), ("-", 3), ("aü", 4)]


def test_an_escape_with_nothing_behind_it_is_not_sure() -> None:
    assert read(pair(escape="\\"), b"x,1,\\", b'x,1,"\\', b"x,1,\\\n", b"x,1,\\\\\n")[1] == [0, 1]


@pytest.mark.parametrize(
    "message",
    [
        b"", b"\n", b"\r\n", None, b"x", b"x,1,\n\n", b"x,1\r", b"\nx,1", b"x\r,1", b"\xef\xbb\xbfx,1", b"x,\xff",
        b"x,1,\xc3", b"x,1,\xed\xa0\x80", b'x"y,1', b'"x"y,1', b'"x,1', b'"x""', b'"x"\n,1', b"x,01", b"x,+1", b"x,1 ",
        b"x,2147483648", b'x,""', b"x,1.0", b"x,1e1", b'x,1,"',
    ],
)  # fmt: skip
def test_what_is_no_row_is_not_sure(message: bytes | None) -> None:
    rows, look = read(pair(), b"y,7", message, b"z,8")
    assert look == [1]
    assert (rows[0]["n"], rows[2]["n"]) == (7, 8)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("boolean", "true false", "True true1 tru falsey 1"),
        ("smallint", "-32768 32767 0 -0", "-32769 32768 1x 1.0 1e1 +1 01 - x"),
        ("float", "1 1.5 -1e3 1E-2 3.4e38", "3.5e38 1.5x 1. .5 1e 1e+ +1 01.5 NaN inf 1.5.5"),
        ("double", "1 -0.0 1e308 1e-400", "1e309 1x 1.5e5.5 0x1 1_0"),
        ("decimal(5,2)", "1 -1.50 999.99 1e2", "1000 1.234 1.5x 1.5.5 1x 1e5 1.5e1x"),
        ("date", "2013-01-05", "2013-02-30 2013-1-5 2013-01-05x 20130105 2013-01-05T00:00:00"),
        ("timestamp", "2013-01-05T04:05 1357358706123", "2013-01-05 1357358706123x 1357358706.5 253402300800000 07"),
    ],
)
def test_values_as_they_are_spelled(kind: str, good: str, bad: str) -> None:
    pipeline = csv({"a": kind}, ("a", "b"))
    assert read(pipeline, *(f"{text},x".encode() for text in good.split()))[1] == []
    assert read(pipeline, *(f'"{text}",x'.encode() for text in good.split()))[1] == []
    for text in bad.split():
        assert read(pipeline, f"{text},x".encode(), f'"{text}",x'.encode())[1] == [0, 1]


def test_a_null_where_none_may_be_and_a_time_that_is_missing_are_not_sure() -> None:
    assert read(csv({"a": "string not null"}, ("a",)), b"x", b'""', b"\\")[1] == []
    assert read(csv({"a": "string not null", "b": "int"}, ("a", "b")), b",1", b"x,1")[1] == [0]
    timed = csv({"b": "int"}, ("a", "b"), time="$.a", form="epoch_s")
    assert read(timed, b",1", b"253402300799,1", b"253402300800,1", b"x,1", b"-62135596800,1")[1] == [0, 2, 3]


def test_two_columns_of_one_field() -> None:
    pipeline = csv({"a": "string", "b": "int from $.a", "c": "timestamp from $.a"}, ("a", "_"), time="$.a")
    rows, look = read(pipeline, b"5,", b'"6",x', b"a,b", b"2013-01-05T00:00:00,")
    assert [r["b"] for r in rows[:2]] == [5, 6]
    assert look == [2, 3]


@pytest.mark.parametrize("mark", [",", '"', '""', "\\", "\r\n", "\n", "\r", "ü", ""])
def test_marks_at_every_place_of_a_block(mark: str) -> None:
    for options in ({}, {"escape": "\\"}, {"quote": None}):
        messages = []
        for before in range(0, 34):
            for after in (0, 1, 15, 16, 17):
                text = "x" * before + mark + "y" * after
                messages += [text.encode(), f"{text},1".encode(), f'"{text}",1\n'.encode(), f'"{text}"'.encode()]
        rows, look = read(pair(**options), *messages)
        assert len(look) < len(rows) or mark in ('"', "\n", "\r", "\r\n")


def test_unknown_fields_are_captured_and_told_of_once() -> None:
    pipeline = csv({"n": "int"}, ("a", "n", "_", "b"), "capture")
    messages = [
        b"x,bad,,y",
        b',1,left out,"q""r"',
        b"x,2,,",
        b"x,3,,,4",
        b"x,4,,,5,,\n",
        b"x,5",
        b"x,05,,,,,,new",
        b"x,6,,",
    ]
    rows, look = read(pipeline, *messages)
    assert look == [0, 5, 6]
    assert rows[1]["_extra"] == [("a", None), ("b", 'q"r')]
    assert rows[4]["_extra"] == [("a", "x"), ("b", None), ("#5", "5"), ("#6", None), ("#7", None)]
    decoded = CsvDecoder(pipeline).decode(chunk_of(messages))
    assert decoded.unknown == {"a": (1, ""), "b": (1, 'q"r'), "#5": (3, "4"), "#6": (4, ""), "#7": (4, "")}
    known = CsvDecoder(pipeline, (("b",),))
    assert known.decode(chunk_of([b"x,1,,y"])).table["_extra"].to_pylist() == [[("a", "x")]]


def test_the_first_row_of_an_unknown_field_counts_whoever_read_it() -> None:
    """The library is not sure of the first and the last one, which are rows all the same."""
    pipeline = csv({"n": "int"}, ("t", "n"), "capture", time="$.t", form="%d.%m.%Y %H:%M")
    odd, plain = b"01.02.2013  04:05,", b"01.02.2013 04:05,"
    messages = [odd + b"1,slow", plain + b"1,fast,both", odd + b"1,,slow,last"]
    _, look = read(pipeline, *messages)
    assert look == [0, 2]
    expected = {"#3": (0, "slow"), "#4": (1, "both"), "#5": (2, "last")}
    assert CsvDecoder(pipeline).decode(chunk_of(messages)).unknown == expected


def test_with_fail_an_unknown_field_is_not_sure() -> None:
    assert read(pair("fail"), b"x,1", b"x,2,y")[1] == [1]
    assert read(csv({"a": "string"}, ("a", "_"), "fail"), b"x,2")[1] == []


def test_long_fields_and_many_of_them() -> None:
    inside = b'""' * 100_000
    rows, look = read(pair(), b'"' + inside + b'",1', b"a" * 300_000 + b",2", b"x,3" + b",y" * 100_000)
    assert look == []
    assert rows[0]["a"] == '"' * 100_000


@pytest.mark.parametrize("options", [{"delimiter": "ü"}, {"quote": "“"}, {"escape": "¬"}])
def test_a_mark_of_several_bytes_is_left_to_the_rules(options: dict[str, str]) -> None:
    decoder = CsvDecoder(pair(**options))
    assert decoder._program is None
    message = f"x{options.get('delimiter', ',')}1".encode()
    assert decoder.decode(chunk_of([message])).table.to_pylist() == [{"a": "x", "n": 1}]


def test_a_pattern_that_the_library_does_not_read_is_left_to_the_rules() -> None:
    decoder = CsvDecoder(csv({"n": "int"}, ("t", "n"), time="$.t", form="%d.%m.%y"))
    assert decoder._program is None
    assert decoder.decode(chunk_of([b"05.01.13,1"])).event_ms.to_pylist() == [1_357_344_000_000]  # type: ignore[union-attr]


@pytest.mark.parametrize("delimiter", [*"1.e-+T", "\x7f", " "])
def test_a_delimiter_that_could_be_part_of_a_number_is_none(delimiter: str) -> None:
    pipeline = csv({"a": "double", "b": "decimal(5,2)", "c": "int"}, ("a", "b", "c"), delimiter=delimiter)
    read(
        pipeline, *(delimiter.join(parts).encode() for parts in (("2", "3", "4"), ("-2.5", "3.1", "4"), ("", "", "1")))
    )


def timed(form: str) -> Pipeline:
    return csv({"n": "int"}, ("a", "n"), time="$.a", form=form)


@pytest.mark.parametrize(
    ("reason", "pipeline", "plain", "odd"),
    [
        (slow_path.DIRTY, pair(), b"x,1", b"x"),
        (slow_path.DIRTY, pair(), b"x,1", None),
        (slow_path.DIRTY, pair(), b"x,1", b"x,1.5"),
        (slow_path.UNKNOWN, pair("fail"), b"x,1", b"x,1,y"),
        (slow_path.NUMBER, csv({"a": "double"}, ("a", "n")), b"1.5,1", b"0.%s,1" % (b"1" * 900)),
        (slow_path.TIME, timed("%Y-%m-%d %H:%M"), b"2013-01-05 04:05,1", b"2013-01-05  04:05,1"),
        (slow_path.TIME, timed("%y-%m-%d"), None, b"13-01-05,1"),
        (slow_path.SCHEMA, pair(escape="¬"), None, b"x,1"),
    ],
)
def test_messages_on_the_slow_path_are_counted(
    reason: str, pipeline: Pipeline, plain: bytes | None, odd: bytes | None
) -> None:
    decoded = CsvDecoder(pipeline).decode(chunk_of([odd, odd] if plain is None else [plain, odd, plain, odd]))
    assert decoded.slow.messages == {reason: 2}
    assert bool(decoded.bad) == (reason == slow_path.DIRTY)


GOOD = [44, 34, -1, 0, 0], [0, 1, 0, -1, 1, 1, 0, -1], [1, 2]


@pytest.mark.parametrize(
    ("about", "positions", "takers"),
    [
        ([44, 44, -1, 0, 0], *GOOD[1:]),  # one mark twice
        ([-1, 34, -1, 0, 0], *GOOD[1:]),
        ([44, 0, -1, 0, 0], *GOOD[1:]),
        ([44, 34, 200, 0, 0], *GOOD[1:]),
        ([44, 34, 10, 0, 0], *GOOD[1:]),
        ([44, 34, -1, 1, 0], *GOOD[1:]),  # a longer text for null than the names
        (GOOD[0], [0, 1, 0, -1, 0, 1, 0, -1], GOOD[2]),  # not in their order
        (GOOD[0], [0, 1, 0, -1, 1, 2, 0, -1], GOOD[2]),
        (GOOD[0], [0, 1, 0, -2, 1, 1, 0, -1], GOOD[2]),
        (GOOD[0], [0, 1, 0, 1, 1, 1, 0, -1], GOOD[2]),  # a name that is not there
        (*GOOD[:2], [1, 1]),  # a column twice
        (*GOOD[:2], [1, 3]),
        (*GOOD[:2], [0, 1]),
    ],
)
def test_a_program_that_makes_no_sense_is_refused(about: list[int], positions: list[int], takers: list[int]) -> None:
    program = CsvDecoder(pair())._program
    assert program is not None

    def new(*parts: list[int]) -> int | None:
        one, two, three = (array("i", part) for part in parts)
        places = one.buffer_info()[0], two.buffer_info()[0], len(two) // 4, three.buffer_info()[0]
        return program._library.tg_csv_new(program._address, *places, len(three), b"", 0)

    assert new(about, positions, takers) is None
    made = new(*GOOD)
    assert made
    program._library.tg_csv_free(made)


def test_without_the_library_and_with_one_that_knows_no_csv_the_rules_read(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = CsvDecoder(pair()).decode(chunk_of([b"x,1", b"x"]))
    monkeypatch.setattr(native, "_asked", False)
    for name, other in (("_load", lambda: "it was not built"), ("CSV", "tg_of_another_library")):
        with monkeypatch.context() as patched:
            patched.setattr(native, name, other)
            decoder = CsvDecoder(pair())
        assert decoder._program is None
        assert decoder.decode(chunk_of([b"x,1", b"x"])).table.equals(expected.table)
