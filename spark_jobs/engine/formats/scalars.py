"""From values as Avro and protobuf have them to what Arrow stores for a column's type: checks and exact conversions.

Each function takes one value and raises Unfit; None instead of a function means that the value is right as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import date
from decimal import Context
from decimal import Decimal as Number
from typing import Any
from uuid import UUID

from spark_jobs.engine.event_time import EPOCH_UNITS, event_ms
from spark_jobs.engine.strict import MAX_MS, MIN_MS, Unfit, iso_micros
from spark_jobs.engine.text_rules import convert_text, finite
from spark_jobs.engine.types import INTEGER_BITS
from tidegate.core.base.hivetypes import Decimal, HiveType, Primitive

Convert = Callable[[Any], Any]
_EXACT = Context(prec=100)
_DAY_ONE = date(1970, 1, 1).toordinal()
_MIN_DAY, _MAX_DAY = 1 - _DAY_ONE, date.max.toordinal() - _DAY_ONE
_MIN_US, _MAX_US = MIN_MS * 1000, MAX_MS * 1000 + 999
_MOST_DIGITS = 1000
SCALED = {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}
"""Unit -> (multiply, divide) to microseconds."""


def integer(kind: HiveType, bits: int = 64, *, signed: bool = True) -> Convert | None:
    """From a whole number of `bits` bits."""
    if isinstance(kind, Decimal):
        return functools.partial(scaled, kind=kind)
    name = str(kind)
    if name in INTEGER_BITS:
        if INTEGER_BITS[name] - bits >= (0 if signed else 1):
            return None
        return functools.partial(_narrow, bits=INTEGER_BITS[name])
    if name == "double":
        return float
    if name == "float":
        return lambda value: finite(float(value), "float")
    if name == "timestamp":
        return lambda value: micros(value, 1000, 1)
    raise AssertionError(f"no rule for a whole number as {kind}")


def _narrow(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise Unfit(f"{value} does not fit in {bits} bits")
    return value


def floating(kind: HiveType) -> Convert:
    """From a float or double."""
    return functools.partial(finite, name=str(kind))


def scaled(value: int, kind: Decimal, scale: int = 0) -> Number:
    """`value` is the number times 10 to the `scale`."""
    shift = kind.scale - scale
    if shift >= 0:
        found, rest = value * 10**shift, 0
    else:
        found, rest = divmod(value, 10**-shift)
    if rest:
        raise Unfit(f"more than {kind.scale} digits behind the point")
    if abs(found) >= 10**kind.precision:
        raise Unfit(f"a number that does not fit in {kind}")
    return Number(found).scaleb(-kind.scale, _EXACT)


def decimal_bytes(kind: Decimal, scale: int) -> Convert:
    """From two's complement, big-endian, of the number times 10 to the `scale`."""

    def convert(value: bytes) -> Number:
        if not value:
            raise Unfit("a decimal without a byte")
        if len(value) > _MOST_DIGITS:
            raise Unfit(f"a number that does not fit in {kind}")
        return scaled(int.from_bytes(value, "big", signed=True), kind, scale)

    return convert


def day(value: int) -> int:
    """Days since 1970."""
    if not _MIN_DAY <= value <= _MAX_DAY:
        raise Unfit(f"day {value} is outside of the years 1 to 9999")
    return value


def micros(value: int, multiply: int, divide: int) -> int:
    us = value * multiply // divide
    if not _MIN_US <= us <= _MAX_US:
        raise Unfit(f"{value} is outside of the years 1 to 9999")
    return us


def instant(kind: HiveType, unit: str) -> Convert | None:
    """From an epoch number in millis, micros or nanos."""
    if str(kind) == "bigint":
        return None
    multiply, divide = SCALED[unit]
    return lambda value: micros(value, multiply, divide)


def text(kind: HiveType) -> Convert | None:
    """From a string; as JSON's, numbers in strings are not looked for."""
    name = str(kind)
    if name == "string":
        return None
    if name == "binary":
        return str.encode
    if name == "timestamp":
        return iso_micros
    return lambda value: convert_text(value, Primitive("date")).toordinal() - _DAY_ONE


def uuid_text(value: bytes) -> str:
    return str(UUID(bytes=value))


def event_integer(form: str) -> Convert:
    """An event time that is a plain whole number."""
    multiply, divide = EPOCH_UNITS.get(form, (0, 0))
    if not multiply:
        return _no_integer

    def convert(value: int) -> int:
        ms = value * multiply // divide
        if not MIN_MS <= ms <= MAX_MS:
            raise Unfit(f"event time {value} is outside of the years 1 to 9999")
        return ms

    return convert


def _no_integer(value: int) -> int:
    raise Unfit(f"expected an event time as a string, got the number {value}")


def event_text(form: str) -> Convert:
    """An event time that is a string: ISO 8601 or a pattern."""
    return lambda value: event_ms(value, form)


def event_instant(unit: str) -> Convert:
    """An event time that knows its own unit: `event_time.format` is not asked."""
    multiply, divide = SCALED[unit]
    return lambda value: micros(value, multiply, divide) // 1000
