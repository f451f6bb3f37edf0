"""Columns for fields that no column takes: their types from what the fields held, and the YAML lines to add.

Types are wide rather than tight: a column of a table that has files cannot grow from int to bigint later on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core.base.hivetypes import parse
from tidegate.core.spec import paths
from tidegate.core.spec.pipeline import TIME_PARTITIONS

MOST_FIELDS = 60
"""Keys of an object up to which it is a struct; with more, or odd ones, it is a map."""
LONGEST_TYPE = 2000
"""Characters of a type that a metastore takes in any case."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_STEP = re.compile(r"""\.(?:([^.\[\]"\s]+)|"((?:[^"\\]|\\.)*)")|(\[\])""")
_ELEMENTS = "[]"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)?")
_PLAIN = re.compile(r"[A-Za-z_$][\w.$@+~/-]*", re.ASCII)
_WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}
_NOTHING = ""


@dataclass(frozen=True)
class Proposal:
    """A column for a field. `seen`: how many values it was judged by; `note`: what its author must know."""

    field: str
    column: str
    type: str
    seen: int = 1
    note: str = ""

    @property
    def line(self) -> str:
        """An item of `columns`, as YAML; a comment if no path can name the field."""
        keys = keys_of(self.field)
        if _ELEMENTS in keys and len(keys) > 1:
            return f"# the field {json.dumps(self.field)} is inside of an array or a map: add it to that column's type"
        if not all(keys):
            return f"# the field {json.dumps(self.field)} cannot be named in a path"
        kind = self.type if re.fullmatch(r"\w+", self.type) else f'"{self.type}"'
        path = "" if (self.column,) == keys else f", from: {scalar(paths.path_of(keys))}"
        note = f"  # {self.note}" if self.note else ""
        return f"- {{name: {scalar(self.column)}, type: {kind}{path}}}{note}"

    @property
    def usable(self) -> bool:
        return not self.line.startswith("#")


def keys_of(field: str) -> tuple[str, ...]:
    """The keys from the top of the message down to an unknown field, `[]` for elements. One inside of another is named
    by its path, one at the top by its key."""
    if not field.startswith("$."):
        return (field,)
    return tuple(m[3] or m[1] or paths.unquoted(m[2]) for m in _STEP.finditer(field))


def propose(
    field: str,
    examples: Iterable[str],
    taken: Iterable[str] = (),
    seen: int | None = None,
    declared: str | None = None,
) -> Proposal:
    """Propose a column from the field's values as compact JSON texts (what is no JSON is text). `taken`: names that
    columns have; `seen`: of how many values these are examples; `declared`: the type by the messages' schema."""
    texts: list[str] = []
    try:
        texts += examples
        kind, note = (declared, "") if declared is not None else _judged(texts)
    except RecursionError:
        kind, note = "string", "nested too deeply for a type; records with anything but text are dirty"
    column = _column("_".join(keys_of(field)), {t.lower() for t in taken})
    return Proposal(field, column, kind, len(texts) if seen is None else seen, note)


def _judged(texts: Sequence[str]) -> tuple[str, str]:
    """A type, and what its author must know."""
    kinds = {_kind(_value(text)) for text in texts} - {_NOTHING}
    if not kinds:
        return "string", "only null was seen"
    kind = _common(kinds)
    if kind is not None and len(kind) > LONGEST_TYPE:
        return "string", "too long for a type; records with anything but text are dirty"
    if kind is None:
        return "string", f"seen: {', '.join(sorted(kinds))}; records with anything but text are dirty"
    return kind, ""


def sample_ranges(
    partitions: Mapping[int, tuple[int, int]], records: int, refused: tuple[int, int] | None = None
) -> list[tuple[int, int, int]]:
    """(partition, start, end) of about so many records: the newest of each Kafka partition, of which `partitions` says
    where it begins and ends; before them those that follow `refused`, (partition, offset), where a batch stopped."""
    share = max(1, records // (len(partitions) + (refused is not None) or 1))
    ranges = []
    if refused is not None and refused[0] in partitions:
        begin, end = partitions[refused[0]]
        start = min(max(refused[1], begin), end)
        ranges.append((refused[0], start, min(end, start + share)))
    ranges += [(p, max(begin, end - share), end) for p, (begin, end) in sorted(partitions.items())]
    return [r for r in ranges if r[2] > r[1]]


def advice(proposals: Sequence[Proposal], pipeline: str) -> str:
    """What to do about fields that stopped a batch, in one line."""
    lines = [p.line for p in proposals if p.usable]
    add = f"add to columns: {' and '.join(lines)}; or " if lines else ""
    return (
        f"{add}run `tidegate schema propose {pipeline} --write`, or set format.unknown_fields to capture or ignore; "
        "then clear the task: the same offsets are read again"
    )


def value_of(text: str) -> Any:
    """What a field's compact JSON text holds; what is no JSON is text."""
    return _value(text)


def types_of(values: Iterable[Any]) -> set[str]:
    """The Hive types of values; null has none."""
    return {_kind(value) for value in values} - {_NOTHING}


def common_type(types: set[str]) -> str | None:
    """The narrowest type that takes all of them; string for none; None where there is no such type."""
    return _common(types)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _kind(value: Any) -> str:
    """A Hive type for one value; nothing for null."""
    if value is None:
        return _NOTHING
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return "bigint"
        return "decimal(38,0)" if abs(value) < 10**38 else "double"
    if isinstance(value, float):
        return "double"
    if isinstance(value, str):
        return "date" if _DATE.fullmatch(value) else "timestamp" if _INSTANT.fullmatch(value) else "string"
    if isinstance(value, list):
        return f"array<{_of_all(value)}>"
    return _of_object(value)


def _of_all(values: Iterable[Any]) -> str:
    kinds = {_kind(v) for v in values} - {_NOTHING}
    return _common(kinds) or "string"


def _of_object(value: dict[str, Any]) -> str:
    named = all(_IDENTIFIER.fullmatch(key) and key == key.lower() for key in value)
    if value and named and len(value) <= MOST_FIELDS:
        fields = (f"{key}:{_kind(v) or 'string'}" for key, v in sorted(value.items()))
        return f"struct<{','.join(fields)}>"
    return f"map<string,{_of_all(value.values())}>"


def _common(kinds: set[str]) -> str | None:
    """The narrowest type that takes all of them; string for none; None where there is no such type."""
    if len(kinds) <= 1:
        return next(iter(kinds), "string")
    if kinds <= {"bigint", "double", "decimal(38,0)"}:
        return "double" if "double" in kinds else "decimal(38,0)"
    if kinds <= {"date", "timestamp", "string"}:
        return "string"
    if all(k.startswith("struct<") for k in kinds):
        return _joined(kinds)
    if all(k.startswith("array<") for k in kinds):
        element = _common({k[6:-1] for k in kinds})
        return element and f"array<{element}>"
    return None


def _joined(kinds: set[str]) -> str | None:
    """Objects that lack some of each other's fields."""
    fields: dict[str, set[str]] = {}
    for kind in sorted(kinds):
        for name, field in parse(kind).fields:  # type: ignore[union-attr]
            fields.setdefault(name, set()).add(str(field))
    joined = {name: _common(found) for name, found in sorted(fields.items())}
    if len(joined) > MOST_FIELDS or None in joined.values():
        return None
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in joined.items())}>"


def _column(field: str, taken: set[str]) -> str:
    """A name for the column: the field's own, if Hive can have it and no other column does."""
    name = re.sub(r"\W+", "_", field, flags=re.ASCII).strip("_").lower()
    if not _IDENTIFIER.fullmatch(name):
        name = f"field_{name}".rstrip("_")
    name = name[:100]
    while name in taken or name in TIME_PARTITIONS:
        name += "_field"
    return name


def scalar(text: str) -> str:
    """A text as YAML: in quotes where YAML would read something else without them."""
    plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)
