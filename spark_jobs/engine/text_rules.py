"""Texts that fit a Hive type: fields of CSV messages, and columns with `convert: text` (docs/types.md).

Numbers, booleans and dates are spelled as JSON spells them, times as ISO 8601; nothing is trimmed.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import date
from decimal import Decimal as Number
from typing import Any

from spark_jobs.engine.event_time import event_ms
from spark_jobs.engine.strict import MAX_MS, MIN_MS, JsonInt, Unfit, iso_micros
from spark_jobs.engine.types import INTEGER_BITS
from tidegate.core.base.hivetypes import Decimal, HiveType, Primitive

INTEGER = r"-?(?:0|[1-9][0-9]*)"
NUMBER = INTEGER + r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_INTEGER, _NUMBER, _DATE = re.compile(INTEGER), re.compile(NUMBER), re.compile(DATE)
_PARTS = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_SHOWN = 40


def convert_text(text: str, kind: HiveType) -> Any:
    """The Python value that Arrow stores for `kind`. Raises Unfit; arrays, maps and structs have no text."""
    if isinstance(kind, Decimal):
        return decimal_of(text, kind)
    if not isinstance(kind, Primitive):
        raise Unfit(f"a text cannot be {kind}")
    return _PRIMITIVES[kind.name](text, kind.name)


def text_event_ms(text: str, form: str) -> int:
    """Epoch ms of an event time that is text: epochs are integers. Raises Unfit."""
    return event_ms(JsonInt(text) if _INTEGER.fullmatch(text) and form.startswith("epoch_") else text, form)


def decimal_of(text: str, kind: Decimal) -> Number:
    """Exactly what the number says, or Unfit; by its digits, so that neither length nor exponent costs anything."""
    if not _NUMBER.fullmatch(text):
        raise Unfit(f"expected a number, got {text[:_SHOWN]!r}")
    sign, whole, fraction, exponent = _PARTS.fullmatch(text).groups()  # type: ignore[union-attr]
    fraction = fraction or ""
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return Number((0, (0,), -kind.scale))
    kept = digits.rstrip("0")
    power = exponent.lstrip("+-").lstrip("0") if exponent else ""
    if len(power) > 18:
        raise Unfit(f"{text[:_SHOWN]} does not fit in {kind}")
    shift = int(power or 0) * (-1 if exponent and exponent[0] == "-" else 1)
    lowest = shift - len(fraction) + len(digits) - len(kept)
    if -lowest > kind.scale:
        raise Unfit(f"{text[:_SHOWN]} has more than {kind.scale} digits behind the point")
    if len(kept) + lowest > kind.precision - kind.scale:
        raise Unfit(f"{text[:_SHOWN]} does not fit in {kind}")
    return Number((1 if sign else 0, tuple(map(int, kept)), lowest))


def _boolean(text: str, name: str) -> bool:
    if text not in ("true", "false"):
        raise Unfit(f"expected true or false, got {text[:_SHOWN]!r}")
    return text == "true"


def _integer(text: str, name: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise Unfit(f"expected an integer, got {text[:_SHOWN]!r}")
    bits = INTEGER_BITS[name]
    number = int(text) if len(text) <= 20 else 1 << 64
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise Unfit(f"{text[:_SHOWN]} does not fit in {bits} bits")
    return number


def _float(text: str, name: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise Unfit(f"expected a number, got {text[:_SHOWN]!r}")
    return finite(float(text), name)


def finite(number: float, name: str) -> float:
    """A `float` or `double`, rounded to the nearest. Raises Unfit for what is, or would be, infinite or NaN."""
    if name == "float" and math.isfinite(number):
        try:
            number = struct.unpack("f", struct.pack("f", number))[0]
        except OverflowError:
            number = math.inf
    if not math.isfinite(number):
        raise Unfit(f"not a finite {name}")
    return number


def _string(text: str, name: str) -> str:
    return text


def _binary(text: str, name: str) -> bytes:
    return text.encode()


def _date(text: str, name: str) -> date:
    if not _DATE.fullmatch(text):
        raise Unfit(f"expected a date as YYYY-MM-DD, got {text[:_SHOWN]!r}")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Unfit(f"{text!r} is no date") from None


def _timestamp(text: str, name: str) -> int:
    """Epoch us."""
    if not _INTEGER.fullmatch(text):
        return iso_micros(text)
    ms = _integer(text, "bigint")
    if not MIN_MS <= ms <= MAX_MS:
        raise Unfit(f"{text} ms is outside of the years 1 to 9999")
    return ms * 1000


_PRIMITIVES: dict[str, Callable[[str, str], Any]] = {
    "boolean": _boolean,
    "tinyint": _integer,
    "smallint": _integer,
    "int": _integer,
    "bigint": _integer,
    "float": _float,
    "double": _float,
    "string": _string,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
}
