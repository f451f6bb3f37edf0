"""Rows of the page that are no single value: unknown fields, the ends of the calendar, event times as text."""

from __future__ import annotations

import pytest

from spark_jobs.engine.strict import Unfit
from spark_jobs.engine.text_rules import convert_text, text_event_ms
from tests.engine_fixtures import chunk_of
from tests.value_rules import engine_formats, oracle_protobuf, seeds_protobuf
from tests.value_rules.engine_json import answers, compiled, decoders
from tests.value_rules.oracle_json import PlainColumn, PlainSpec, Refused, read, routed
from tests.value_rules.oracle_plain_text import time_from_text
from tests.value_rules.oracle_text import Dirty
from tests.value_rules.page import DIRTY
from tests.value_rules.whole_path import land
from tidegate.core.base.hivetypes import parse

COLUMNS = (PlainColumn("c", "int", ("a", "b")),)
ODD = b'{"x":[1.50,-INF,NaN,+inf,{"q":1,"q":-0e5}],"a":{"b":1,"y":2},"s":"\\u0001\\/\\u00fc\\n\\u007f","X":null}'
EXTRA = {"x": '[1.50,-INF,NaN,+inf,{"q":1,"q":-0e5}]', "s": '"\\u0001/ü\\n\x7f"', "X": "null", "$.a.y": "2"}
TOLD = {"J-unknown-ignore": {}, "J-unknown-capture": EXTRA, "J-unknown-fail": EXTRA}


@pytest.mark.parametrize("name", ["oracle", "fast", "rows"])
@pytest.mark.parametrize("row", TOLD)
def test_unknown_fields(row: str, name: str) -> None:
    spec = PlainSpec(COLUMNS, None, unknown=row.removeprefix("J-unknown-"))
    if name == "oracle":
        answer = read(spec, ODD)
        assert not isinstance(answer, Refused)
        assert answer.unknown == TOLD[row]
        return
    decoded = decoders(spec)[name].decode(chunk_of([b"{}", ODD, ODD]))
    assert decoded.bad == {}
    assert decoded.unknown == {key: (1, text) for key, text in TOLD[row].items()}
    if row == "J-unknown-capture":
        assert [dict(cell) for cell in decoded.table["_extra"].to_pylist()] == [{}, EXTRA, EXTRA]


@pytest.mark.parametrize("row", ["J-time-calendar"])
def test_the_ends_of_the_calendar(row: str) -> None:
    spec = PlainSpec((PlainColumn("n", "int", ("n",)),), ("t",), "epoch_ms")
    day = 86_400_000
    first, last = -62_135_596_800_000, 253_402_300_799_999
    moments = [first, first + 2 * day - 1, first + 2 * day, 0, last - 2 * day, last - 2 * day + 1, last]
    topic = {(0, i): b'{"n":1,"t":%d}' % ms for i, ms in enumerate(moments)}
    found = land(compiled, spec, topic)
    dirty = [isinstance(found[place], Refused) for place in sorted(topic)]
    assert dirty == [True, True, False, False, False, True, True], row
    assert [isinstance(routed(spec, read(spec, topic[place])), Refused) for place in sorted(topic)] == dirty


TIMES = [
    ("T-time", "epoch_s", "1357358706", 1357358706000),
    ("T-time", "epoch_ms", "-1", -1),
    ("T-time", "epoch_us", "-1", -1),
    ("T-time", "epoch_ns", "1357358706123999999", 1357358706123),
    ("T-time", "epoch_ms", "007", DIRTY),
    ("T-time", "epoch_ms", "1.0", DIRTY),
    ("T-time", "epoch_ms", " 1", DIRTY),
    ("T-time", "epoch_ns", "9223372036854775808", DIRTY),
    ("T-time", "epoch_s", "1357358706123", DIRTY),
    ("T-time", "iso8601", "2013-01-05T04:05:06.123999+01:00", 1357355106123),
    ("T-time", "iso8601", "1357358706123", DIRTY),
    ("T-time", "%d.%m.%Y %H:%M", "05.01.2013 04:05", 1357358700000),
    ("T-time", "%d.%m.%Y %H:%M", "5", DIRTY),
]


@pytest.mark.parametrize(("row", "form", "text", "expected"), TIMES)
def test_event_times_that_are_text(row: str, form: str, text: str, expected: object) -> None:
    for rule in (text_event_ms, time_from_text):
        try:
            found: object = rule(text, form)
        except (Unfit, Dirty):
            found = DIRTY
        assert found == expected, (row, rule)


NESTED = [("T-nested", "array<int>"), ("T-nested", "map<string,int>"), ("T-nested", "struct<a:int>")]


@pytest.mark.parametrize(("row", "kind"), NESTED)
def test_there_is_no_text_of_nested_types(row: str, kind: str) -> None:
    with pytest.raises(Unfit):
        convert_text("[]", parse(kind))


ENDED_TASKS = [
    ("P-message-required", "ignore", b"J\r\x08\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01 \x00:\x05\n\x01x\x10\x02", True),
    ("P-unknown-fail", "fail", b"z\x03123:\x08\n\x04tr\xfee\x10\x01\xfa\x04\x01x", False),
]


@pytest.mark.parametrize(("row", "unknown", "message", "dirty"), ENDED_TASKS)
def test_messages_that_ended_a_task(row: str, unknown: str, message: bytes, dirty: bool) -> None:
    """A map beside a missing required field, and a map's key that is no UTF-8, in proto2."""
    spec, _ = seeds_protobuf.many_seeds(unknown)[1]
    decoder = engine_formats.decoders(spec)["decoder"]
    found = answers(spec, decoder, [message] * 20)
    assert [isinstance(answer, Refused) for answer in found] == [dirty] * 20
    assert [isinstance(oracle_protobuf.read(spec, message), Refused)] == [dirty]
