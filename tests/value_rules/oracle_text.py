"""The oracle's JSON reader: bytes to a tree, by the page alone. Imports nothing of the engine, and not `json`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 500
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_NON_FINITE = re.compile(r"[+-]?(?:nan|infinity|inf)", re.IGNORECASE | re.ASCII)
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = frozenset("0123456789abcdefABCDEF")


class Dirty(Exception):
    """`category` is for the counts; `field` is empty when the message as a whole is at fault."""

    def __init__(self, category: str, field: str = "") -> None:
        super().__init__(category, field)
        self.category, self.field = category, field


@dataclass(frozen=True)
class Number:
    """As written; `whole`: without fraction and exponent."""

    text: str
    whole: bool


@dataclass(frozen=True)
class NonFinite:
    text: str


@dataclass
class Object:
    """Keys and values in the order of the message; a key may be there twice."""

    pairs: list[tuple[str, Any]]

    def twice(self) -> bool:
        return len({key for key, _ in self.pairs}) < len(self.pairs)

    def get(self, key: str) -> Any:
        return next((value for name, value in self.pairs if name == key), None)


def read_message(message: bytes | None) -> Object:
    """Raises Dirty without a field."""
    if message is None:
        raise Dirty("tombstone")
    try:
        text = message.decode("utf-8")
    except UnicodeDecodeError:
        raise Dirty("utf8") from None
    if not text.strip(" \t\r\n"):
        raise Dirty("empty")
    tree = read_text(text)
    if not isinstance(tree, Object):
        raise Dirty("top")
    if tree.twice():
        raise Dirty("duplicate")
    return tree


def read_text(text: str) -> Any:
    tree, at = _value(text, _space(text, 0), 1)
    if _space(text, at) < len(text):
        raise Dirty("trailing")
    return tree


def _space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """`depth` is the level that an array or object here would have."""
    first = text[at : at + 1]
    if first == '"':
        return _string(text, at + 1)
    if first == "{":
        if depth > MAX_DEPTH:
            raise Dirty("depth")
        pairs: list[tuple[str, Any]] = []
        at = _space(text, at + 1)
        if text[at : at + 1] == "}":
            return Object(pairs), at + 1
        while True:
            if text[at : at + 1] != '"':
                raise Dirty("syntax")
            key, at = _string(text, at + 1)
            at = _space(text, at)
            if text[at : at + 1] != ":":
                raise Dirty("syntax")
            value, at = _value(text, _space(text, at + 1), depth + 1)
            pairs.append((key, value))
            at = _space(text, at)
            after = text[at : at + 1]
            if after == "}":
                return Object(pairs), at + 1
            if after != ",":
                raise Dirty("syntax")
            at = _space(text, at + 1)
    if first == "[":
        if depth > MAX_DEPTH:
            raise Dirty("depth")
        items: list[Any] = []
        at = _space(text, at + 1)
        if text[at : at + 1] == "]":
            return items, at + 1
        while True:
            value, at = _value(text, at, depth + 1)
            items.append(value)
            at = _space(text, at)
            after = text[at : at + 1]
            if after == "]":
                return items, at + 1
            if after != ",":
                raise Dirty("syntax")
            at = _space(text, at + 1)
    return _scalar(text, at)


def _scalar(text: str, at: int) -> tuple[Any, int]:
    for word, value in (("null", None), ("true", True), ("false", False)):
        if text.startswith(word, at):
            return value, at + len(word)
    number = _NUMBER.match(text, at)
    if number:
        return Number(number.group(), not number.group(2)), number.end()
    odd = _NON_FINITE.match(text, at)
    if odd:
        return NonFinite(odd.group()), odd.end()
    raise Dirty("syntax")


def _string(text: str, at: int) -> tuple[str, int]:
    parts: list[str] = []
    while True:
        plain = _PLAIN.match(text, at)
        parts.append(plain.group())  # type: ignore[union-attr]
        at = plain.end()  # type: ignore[union-attr]
        first = text[at : at + 1]
        if first == '"':
            return "".join(parts), at + 1
        if first != "\\":
            raise Dirty("syntax")
        escape = text[at + 1 : at + 2]
        if escape in _SHORT:
            parts.append(_SHORT[escape])
            at += 2
        elif escape == "u":
            code, at = _unit(text, at), at + 6
            if 0xD800 <= code < 0xDC00 and text.startswith("\\u", at):
                low = _unit(text, at)
                if not 0xDC00 <= low < 0xE000:
                    raise Dirty("surrogate")
                code, at = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), at + 6
            if 0xD800 <= code < 0xE000:
                raise Dirty("surrogate")
            parts.append(chr(code))
        else:
            raise Dirty("syntax")


def _unit(text: str, at: int) -> int:
    """The four digits of an escape that begins at `at`."""
    digits = text[at + 2 : at + 6]
    if len(digits) < 4 or not _HEX.issuperset(digits):
        raise Dirty("syntax")
    return int(digits, 16)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def write_text(tree: Any) -> str:
    """Compact JSON text: numbers as they were written, the fewest escapes."""
    if tree is None or isinstance(tree, bool):
        return {None: "null", True: "true", False: "false"}[tree]
    if isinstance(tree, Number | NonFinite):
        return tree.text
    if isinstance(tree, str):
        return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in tree) + '"'
    if isinstance(tree, list):
        return "[" + ",".join(map(write_text, tree)) + "]"
    return "{" + ",".join(f"{write_text(key)}:{write_text(value)}" for key, value in tree.pairs) + "}"
