"""Every example of the page, by the engine's decoders and by the oracle."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pytest

from spark_jobs.engine.strict import Unfit
from spark_jobs.engine.text_rules import convert_text
from spark_jobs.engine.types import arrow_type
from tests.value_rules import page
from tests.value_rules.engine_json import answers, decoders
from tests.value_rules.examples_json import C_INT, C_STRING, WIDE, Wide, column
from tests.value_rules.oracle_json import PlainColumn, PlainSpec, Refused, Row, read
from tests.value_rules.oracle_plain_text import from_text
from tests.value_rules.oracle_text import Dirty
from tests.value_rules.oracle_values import kind_of
from tests.value_rules.page import DIRTY, Example
from tests.value_rules.plain_values import plain, shown
from tidegate.core.base.hivetypes import parse

DECODERS = ["oracle", "fast", "rows"]


def message_of(example: Example) -> tuple[PlainSpec, bytes]:
    literal = example.literal.encode()
    if example.row.startswith("J-message-"):
        return C_STRING, literal
    if example.row.startswith("J-path-"):
        return C_INT, literal
    if example.row.startswith("J-time-"):
        columns = (PlainColumn("n", "int", ("n",)),)
        return PlainSpec(columns, ("c",), example.kind), b'{"n":1,"c":' + literal + b"}"
    convert = "text" if example.row.startswith("J-text-") else None
    return column(example.kind, convert=convert), b'{"c":' + literal + b"}"


@cache
def _decoders(spec: PlainSpec) -> dict:
    return decoders(spec)


def answer(name: str, spec: PlainSpec, message: bytes | None) -> Row | Refused:
    if name == "oracle":
        return read(spec, message)
    return answers(spec, _decoders(spec)[name], [message])[0]


def text_of(answer: Row | Refused, spec: PlainSpec) -> str:
    if isinstance(answer, Refused):
        return DIRTY
    if spec.time is not None:
        return str(answer.event_ms)
    return shown(answer.values["c"], kind_of(spec.columns[0].type))


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("row", sorted({e.row for e in page.examples("J-")}))
def test_examples_on_the_page(row: str, name: str) -> None:
    for example in page.examples(row):
        if example.row == row:
            spec, message = message_of(example)
            assert text_of(answer(name, spec, message), spec) == example.expected, example


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("wide", WIDE, ids=lambda w: w.row)
def test_examples_beside_the_page(wide: Wide, name: str) -> None:
    found = answer(name, wide.spec, wide.message)
    assert text_of(found, wide.spec) == wide.expected
    if isinstance(found, Refused):
        assert found.field == wide.field


@pytest.mark.parametrize("row", sorted({e.row for e in page.examples("T-")}))
def test_text_examples_by_the_rules_and_by_the_oracle(row: str) -> None:
    for example in page.examples(row):
        name = example.kind or row.removeprefix("T-")
        kind = kind_of(name)
        try:
            expected = shown(from_text(example.literal, kind), kind)
        except Dirty:
            expected = DIRTY
        assert expected == example.expected, example
        try:
            found = shown(plain(_arrow(convert_text(example.literal, parse(name)), name), kind), kind)
        except Unfit:
            found = DIRTY
        assert found == example.expected, example


def _arrow(value: object, kind: str) -> object:
    return pa.scalar(value, arrow_type(parse(kind))).as_py()
