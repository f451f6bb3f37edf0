"""The C library that decodes JSON: against the row rules, at its limits, and with a checked memory."""

from __future__ import annotations

import json
import math
import random
import re
import struct
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from engine_fixtures import chunk_of, pipeline

from spark_jobs.engine import native
from spark_jobs.engine.formats import json_decoder, json_program
from spark_jobs.engine.formats.json_decoder import JsonDecoder
from spark_jobs.engine.formats.json_program import Program, is_plain, unreadable
from spark_jobs.engine.formats.json_rows import MAX_DEPTH, RowRules
from tests.json_differential import CASES, compare, messages, spec_of
from tidegate.core.spec.pipeline import Column, EventTime, Format, Pipeline

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "spark_jobs/engine/native"


def spec(*columns: Column, unknown: str = "ignore") -> Pipeline:
    base = pipeline("/nowhere")
    return replace(
        base, columns=columns, event_time=EventTime(None), format=Format("json", unknown), partition_by=("date",)
    )


def run(of: Pipeline, *values: bytes | None):
    """What the library itself says: the rows, and which messages it is not sure of."""
    library = native.library()
    assert library is not None, native.why_not()
    batch, look = Program(library, of).run(values)
    batch.validate(full=True)
    return batch.to_pylist(), look


def sure(of: Pipeline, *values: bytes) -> list[dict]:
    """Rows of messages that the library takes, which are what the row rules say too."""
    rows, look = run(of, *values)
    assert look == []
    for value, row in zip(values, rows, strict=True):
        assert repr(JsonDecoder(of, vectorised=False).decode(chunk_of([value])).table.to_pylist()[0]) == repr(row)
    return rows


def test_the_library_is_built_from_these_sources() -> None:
    assert native.why_not() == ""
    header = (SOURCES / "json_native.h").read_text()
    for name, value in {"VERSION": native.VERSION, "PADDING": native.PADDING, "MAX_DEPTH": MAX_DEPTH}.items():
        assert f"#define TG_{name} {value} " in header
    files = [p for p in SOURCES.iterdir() if p.suffix in (".c", ".h")]
    assert {p.name: n for p in files if (n := len(p.read_text().splitlines())) > 400} == {}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_what_the_library_takes_is_what_the_row_rules_say(name: str, version: int, rng: random.Random) -> None:
    found = compare(name, rng.randrange(2**32), 700, version=version)
    assert min(found["sure"], found["not sure, dirty"]) > 30, dict(found)  # both sides were looked at


@pytest.mark.parametrize("name", CASES)
def test_it_is_sure_of_ordinary_messages(name: str, rng: random.Random) -> None:
    """A library that is never sure would be right, and of no use."""
    rules, taken, rows = RowRules(spec_of(name)), 0, 0
    for message in messages(name, rng, 400):
        if not isinstance(rules.read(message), json_decoder.Bad):
            rows += 1
            taken += not run(spec_of(name), message)[1]
    assert taken > rows / 3  # many are spelled in odd ways


FLOATS = """0.1 0.2 0.3 1e22 1e23 1e-22 1e-23 9007199254740993 9007199254740995 4503599627370496.5 4503599627370497.5
    1.7976931348623157e308 1.7976931348623158e308 2.2250738585072014e-308 2.2250738585072011e-308 5e-324 2.5e-324
    2.4e-324 1e-400 -1e-400 0e9 -0 -0.0 8.98846567431158e307
    123456789012345678 1234567890123456789 9999999999999999999 0.1234567890123456789
    1.00000000000000011102230246251565404236316680908203125 1.00000000000000011102230246251565404236316680908203124
    1.00000000000000011102230246251565404236316680908203126 7.2057594037927933e16 18014398509481985 36028797018963969
    7498340508754701484e-27 3482006258135674425e-27
    5338889191066296056e-27 1440210259444901790e-27
    0.000000000000000000000000001 123456789e-27 1234567890123456789e-27 1234567890123456789e27 18446744073709551615e0"""


def test_doubles_are_rounded_as_python_does(rng: random.Random) -> None:
    texts = FLOATS.split()
    for _ in range(20_000):
        texts.append(repr(struct.unpack("d", rng.randbytes(8))[0]))  # 17 digits, any exponent
        texts.append(f"{rng.randrange(10 ** rng.randrange(1, 25))}e{rng.randrange(-40, 40)}")
        texts.append(f"{rng.randrange(10**18, 10**19)}e-27")  # divided: often a little more than half way
        texts.append(f"{rng.randrange(10**18, 10**19)}e-26")
        near = rng.randrange(1 << 53, 1 << 54) + 0.5  # half way between two doubles, and next to it
        texts.append(f"{int(near)}{rng.choice(['', '.5', '.49999999999999999999', '.50000000000000000001'])}")
    texts = [t for t in texts if t not in ("nan", "inf", "-inf")]
    rows, look = run(spec(Column(name="c", type="double", path="$.c")), *(b'{"c":%s}' % t.encode() for t in texts))
    assert look == []
    for text, row in zip(texts, rows, strict=True):
        assert struct.pack("d", row["c"]) == struct.pack("d", float(text)), text


def test_floats_are_the_nearest_of_the_nearest_double(rng: random.Random) -> None:
    texts = [f"{rng.uniform(-2, 2) * 2.0 ** rng.randrange(-150, 127):.17g}" for _ in range(3_000)]
    texts += ["16777217", "3.4028235e38", "3.4028235677973366e38", "1.401298464324817e-45", "7e-46"]
    of = spec(Column(name="c", type="float", path="$.c"))
    rows, look = run(of, *(b'{"c":%s}' % t.encode() for t in texts))
    for i, text in enumerate(texts):
        expected = struct.unpack("f", struct.pack("f", float(text)))[0]
        assert (i in look) == math.isinf(expected), text
        assert i in look or struct.pack("d", rows[i]["c"]) == struct.pack("d", expected), text


def _nested(levels: int, end: str = "1") -> str:
    opened = "".join('{"k":' if i % 3 == 1 else "[" for i in range(levels))
    closed = "".join("}" if i % 3 == 1 else "]" for i in reversed(range(levels)))
    return opened + end + closed


@pytest.mark.parametrize("vectorised", [True, False], ids=["vectorised", "rows"])
@pytest.mark.parametrize("place", ['{"z":%s,"c":[1]}', '{"a":{"z":%s},"c":[1]}', '{"c":[1],"z":%s}'])
def test_five_hundred_levels_and_not_one_more(place: str, vectorised: bool) -> None:
    inside = place.index("%s")
    around = place[:inside].count("{") - place[:inside].count("}")
    fits, not_quite, brackets = (
        (place % text).encode()
        for text in (
            _nested(500 - around, r'"\u00e9[[{"'), _nested(501 - around), json.dumps("[" * 600 + r"\"[{")
        )
    )  # fmt: skip
    of = spec(
        Column(name="c", type="array<int>", path="$.c"), Column(name="b", type="int", path="$.a.b"), unknown="capture"
    )
    decoded = JsonDecoder(of, vectorised=vectorised).decode(chunk_of([fits, not_quite, brackets, b"[" * 100_000]))
    assert {i: why.reason for i, why in decoded.bad.items()} == {1: "nested too deeply", 3: "nested too deeply"}
    assert [decoded.table["c"][i].as_py() for i in (0, 2)] == [[1], [1]]
    if vectorised:
        assert run(of, fits, not_quite, brackets)[1] == [1]


@pytest.mark.parametrize("vectorised", [True, False], ids=["vectorised", "rows"])
def test_a_path_ends_where_messages_end(vectorised: bool) -> None:
    for levels, dirty in ((499, False), (500, True)):
        of = spec(Column(name="c", type="array<int>", path="$" + ".k" * levels))
        message = b'{"k":' * levels + b"[7]" + b"}" * levels
        decoded = JsonDecoder(of, vectorised=vectorised).decode(chunk_of([message]))
        assert bool(decoded.bad) == dirty
        assert dirty or decoded.table["c"][0].as_py() == [7]


def test_a_column_may_be_as_deep_as_a_message() -> None:
    """Deeper types than the library reads come as text."""
    kind = "array<" * 40 + "int" + ">" * 40
    of = spec(Column(name="c", type=kind, path="$.c"))
    assert unreadable(of) == ["c"]
    message = b'{"c":' + b"[" * 40 + b"7" + b"]" * 40 + b"}"
    decoded = JsonDecoder(of).decode(chunk_of([message, message.replace(b"7", b'"7"')]))
    assert json.dumps(decoded.table["c"][0].as_py()) == "[" * 40 + "7" + "]" * 40
    assert decoded.bad[1].reason == "expected an integer, got a string"


KEYS = [
    (b'{"c":1,"c":2}', None),
    (b'{"c":1,"\\u0063":2}', None),
    (b'{"\\u0063":1}', 1),
    (b'{"\\u0063":1,"\\u0063":1}', None),
    (b'{"d":0,"\\u0063":7}', 7),
    (b'{"d\\"":0,"\\u0063":7,"d":1,"c\\":1}":2}', 7),
    (b'{"\\u0000":1,"c":2}', 2),
    (b'{"\\u0000":1,"c":2,"\\u0000":3}', None),
    (b'{"":1,"c":2}', 2),
    (b'{"":1,"c":2,"":3}', None),
    (b'{"C":1}', "null"),
    (b'{"c ":1,"c":5}', 5),
    (b'{"c\\"":1,"c":5,"c\\\\":2}', 5),
    (b'{"c"":1}', None),
    (b'{"a":{"b":1,"b":1}}', None),
    (b'{"a":{"b":1,"q":1,"q":2}}', None),
    (b'{"z":{"b":1,"b":1},"c":3}', 3),
    (b'{"a":null,"a":null}', None),
    (b"{" + b",".join(b'"k%d":1' % i for i in range(64)) + b',"c":4}', 4),
    (b"{" + b",".join(b'"k%d":1' % i for i in range(1900)) + b',"c":4}', 4),
    (b"{" + b",".join(b'"k%d":1' % i for i in range(1900)) + b',"c":4,"k1899":1}', None),
    (b"{" + b",".join(b'"k%d":1' % i for i in range(9000)) + b',"c":4}', 4),
    (b"{" + b",".join(b'"k%d":1' % i for i in range(300)) + b',"c":4,"k3":1}', None),
    (b'{"' + b"k" * 70_000 + b'":1,"c":4}', 4),
    (b'{"' + b"k" * 70_000 + b'":1,"c":4,"' + b"k" * 70_000 + b'":1}', None),
    (b'{"' + b"\\u00e9" * 300 + b'":1,"c":4}', 4),
]


@pytest.mark.parametrize("unknown", ["ignore", "capture"])
def test_keys(unknown: str) -> None:
    """In one chunk, in any order: what an object looked like before is only a guess about the next one."""
    of = spec(Column(name="c", type="int", path="$.c"), Column(name="b", type="int", path="$.a.b"), unknown=unknown)
    fast, slow = JsonDecoder(of), JsonDecoder(of, vectorised=False)
    for order in (KEYS, KEYS[::-1], KEYS[::2] + KEYS[1::2] + KEYS):
        decoded = fast.decode(chunk_of([message for message, _ in order]))
        same = slow.decode(chunk_of([message for message, _ in order]))
        assert decoded.bad == same.bad
        assert decoded.unknown == same.unknown
        for i, (message, expected) in enumerate(order):
            if expected is None:
                assert i in decoded.bad, message[:80]
            else:
                assert i not in decoded.bad, message[:80]
                assert decoded.table.slice(i, 1).to_pylist() == same.table.slice(i, 1).to_pylist()
                assert decoded.table["c"][i].as_py() == (None if expected == "null" else expected)


def test_a_key_is_not_taken_for_another_that_begins_alike() -> None:
    names = [b"k" * n for n in range(1, 40)]
    of = spec(*(Column(name=f"c{len(n)}", type="int", path=f"$.{n.decode()}") for n in names))
    whole = b"{" + b",".join(b'"%s":%d' % (n, len(n)) for n in names) + b"}"
    some = b"{" + b",".join(b'"%s":%d' % (n, len(n)) for n in names[::3]) + b"}"
    rows = sure(of, whole, some, whole, some[:-1] + b"}" + b" " * 40)
    assert rows[0] == rows[2] == {f"c{len(n)}": len(n) for n in names}
    assert rows[1] == rows[3] == {f"c{len(n)}": len(n) if n in names[::3] else None for n in names}


def test_strings_of_every_length_and_alignment() -> None:
    texts = [("x" * n)[: n - 1] + end for n in range(1, 70) for end in ("x", "é", "日", "😀", '"', "\\", "\n", "\x7f")]
    of = spec(Column(name="c", type="string", path="$.c"))
    plain = [json.dumps({"c": t}, ensure_ascii=False).encode() for t in texts]
    assert [row["c"] for row in sure(of, *plain)] == texts
    escaped = [json.dumps({"c": t}).encode() for t in texts]
    assert [row["c"] for row in sure(of, *escaped)] == texts
    for bad in (
        b"\xc3",
        b"\x80",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe9",
        b"\x1f",
        b"\x00",
        b"\\x",
        b"\\u12",
    ):
        damaged = [b'{"c":"' + b"x" * n + bad + b'"}' for n in range(40)]
        assert run(of, *damaged)[1] == list(range(40))
        nobody_looks = [b'{"z":"' + b"x" * n + bad + b'","c":"y"}' for n in range(40)]
        assert run(of, *nobody_looks)[1] == list(range(40))


PATTERNS = [
    "%Y-%m-%d %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%Y%m%d%H%M%S",
    "%Y/%m/%dT%H:%M:%S.%f%z",
    "[%d-%m-%YZ%H]",
    "%d/%b/%Y:%H:%M:%S %z",
    "%A, %d. %B %Y %H:%M",
    "%a%b %d %Y%H:%M %S",
    "%d%f%z%Y",
]
NOT_PLAIN = [
    *("%Y-%m", "%H:%M", "%y-%m-%d", "%d %b %m %Y", "%Y-%m-%d %Y", "%Y-%j", "%I:%M %p %d %b %Y"),
    *(f"%Y-%m-%d{end}" for end in ("  %H", "\t%H", " %f%H", "%", " %z %H", " é", " %%", '"', "\\", " %f9")),
]


def test_patterns_that_the_library_reads() -> None:
    assert [is_plain(p) for p in PATTERNS] == [True] * 8 + [False]
    assert not any(map(is_plain, NOT_PLAIN))


def test_names_of_another_language_are_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_program.calendar, "month_abbr", ["", "janv.", *json_program.calendar.month_abbr[2:]])
    assert not is_plain("%d %b %Y")
    assert is_plain("%d.%m.%Y")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_event_times_by_a_pattern(pattern: str, rng: random.Random) -> None:
    """Whole ones, and what is nearly one: each by both."""
    of = replace(spec(Column(name="c", type="int", path="$.c")), event_time=EventTime("$.t", pattern))
    texts = []
    for _ in range(1_500):
        moment = datetime(1, 1, 1, tzinfo=timezone(timedelta(minutes=rng.randrange(-1439, 1440))))
        moment += timedelta(days=rng.randrange(2, 3_652_050), microseconds=rng.randrange(86_400_000_000))
        text = moment.strftime(pattern.replace("%Y", f"{moment.year:04d}"))
        if rng.random() < 0.2:
            text = re.sub(rng.choice([r"\b0", r" 0", r"0"]), rng.choice(["", " ", "  "]), text)
        text = rng.choice([text, text, text, text.upper(), text.swapcase()])
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            at = rng.randrange(len(text) + 1)
            odd = rng.choice(["", "0", "9", " ", ":", "Z", "/", "+", "٣", "ſ", "a"])
            text = text[:at] + odd + text[at + rng.randrange(2) :]
        texts.append(text)
    values = [json.dumps({"t": t}).replace("/", rng.choice(["/", "\\/"])).encode() for t in texts]
    fast, slow = (JsonDecoder(of, vectorised=v).decode(chunk_of(values)) for v in (True, False))
    assert fast.bad == slow.bad
    assert fast.event_ms.equals(slow.event_ms)
    if is_plain(pattern):
        assert 500 < len(values) - len(run(of, *values)[1]) <= len(values) - len(slow.bad)


def test_captured_values_are_spelled_as_the_row_rules_spell_them() -> None:
    of = spec(Column(name="c", type="int", path="$.c"), unknown="capture")
    every = "".join(map(chr, range(0x30))) + "\\\x7f\x80\xff\u2028\uffff😀"
    for values in ({"x": every}, {every: [1, {"": every, "b": None}]}, {"x": {}, "y": [], "z": "/"}):
        for ascii in (True, False):
            sure(of, json.dumps(values, ensure_ascii=ascii, indent=2).encode())
    sure(of, rb'{"x":"\/\u007f\u0008\u001F","y" : [ 1.50 , -0 , 1E+2 ],"z":{"d":1,"d":2}}')


def test_a_large_chunk_of_large_messages() -> None:
    of = spec(
        Column(name="c", type="string", path="$.c"),
        Column(name="a", type="array<int>", path="$.a"),
        Column(name="m", type="map<string,string>", path="$.m"),
    )
    value = {"c": "long " * 60_000, "a": list(range(50_000)), "m": {f"k{i}": "v" * i for i in range(900)}}
    message = json.dumps(value).encode()
    rows, look = run(of, message, b"{}", message[:-1], message)
    assert look == [2]
    assert rows[0] == rows[3] == {"c": value["c"], "a": value["a"], "m": list(value["m"].items())}
    assert rows[1] == {"c": None, "a": None, "m": None}


def test_nothing_of_a_message_that_is_given_up_stays() -> None:
    kind = "struct<a:array<string>,m:map<string,array<struct<x:string,y:int>>>>"
    of = spec(Column(name="c", type=kind, path="$.c"), Column(name="s", type="string", path="$.s"), unknown="capture")
    value = {"a": ["one", None, "two"], "m": {"k": [{"x": "y", "y": 1}, {"x": None, "y": None}]}}
    whole = json.dumps({"s": "text", "u": [1, "zwei"], "c": value}).encode()
    chunk = [piece for n in range(len(whole)) for piece in (whole[:n], whole)] * 12
    assert len(chunk) > 2 * json_program._AT_ONCE
    rows, look = run(of, *chunk)
    assert look == list(range(0, len(chunk), 2))
    expected = {"c": value | {"m": list(value["m"].items())}, "s": "text", "_extra": [("u", '[1,"zwei"]')]}
    assert all(row == expected for row in rows[1::2])
    assert all(row == dict.fromkeys(expected) for row in rows[::2])
