"""JSON as MySQL writes it -> the text that events have of it: MySQL keeps no text, and Debezium (3.1) writes its own.

Numbers with a fraction or an exponent are doubles: a document has decimals, and texts of times, only where a function
of SQL has put them in, and then events may have another text of them."""

from __future__ import annotations

import re
from decimal import Decimal

_PART = re.compile(r'("(?:[^"\\]|\\.)*")|([,:]) |-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?')
_PLAIN = (1e-3, 1e7)
"""From here to there Java writes a double without an exponent; others are written with all of their digits."""


def as_in_events(text: str) -> str:
    """Raises ValueError for bytes within a document: what marks them could be a text of someone's."""
    return _PART.sub(_part, text)


def _part(found: re.Match[str]) -> str:
    text, mark = found[1], found[2]
    if text is not None:
        if text.startswith('"base64:type'):
            raise ValueError(text)
        return text
    return mark or _number(found[0])


def _number(text: str) -> str:
    if text.lstrip("-").isdigit():
        return text
    value = float(text)
    is_double = Decimal(repr(value)) == Decimal(text)
    if not is_double or not value or _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return text
    return format(Decimal(value), "f")
