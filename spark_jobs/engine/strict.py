"""JSON values that fit a Hive type: the definition, one value at a time (docs/types.md in words).

The vectorised decoder takes what it is sure of and hands every other record to these rules, so that they alone decide.
Numbers arrive as text (`JsonInt`, `JsonFloat`): nothing is rounded before the type has been asked.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal as Number
from typing import Any

from spark_jobs.engine.types import INTEGER_BITS
from tidegate.core.base.hivetypes import Array, Decimal, HiveType, Map, Primitive, Struct

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIN_MS, MAX_MS = -62_135_596_800_000, 253_402_300_799_999  # years 1 to 9999
_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}(?::?\d{2})?)?", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INTEGER = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?)0*(\d*))?", re.ASCII)
_EXPONENT_DIGITS = 18


class JsonInt(str):
    """A JSON number without fraction and exponent, as written."""


class JsonFloat(str):
    """Any other JSON number, as written."""


class Base64(str):
    """Bytes of a format that has them, in the spelling that JSON has for them."""


class Unfit(ValueError):
    """A value that its type refuses. `field` is the place below the column, e.g. `[3].price`."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.reason, self.field = reason, field

    def below(self, place: str) -> Unfit:
        return Unfit(self.reason, place + self.field)


def describe(value: Any) -> str:
    """Name of a JSON value's kind, in words for a reason."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, JsonInt | JsonFloat):
        return f"the number {value[:40]}"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, dict | list):
        return "an array" if isinstance(value, list) else "an object"
    return "NaN or Infinity"


def refuse_duplicates(value: Any) -> None:
    """An object that has a key twice says nothing certain. Raises Unfit."""
    twice = getattr(value, "twice", None)
    if twice is not None:
        raise Unfit(f"duplicate key {twice[:80]!r}")


def convert(value: Any, kind: HiveType) -> Any:
    """The Python value that Arrow stores for `kind`; None stays None. Raises Unfit."""
    if value is None:
        return None
    if isinstance(kind, Primitive):
        return _PRIMITIVES[kind.name](value, kind)
    if isinstance(kind, Decimal):
        _expect(value, (JsonInt, JsonFloat), "a number")
        return exact_decimal(value, kind)
    if isinstance(kind, Array):
        return _to_array(value, kind)
    if isinstance(kind, Map):
        return _to_map(value, kind)
    return _to_struct(value, kind)


def _expect(value: Any, wanted: type | tuple[type, ...], what: str) -> None:
    if not isinstance(value, wanted) or (wanted is str and isinstance(value, JsonInt | JsonFloat)):
        raise Unfit(f"expected {what}, got {describe(value)}")


def _to_boolean(value: Any, kind: HiveType) -> bool:
    _expect(value, bool, "true or false")
    return value


def to_integer(value: Any, bits: int) -> int:
    _expect(value, JsonInt, "an integer")
    # int() refuses very long texts on its own; nothing that long fits
    number = int(value) if len(value) <= 20 else 1 << 64
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise Unfit(f"{value[:40]} does not fit in {bits} bits")
    return number


def _to_integer(value: Any, kind: HiveType) -> int:
    return to_integer(value, INTEGER_BITS[str(kind)])


def _to_float(value: Any, kind: HiveType) -> float:
    _expect(value, (JsonInt, JsonFloat), "a number")
    number = nearest(float(value), str(kind))
    if math.isinf(number):
        raise Unfit(f"{value[:40]} is too large for {kind}")
    return number


def nearest(number: float, name: str) -> float:
    """The `float` or `double` that is nearest; infinite if the number is too large for it."""
    try:
        return number if name == "double" else struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.inf


def exact_decimal(text: str, kind: Decimal) -> Number:
    """What a number in JSON says, or Unfit; by its digits, so that neither length nor exponent costs anything."""
    sign, whole, fraction, down, power = _NUMBER.fullmatch(text).groups("")  # type: ignore[union-attr]
    digits = (whole + fraction).lstrip("0")
    kept = digits.rstrip("0")
    if not kept:
        return Number(0)
    if len(power) > _EXPONENT_DIGITS:
        raise Unfit(f"{text[:40]} does not fit in {kind}")
    exponent = int(power or 0) * (-1 if down == "-" else 1) - len(fraction) + len(digits) - len(kept)
    if -exponent > kind.scale:
        raise Unfit(f"{text[:40]} has more than {kind.scale} digits behind the point")
    if len(kept) + exponent > kind.precision - kind.scale:
        raise Unfit(f"{text[:40]} does not fit in {kind}")
    return Number((int(bool(sign)), tuple(map(int, kept)), exponent))


def _to_string(value: Any, kind: HiveType) -> str:
    _expect(value, str, "a string")
    return value


def _to_binary(value: Any, kind: HiveType) -> bytes:
    _expect(value, str, "a string")
    return base64.b64decode(value) if isinstance(value, Base64) else value.encode()


def _to_date(value: Any, kind: HiveType) -> date:
    _expect(value, str, "a date as YYYY-MM-DD")
    if not _DATE.fullmatch(value):
        raise Unfit(f"expected a date as YYYY-MM-DD, got {value[:40]!r}")
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise Unfit(f"{value!r} is no date") from None


def iso_micros(text: str) -> int:
    """Epoch us of an ISO 8601 date and time; without a zone it is UTC. Digits below 1 us are cut off. Raises Unfit."""
    match = _ISO.fullmatch(text)
    if not match:
        raise Unfit(f"expected an ISO 8601 date and time, got {text[:40]!r}")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(*map(int, (year, month, day, hour, minute, second or "0")), tzinfo=_zone(zone))
        micros = (moment - EPOCH) // timedelta(microseconds=1) + int((fraction or "0").ljust(6, "0")[:6])
    except (ValueError, OverflowError):
        raise Unfit(f"{text!r} is no date and time") from None
    if not MIN_MS <= micros // 1000 <= MAX_MS:
        raise Unfit(f"{text!r} is outside of the years 1 to 9999")
    return micros


def _zone(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:]) if len(text) > 3 else 0
    if minutes > 59:
        raise ValueError(text)
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


def _to_timestamp(value: Any, kind: HiveType) -> int:
    if isinstance(value, JsonInt):
        ms = to_integer(value, 64)
        if not MIN_MS <= ms <= MAX_MS:
            raise Unfit(f"{value} ms is outside of the years 1 to 9999")
        return ms * 1000
    _expect(value, str, "an ISO 8601 date and time or epoch ms")
    return iso_micros(value)


_PRIMITIVES: dict[str, Callable[[Any, HiveType], Any]] = {
    "boolean": _to_boolean,
    "tinyint": _to_integer,
    "smallint": _to_integer,
    "int": _to_integer,
    "bigint": _to_integer,
    "float": _to_float,
    "double": _to_float,
    "string": _to_string,
    "binary": _to_binary,
    "date": _to_date,
    "timestamp": _to_timestamp,
}


def _to_array(value: Any, kind: Array) -> list[Any]:
    _expect(value, list, "an array")
    converted = []
    for i, item in enumerate(value):
        try:
            converted.append(convert(item, kind.element))
        except Unfit as e:
            raise e.below(f"[{i}]") from None
    return converted


def _to_map(value: Any, kind: Map) -> list[tuple[Any, Any]]:
    _expect(value, dict, "an object")
    refuse_duplicates(value)
    converted = []
    for key, item in value.items():
        try:
            converted.append((_map_key(key, kind.key), convert(item, kind.value)))
        except Unfit as e:
            raise e.below(f".{key}") from None
    if len({key for key, _ in converted}) < len(converted):
        raise Unfit(f"two keys are the same {kind.key}")
    return converted


def _map_key(text: str, kind: HiveType) -> Any:
    """JSON keys are strings: keys of other types are read from their text."""
    if str(kind) == "boolean" and text in ("true", "false"):
        return text == "true"
    if str(kind) in ("string", "binary", "date"):
        return convert(text, kind)
    if _INTEGER.fullmatch(text) and text != "-0":
        return convert(JsonInt(text), kind)
    raise Unfit(f"the key {text[:40]!r} is no {kind}")


def _to_struct(value: Any, kind: Struct) -> dict[str, Any]:
    _expect(value, dict, "an object")
    refuse_duplicates(value)
    converted = {}
    for name, field in kind.fields:
        try:
            converted[name] = convert(value.get(name), field)
        except Unfit as e:
            raise e.below(f".{name}") from None
    return converted
