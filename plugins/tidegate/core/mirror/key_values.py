"""A key as people write it, `id=42`, in the types of its columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Number
from decimal import DecimalException, localcontext

from tidegate.core.base.hivetypes import Decimal, Primitive, parse

Plain = bool | int | str
"""As JSON has it: binary in hexadecimal digits, a date as `2013-01-05`, a timestamp in UTC us, a decimal as text."""
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 100


class NoKey(ValueError):
    """Texts that name no key of the table; the message says what does."""


@dataclass(frozen=True)
class KeyValue:
    """What a column of the key has to be. `type`: a Hive type; `text`: as it was written."""

    column: str
    type: str
    value: Plain
    text: str


def key_values(key: Sequence[str], types: Mapping[str, str], given: Sequence[str]) -> tuple[KeyValue, ...]:
    """A value for each column of the key, in its order. `types`: Hive types by column; `given`: `column=value` of each.

    Raises NoKey for a column that is missing, unknown or there twice, and for a value that its type cannot have."""
    texts: dict[str, str] = {}
    for one in given:
        name, equals, text = one.partition("=")
        name = name.strip().lower()
        if not equals or not name:
            raise NoKey(f"{one!r} is no column=value")
        if name not in key:
            raise NoKey(f"{name} is not in the key, which is {', '.join(key)}")
        if name in texts:
            raise NoKey(f"{name} is given twice")
        texts[name] = text
    missing = [name for name in key if name not in texts]
    if missing:
        raise NoKey(f"the key is {', '.join(key)}: {', '.join(missing)} is missing")
    return tuple(KeyValue(name, types[name], _value(name, types[name], texts[name]), texts[name]) for name in key)


def _value(name: str, kind: str, text: str) -> Plain:
    try:
        return _reader(kind)(text)
    except (ValueError, OverflowError, DecimalException):
        shown = text if len(text) <= _DIGITS else text[:_DIGITS] + "..."
        raise NoKey(f"{name}={shown}: it must be a {kind}{_spelling(kind)}") from None


def _spelling(kind: str) -> str:
    """How a value of the type is written, where that is not plain."""
    return {
        "boolean": ": true or false",
        "binary": ", in hexadecimal digits",
        "date": ", as 2013-01-05",
        "timestamp": ", as 2013-01-05T04:00:00Z",
    }.get(kind, "")


def _reader(kind: str) -> Callable[[str], Plain]:
    found = parse(kind)
    if isinstance(found, Decimal):
        return lambda text: _decimal(found, text)
    assert isinstance(found, Primitive), "a key has columns of plain types"
    if found.name in _BITS:
        return lambda text: _integer(_BITS[found.name], text)
    others: dict[str, Callable[[str], Plain]] = {
        "boolean": _boolean,
        "binary": _binary,
        "date": _date,
        "timestamp": _timestamp,
    }
    return others.get(found.name, str)


def _integer(bits: int, text: str) -> int:
    if _INTEGER.fullmatch(text.strip()) is None or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise ValueError
    return int(text)


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError
    return text.strip().lower() == "true"


def _binary(text: str) -> str:
    return bytes.fromhex(text).hex()


def _date(text: str) -> str:
    return date.fromisoformat(text.strip()).isoformat()


def _timestamp(text: str) -> int:
    """UTC, unless it names an offset."""
    found = datetime.fromisoformat(text.strip())
    return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def _decimal(kind: Decimal, text: str) -> str:
    """Nothing is rounded: a value with more digits than the type has is in no table."""
    with localcontext(prec=_DIGITS):
        number = Number(text.strip())
        if not number.is_finite():
            raise ValueError
        exact = number.quantize(Number(1).scaleb(-kind.scale))
    if exact != number or len(exact.as_tuple().digits) > kind.precision:
        raise ValueError
    return f"{exact:f}"
