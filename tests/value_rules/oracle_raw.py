"""The oracle for raw records. A message stands for a record's key, value and headers at once."""

from __future__ import annotations

from tests.value_rules.oracle_json import PlainColumn, PlainSpec, Refused, Row

Header = tuple[str, bytes | None]


def parts(message: bytes | None) -> tuple[bytes | None, bytes | None, list[Header] | None]:
    """Key, value, headers that a message stands for."""
    if message is None:
        return None, None, None
    middle = len(message) // 2
    headers: list[Header] = [("h", message[:3]), ("h", None), ("ü", b"")][: len(message) % 4]
    return message[:middle], message[middle:], headers or None


def read(spec: PlainSpec, message: bytes | None) -> Row | Refused:
    key, value, headers = parts(message)
    shown = None if headers is None else [{"name": name, "value": content} for name, content in headers]
    whole = {"key": key, "value": value, "headers": shown}
    refused = [(column, why) for column in spec.columns if (why := _refusal(column, whole[column.path[0]]))]
    if refused:
        return Refused(refused[0][1], refused[0][0].name)
    values = {c.name: _kept(whole[c.path[0]], c.type) for c in spec.columns}
    return Row(values, None)


def _refusal(column: PlainColumn, part: object) -> str:
    if part is None:
        return "" if column.nullable else "null"
    if column.type == "string" and isinstance(part, bytes):
        try:
            part.decode("utf-8")
        except UnicodeDecodeError:
            return "utf8"
    return ""


def _kept(part: object, kind: str) -> object:
    return part.decode("utf-8") if kind == "string" and isinstance(part, bytes) else part
