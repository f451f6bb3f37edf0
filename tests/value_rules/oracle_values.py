"""The oracle's conversions, by the page alone: a JSON tree's value for a type that is given as text.

Results are plain: a decimal is its unscaled integer, a date days since 1970, a timestamp microseconds since 1970, a map
a list of pairs, a struct a dict. Imports nothing of the engine.
"""

from __future__ import annotations

import ctypes
import math
import re
from functools import cache
from typing import Any

from tests.value_rules.oracle_text import Dirty, Number, Object

Kind = tuple[str, Any]
"""(name, what the name needs): decimal: (p, s); array: Kind; map: (Kind, Kind); struct: [(name, Kind), ...]."""

BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(.*)", re.DOTALL)
_ZONE = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2}))?")


@cache
def kind_of(text: str) -> Kind:
    """The type that `text` spells (canonical spelling: lower case, no spaces)."""
    if text.startswith("decimal("):
        p, s = text[8:-1].split(",")
        return "decimal", (int(p), int(s))
    if text.startswith("array<"):
        return "array", kind_of(text[6:-1])
    if text.startswith("map<"):
        key, value = _split(text[4:-1])
        return "map", (kind_of(key), kind_of(value))
    if text.startswith("struct<"):
        fields = (part.split(":", 1) for part in _split(text[7:-1]))
        return "struct", [(name, kind_of(kind)) for name, kind in fields]
    return text, None


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "<(") - (c in ">)")
        if c == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def convert(value: Any, kind: Kind) -> Any:
    """Raises Dirty with the place inside the column."""
    if value is None:
        return None
    name, detail = kind
    if name in BITS:
        return _integer(value, BITS[name])
    if name == "array":
        return _array(value, detail)
    if name == "map":
        return _map(value, *detail)
    if name == "struct":
        return _struct(value, detail)
    if name == "decimal":
        return _decimal(value, *detail)
    return _SIMPLE[name](value)


def _wanted(right: bool) -> None:
    if not right:
        raise Dirty("kind")


def _boolean(value: Any) -> bool:
    _wanted(isinstance(value, bool))
    return value


def _integer(value: Any, bits: int) -> int:
    _wanted(isinstance(value, Number) and value.whole)
    digits = value.text.lstrip("-")
    if len(digits) > 19:
        raise Dirty("range")
    number = -int(digits) if value.text[0] == "-" else int(digits)
    if not -(2 ** (bits - 1)) <= number <= 2 ** (bits - 1) - 1:
        raise Dirty("range")
    return number


def _double(value: Any) -> float:
    _wanted(isinstance(value, Number))
    number = float(value.text)
    if math.isinf(number):
        raise Dirty("range")
    return number


def _float(value: Any) -> float:
    number = ctypes.c_float(_double(value)).value
    if math.isinf(number):
        raise Dirty("range")
    return number


def _decimal(value: Any, precision: int, scale: int) -> int:
    _wanted(isinstance(value, Number))
    mantissa, _, exponent = value.text.lower().partition("e")
    before, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (before + fraction).lstrip("0")
    if not digits:
        return 0
    kept = digits.rstrip("0")
    power = _small(exponent) - len(fraction) + len(digits) - len(kept)  # the value is kept * 10**power
    if -power > scale or len(kept) + power > precision - scale:
        raise Dirty("range")
    unscaled = int(kept) * 10 ** (power + scale)
    return -unscaled if mantissa[0] == "-" else unscaled


def _small(exponent: str) -> int:
    """An exponent, or one that is as hopeless."""
    digits = exponent.lstrip("+-0") if exponent else ""
    size = int(digits or "0") if len(digits) < 19 else 10**19
    return -size if exponent.startswith("-") else size


def _string(value: Any) -> str:
    _wanted(isinstance(value, str))
    return value


def _binary(value: Any) -> bytes:
    return _string(value).encode("utf-8")


def _date(value: Any) -> int:
    found = _DATE.fullmatch(_string(value))
    if not found:
        raise Dirty("date")
    return days(*map(int, found.groups()))


def days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar. Raises Dirty for a day that does not exist."""
    if not (1 <= year <= 9999 and 1 <= month <= 12):
        raise Dirty("date")
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _DAYS[month - 1] + (leap and month == 2):
        raise Dirty("date")
    before = year - 1
    ordinal = before * 365 + before // 4 - before // 100 + before // 400
    ordinal += sum(_DAYS[: month - 1]) + (leap and month > 2) + day
    return ordinal - 719_163


def iso_micros(text: str) -> int:
    """Raises Dirty."""
    found, clock = _DATE.match(text), _TIME.fullmatch(text, 10)
    if not found or not clock:
        raise Dirty("timestamp")
    hour, minute, second = (int(part or 0) for part in clock.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise Dirty("timestamp")
    seconds = days(*map(int, found.groups())) * 86_400 + hour * 3600 + minute * 60 + second - _offset(clock.group(5))
    micros = seconds * 1_000_000 + int(((clock.group(4) or "") + "000000")[:6])
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        raise Dirty("range")
    return micros


def _offset(zone: str) -> int:
    """Seconds east of UTC."""
    if zone in ("", "Z"):
        return 0
    found = _ZONE.fullmatch(zone)
    if not found or int(found.group(2)) > 23 or int(found.group(3) or 0) > 59:
        raise Dirty("timestamp")
    seconds = int(found.group(2)) * 3600 + int(found.group(3) or 0) * 60
    return -seconds if found.group(1) == "-" else seconds


def _timestamp(value: Any) -> int:
    if isinstance(value, Number):
        micros = _integer(value, 64) * 1000
        if not FIRST_MICROS <= micros <= LAST_MICROS:
            raise Dirty("range")
        return micros
    return iso_micros(_string(value))


_SIMPLE = {
    "boolean": _boolean,
    "float": _float,
    "double": _double,
    "string": _string,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
}


def _array(value: Any, element: Kind) -> list[Any]:
    _wanted(isinstance(value, list))
    return [_inside(f"[{i}]", convert, item, element) for i, item in enumerate(value)]


def _map(value: Any, key: Kind, item: Kind) -> list[tuple[Any, Any]]:
    _wanted(isinstance(value, Object))
    if value.twice():
        raise Dirty("duplicate")
    pairs = []
    for text, found in value.pairs:
        pairs.append((_inside(f".{text}", _key, text, key), _inside(f".{text}", convert, found, item)))
    if len({name for name, _ in pairs}) < len(pairs):
        raise Dirty("duplicate")
    return pairs


def _key(text: str, kind: Kind) -> Any:
    if kind[0] in ("string", "binary", "date"):
        return convert(text, kind)
    if kind[0] == "boolean":
        if text not in ("true", "false"):
            raise Dirty("key")
        return text == "true"
    if not _CANONICAL.fullmatch(text):
        raise Dirty("key")
    return convert(Number(text, True), kind)


def _struct(value: Any, fields: list[tuple[str, Kind]]) -> dict[str, Any]:
    _wanted(isinstance(value, Object))
    if value.twice():
        raise Dirty("duplicate")
    return {name: _inside(f".{name}", convert, value.get(name), kind) for name, kind in fields}


def _inside(place: str, rule: Any, value: Any, kind: Kind) -> Any:
    try:
        return rule(value, kind)
    except Dirty as e:
        raise Dirty(e.category, place + e.field) from None
