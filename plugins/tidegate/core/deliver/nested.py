"""Nested values as JSON, for systems that have no types of their own for them.

Structs and maps are objects whose keys are texts, decimals are numbers with all their digits, timestamps ISO 8601 in
UTC, binary is Base64, NaN and infinities are texts."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from typing import Any

from tidegate.core.base.hivetypes import Array, Decimal, HiveType, Map, Struct


def text_of(value: Any, kind: HiveType) -> str:
    """A nested value as JSON."""
    if value is None:
        return "null"
    if isinstance(kind, Array):
        return f"[{','.join(text_of(v, kind.element) for v in value)}]"
    if isinstance(kind, Map):
        pairs = value.items() if isinstance(value, dict) else value
        return f"{{{','.join(f'{_key(k)}:{text_of(v, kind.value)}' for k, v in pairs)}}}"
    if isinstance(kind, Struct):
        return f"{{{','.join(f'{_quoted(n)}:{text_of(value[n], inner)}' for n, inner in kind.fields)}}}"
    if isinstance(kind, Decimal):
        return format(value, "f")
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else _quoted(str(value))
    if isinstance(value, int):
        return str(value)
    return _quoted(_text(value))


def _key(value: Any) -> str:
    return _quoted(_text(value) if not isinstance(value, bool) else str(value).lower())


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return format(value, "f") if isinstance(value, decimal.Decimal) else str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
