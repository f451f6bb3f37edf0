"""Counts in JSON documents, with errors that say what is wrong in one."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from tidegate.core.base.errors import TruthUnknown
from tidegate.core.completeness.rules import count_of
from tidegate.core.spec.paths import parse

_LONGEST = 200


class NotThere(Exception):
    """The document has nothing at the path."""


def parsed(text: bytes, who: str) -> Any:
    """Parse JSON, with numbers as they are written. Raises TruthUnknown, which names `who` wrote it."""
    try:
        return json.loads(text.decode(), parse_float=Decimal, parse_constant=_refuse_constant)
    except (ValueError, ArithmeticError, RecursionError):
        raise TruthUnknown(f"{who}: not JSON: {shortened(text[:80].decode(errors='replace'))!r}") from None


def value_at(document: Any, path: str) -> Any:
    """The value at a path such as `$.a.b`; null is None. Raises NotThere."""
    value = document
    for name in parse(path):
        if not isinstance(value, dict) or name not in value:
            raise NotThere
        value = value[name]
    return value


def count_in(document: Any, path: str, who: str) -> int | None:
    """The count at `path`; None where it is null. Raises TruthUnknown."""
    try:
        return count_of(value_at(document, path))
    except NotThere:
        raise TruthUnknown(f"{who}: nothing at {path}") from None
    except ValueError as e:
        raise TruthUnknown(f"{who}: {path}: {e}") from None


def shortened(text: str) -> str:
    """Text as one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
