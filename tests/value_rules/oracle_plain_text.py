"""The oracle's text rules (`T-`): a text becomes a value of a type, by the page alone."""

from __future__ import annotations

import re
from typing import Any

from tests.value_rules.oracle_text import Dirty, Number
from tests.value_rules.oracle_times import event_ms
from tests.value_rules.oracle_values import BITS, Kind, convert

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def from_text(text: str, kind: Kind) -> Any:
    """Raises Dirty."""
    name = kind[0]
    if name == "boolean":
        return convert({"true": True, "false": False}.get(text, text), kind)
    if name in BITS:
        return convert(_integer(text), kind)
    if name in ("float", "double", "decimal"):
        if not _NUMBER.fullmatch(text):
            raise Dirty("text")
        return convert(Number(text, False), kind)
    if name == "timestamp" and _INTEGER.fullmatch(text):
        return convert(_integer(text), kind)
    if name in ("array", "map", "struct"):
        raise Dirty("text")
    return convert(text, kind)


def time_from_text(text: str, form: str) -> int:
    """Epoch ms. Raises Dirty."""
    return event_ms(_integer(text) if form.startswith("epoch_") else text, form)


def _integer(text: str) -> Number:
    if not _INTEGER.fullmatch(text):
        raise Dirty("text")
    return Number(text, True)
