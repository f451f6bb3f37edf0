"""Texts that fit a Hive type: fields of CSV messages, and columns with `convert: text` (docs/types.md).

Numbers, booleans and dates are spelled as JSON spells them, times as ISO 8601; nothing is trimmed.
"""

from __future__ import annotations

import math
import re
from typing import Any

from spark_jobs.engine.event_time import event_ms
from spark_jobs.engine.strict import JsonInt, Unfit, convert, exact_decimal, nearest, to_integer
from spark_jobs.engine.types import INTEGER_BITS
from tidegate.core.base.hivetypes import Decimal, HiveType, Primitive

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(_INTEGER.pattern + r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEAN = re.compile("true|false")
_SHOWN = 40


def convert_text(text: str, kind: HiveType) -> Any:
    """The Python value that Arrow stores for `kind`. Raises Unfit; arrays, maps and structs have no text."""
    if isinstance(kind, Decimal):
        return exact_decimal(_spelled(text, _NUMBER, "a number"), kind)
    if not isinstance(kind, Primitive):
        raise Unfit(f"a text cannot be {kind}")
    if kind.name in INTEGER_BITS:
        return to_integer(JsonInt(_spelled(text, _INTEGER, "an integer")), INTEGER_BITS[kind.name])
    if kind.name in ("float", "double"):
        return finite(float(_spelled(text, _NUMBER, "a number")), kind.name)
    if kind.name == "boolean":
        return _spelled(text, _BOOLEAN, "true or false") == "true"
    return convert(JsonInt(text) if kind.name == "timestamp" and _INTEGER.fullmatch(text) else text, kind)


def text_event_ms(text: str, form: str) -> int:
    """Epoch ms of an event time that is text: epochs are integers. Raises Unfit."""
    return event_ms(JsonInt(text) if _INTEGER.fullmatch(text) and form.startswith("epoch_") else text, form)


def finite(number: float, name: str) -> float:
    """A `float` or `double`, rounded to the nearest. Raises Unfit for what is, or would be, infinite or NaN."""
    number = nearest(number, name)
    if not math.isfinite(number):
        raise Unfit(f"not a finite {name}")
    return number


def _spelled(text: str, form: re.Pattern[str], what: str) -> str:
    if not form.fullmatch(text):
        raise Unfit(f"expected {what}, got {text[:_SHOWN]!r}")
    return text
