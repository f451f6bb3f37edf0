"""Values of engine and oracle in one form, and as the page writes them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Context
from typing import Any

from tests.value_rules.oracle_values import Kind

_EXACT = Context(prec=200)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def plain(value: Any, kind: Kind) -> Any:
    """What PyArrow's `as_py` gives, in the oracle's form: unscaled decimals, days, microseconds."""
    if value is None:
        return None
    name, detail = kind
    if name == "decimal":
        return int(value.scaleb(detail[1], _EXACT))
    if name == "date":
        return (value - date(1970, 1, 1)).days
    if name == "timestamp":
        return (value - _EPOCH) // timedelta(microseconds=1)
    if name == "array":
        return [plain(item, detail) for item in value]
    if name == "map":
        return [(plain(key, detail[0]), plain(item, detail[1])) for key, item in value]
    if name == "struct":
        return {field: plain(value[field], inner) for field, inner in detail}
    return value


def exact(value: Any) -> Any:
    """A plain value such that equal means the same: minus zero is not zero, true is not 1."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, tuple):
        return tuple(exact(item) for item in value)
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    return value


def shown(value: Any, kind: Kind) -> str:
    """A plain value as the page writes it."""
    name, detail = kind
    if value is None:
        return "null"
    if name == "decimal":
        return _decimal(value, detail[1])
    if name == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if name == "timestamp":
        return (_EPOCH + timedelta(microseconds=value)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if name == "array":
        return "[" + ", ".join(shown(item, detail) for item in value) + "]"
    if name == "map":
        return "[" + ", ".join(f"({shown(k, detail[0])}, {shown(v, detail[1])})" for k, v in value) + "]"
    if name == "struct":
        return "{" + ", ".join(f'"{field}": {shown(value[field], inner)}' for field, inner in detail) + "}"
    if name == "string":
        return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in value) + '"'
    if name == "binary":
        return "x" + value.hex()
    return str(value).lower() if name == "boolean" else repr(value)


def _decimal(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return "-" + text if unscaled < 0 else text
