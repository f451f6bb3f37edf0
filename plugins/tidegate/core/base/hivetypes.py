"""Hive type strings, parsed: `decimal(10,2)`, `array<struct<sku:string,prices:map<string,double>>>`.

The spec validates column types with it, the engine derives parsers and file schemas from it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

PRIMITIVES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
)
_ALIASES = {"integer": "int"}
_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|`[^`]+`|\d+|[<>(),:])")
_DEFAULT_PRECISION, _DEFAULT_SCALE, _MAX_PRECISION = 10, 0, 38


@dataclass(frozen=True)
class Primitive:
    """`name` is one of PRIMITIVES."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Decimal:
    """`precision` digits in all (1 to 38), `scale` of them behind the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True)
class Array:
    element: HiveType

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True)
class Map:
    """Keys are primitive (Hive's rule); a JSON object only has string keys."""

    key: HiveType
    value: HiveType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True)
class Struct:
    """Field names are lower case, as Hive keeps them."""

    fields: tuple[tuple[str, HiveType], ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{name}:{kind}' for name, kind in self.fields)}>"


HiveType = Primitive | Decimal | Array | Map | Struct


@functools.lru_cache(4096)
def parse(text: str) -> HiveType:
    """The type that `text` spells, in any case and spacing; `str()` of the result is the canonical spelling.

    Raises ValueError with what was expected and the whole text.
    """
    parser = _Parser(text)
    kind = parser.type()
    parser.end()
    return kind


def is_primitive(kind: HiveType) -> bool:
    """Whether a value is a scalar: the types that can be partition columns or map keys."""
    return isinstance(kind, Primitive | Decimal)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._tokens, at = text, [], 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if not match:
                raise ValueError(f"type {text!r}: unexpected {stripped[at:].lstrip()[:1]!r}")
            self._tokens.append(match.group(1))
            at = match.end()
        self._at = 0

    def type(self) -> HiveType:
        word = self._next("a type").lower()
        name = _ALIASES.get(word, word)
        if name in PRIMITIVES:
            return Primitive(name)
        builders: dict[str, Callable[[], HiveType]] = {
            "decimal": self._decimal,
            "array": self._array,
            "map": self._map,
            "struct": self._struct,
        }
        builder = builders.get(name)
        if builder is None:
            known = ", ".join((*PRIMITIVES, "decimal(p,s)", "array<>", "map<,>", "struct<>"))
            raise ValueError(f"type {self._text!r}: {word!r} is not a type; there are {known}")
        return builder()

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise ValueError(f"type {self._text!r}: {self._tokens[self._at]!r} after its end")

    def _decimal(self) -> Decimal:
        precision, scale = _DEFAULT_PRECISION, _DEFAULT_SCALE
        if self._take("("):
            precision, scale = self._number("a precision"), 0
            if self._take(","):
                scale = self._number("a scale")
            self._expect(")")
        if not 1 <= precision <= _MAX_PRECISION:
            raise ValueError(f"type {self._text!r}: decimal precision must be 1 to {_MAX_PRECISION}, not {precision}")
        if scale > precision:
            raise ValueError(f"type {self._text!r}: decimal scale {scale} is larger than its precision {precision}")
        return Decimal(precision, scale)

    def _array(self) -> Array:
        self._expect("<")
        element = self.type()
        self._expect(">")
        return Array(element)

    def _map(self) -> Map:
        self._expect("<")
        key = self.type()
        if not is_primitive(key):
            raise ValueError(f"type {self._text!r}: a map's key must be primitive, not {key}")
        self._expect(",")
        value = self.type()
        self._expect(">")
        return Map(key, value)

    def _struct(self) -> Struct:
        self._expect("<")
        fields: list[tuple[str, HiveType]] = []
        while not fields or self._take(","):
            name = self._next("a field name").strip("`").lower()
            if not re.match(r"[a-z0-9_]", name):
                raise ValueError(f"type {self._text!r}: expected a field name, not {name!r}")
            if name in dict(fields):
                raise ValueError(f"type {self._text!r}: struct field {name!r} twice")
            self._expect(":")
            fields.append((name, self.type()))
        self._expect(">")
        return Struct(tuple(fields))

    def _next(self, wanted: str) -> str:
        if self._at >= len(self._tokens):
            raise ValueError(f"type {self._text!r}: expected {wanted}, not the end")
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, token: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == token:
            self._at += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        found = self._next(repr(token))
        if found != token:
            raise ValueError(f"type {self._text!r}: expected {token!r}, not {found!r}")

    def _number(self, wanted: str) -> int:
        token = self._next(wanted)
        if not token.isdigit():
            raise ValueError(f"type {self._text!r}: expected {wanted}, not {token!r}")
        return int(token)


def canonical_type(text: str) -> str:
    """One spelling for each type; any other one (varchar) as it is, in lower case."""
    try:
        return str(parse(text))
    except ValueError:
        return text.lower()
