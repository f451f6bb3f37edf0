"""The oracle's event times: a JSON value and a format give epoch milliseconds, by the page alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.value_rules.oracle_text import Dirty, Number
from tests.value_rules.oracle_values import convert, iso_micros

EPOCH = {"epoch_s": (1000, 1), "epoch_ms": (1, 1), "epoch_us": (1, 1000), "epoch_ns": (1, 1_000_000)}


def event_ms(value: Any, form: str) -> int:
    """Raises Dirty."""
    if value is None:
        raise Dirty("null")
    if form in EPOCH:
        if not isinstance(value, Number):
            raise Dirty("kind")
        multiply, divide = EPOCH[form]
        ms = convert(value, ("bigint", None)) * multiply // divide
    elif not isinstance(value, str):
        raise Dirty("kind")
    elif form == "iso8601":
        ms = iso_micros(value) // 1000
    else:
        ms = _by_pattern(value, form)
    if not -62_135_596_800_000 <= ms <= 253_402_300_799_999:
        raise Dirty("range")
    return ms


def _by_pattern(text: str, pattern: str) -> int:
    try:
        found = datetime.strptime(text, pattern)
    except ValueError:
        raise Dirty("pattern") from None
    local = found.replace(tzinfo=None) - datetime(1970, 1, 1)
    return (local - (found.utcoffset() or timedelta())) // timedelta(milliseconds=1)
