"""Columns for a topic that no pipeline reads yet: a field of a message, nested or not, becomes a column with its type.

The types are those of `core.spec.proposals`; this module finds the fields and decides what becomes a column of its own.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.core.base.wording import many
from tidegate.core.spec import proposals
from tidegate.core.spec.paths import is_plain, path_of
from tidegate.core.spec.proposals import scalar

MOST_COLUMNS = 300
LONGEST_PATH = 128
MOST_ODD = 0.05
"""Share of the values (null left out) that may be odd without deciding a type: they would be dirty, and are told."""
DEEPEST = 8
"""Levels of objects that are taken apart; what lies deeper is one struct."""
_FEW_KEYS = 20
_SCALARS = {"boolean", "bigint", "double", "decimal(38,0)", "string", "date", "timestamp"}
_NUMBERS = {"bigint", "double", "decimal(38,0)"}
_KINDS = {"boolean": "true or false", "string": "text", **dict.fromkeys(_NUMBERS, "number")}
_CODE = re.compile(r"0\d+")

Path = tuple[str, ...]


@dataclass(frozen=True)
class Message:
    """A record of the sample. `fields`: top-level field -> its value as compact JSON text (what is no JSON is text);
    None: the message cannot be decoded."""

    partition: int
    offset: int
    kafka_ms: int
    fields: Mapping[str, str | None] | None


@dataclass
class Field:
    """What the messages have at one place: `seen` counts nulls too; `values` leaves them out."""

    seen: int = 0
    nulls: int = 0
    values: list[Any] = field(default_factory=list)
    children: dict[str, Field] = field(default_factory=dict)

    @property
    def objects(self) -> bool:
        """Whether there are objects and nothing else, but for so few messages that these may be dirty."""
        others = sum(not isinstance(v, dict) for v in self.values)
        return bool(self.values) and others <= MOST_ODD * len(self.values)

    @property
    def told(self) -> str:
        """`998 of the messages have it, 2 of them null`, without the total."""
        return f"{self.seen:,}" + (f", {self.nulls:,} null" if self.nulls else "")


@dataclass(frozen=True)
class DraftColumn:
    """A column of the draft: `path` is what stands behind `from`. `why` becomes its comment; `values` of the sample
    decided its type."""

    name: str
    type: str
    path: str
    why: str
    convert: bool = False
    values: int = 0

    @property
    def line(self) -> str:
        """The item of `columns`, without its comment."""
        kind = self.type if self.type.replace("_", "").isalnum() else f'"{self.type}"'
        place = "" if self.path == f"$.{self.name}" else f", from: {scalar(self.path)}"
        return f"- {{name: {scalar(self.name)}, type: {kind}{place}{', convert: text' if self.convert else ''}}}"

    def wider(self) -> DraftColumn | None:
        """The column that takes values which this one refuses; None where no type takes more."""
        if self.convert or self.type not in _SCALARS:
            return None
        return replace(self, type="string", convert=True, why=f"{self.why}; not every value fits {self.type}")


@dataclass(frozen=True)
class Columns:
    """`left`: fields that get no column, each with the reason."""

    columns: tuple[DraftColumn, ...]
    left: tuple[str, ...] = ()


def fields_of(messages: Sequence[Message]) -> Field:
    """The fields of all messages, as a tree."""
    root = Field()
    for fields in (message.fields for message in messages if message.fields is not None):
        _add(root, {name: None if text is None else proposals.value_of(text) for name, text in fields.items()}, 0)
    return root


def _add(node: Field, value: Any, depth: int) -> None:
    node.seen += 1
    if value is None:
        node.nulls += 1
        return
    node.values.append(value)
    if isinstance(value, dict) and depth <= DEEPEST:
        for key, inner in value.items():
            _add(node.children.setdefault(key, Field()), inner, depth + 1)


def leaves(root: Field) -> dict[Path, Field]:
    """Every place that a path can name and that is no object, in the order in which they were met."""
    return {path: leaf for path, leaf in _places(root, ()) if _reachable(path)}


def _places(node: Field, path: Path) -> Iterator[tuple[Path, Field]]:
    """Every place that is no object taken apart, whether a path can name it or not."""
    for name, child in node.children.items():
        if name and _apart(child, len(path)):
            yield from _places(child, (*path, name))
        else:
            yield (*path, name), child


def _reachable(path: Path) -> bool:
    return bool(path[-1]) and len(path_of(path)) <= LONGEST_PATH


def columns_of(root: Field, messages: int, text_only: bool) -> Columns:
    """Columns for every field, of a sample of so many decoded messages. `text_only`: the format holds nothing but text
    (CSV), so that a string column takes every value."""
    made: list[DraftColumn] = []
    left: list[str] = []
    for path, leaf in _places(root, ()):
        if not _reachable(path):
            left.append(f"{json.dumps('.'.join(path))[:80]}: no path can name it")
            continue
        if len(made) >= MOST_COLUMNS:
            left.append(f"{path_of(path)}: more than {MOST_COLUMNS} columns")
            continue
        column = _column(path, leaf, messages, [c.name for c in made], text_only)
        if isinstance(column, str):
            left.append(f"{path_of(path)}: {column}")
        else:
            made.append(column)
    return Columns(tuple(made), tuple(left))


def _column(path: Path, leaf: Field, messages: int, taken: Sequence[str], text_only: bool) -> DraftColumn | str:
    """The column, or why there is none."""
    usual, odd = _majority(leaf.values, text_only)
    proposal = proposals.propose("_".join(path), map(json.dumps, usual), taken)
    map_type = _map_type(leaf) if leaf.objects and _is_map(leaf) else None
    if map_type is not None:
        proposal = replace(proposal, type=map_type, note="")
    why = f"in {leaf.seen:,} of {many(messages, 'message')}" + (f", {leaf.nulls:,} null" if leaf.nulls else "")
    if "dirty" not in proposal.note:
        note = f"; {proposal.note}" if proposal.note else ""
        note += _told(odd, proposal.type)
        return DraftColumn(proposal.column, proposal.type, path_of(path), why + note, values=len(leaf.values))
    kinds = set(map(_kind, leaf.values))
    if kinds <= _SCALARS:
        told = f"{why}; as {' and '.join(sorted(kinds))}"
        return DraftColumn(proposal.column, "string", path_of(path), told, not text_only, len(leaf.values))
    return f"{why}, {proposal.note.partition(';')[0]}: no type takes them all"


def _majority(values: Sequence[Any], text_only: bool) -> tuple[Sequence[Any], list[Any]]:
    """The values that decide the type, and the few odd ones that do not; all of them where none are few, and where
    most are plain text, which takes the others too."""
    by_word: dict[str, list[Any]] = defaultdict(list)
    for value in values:
        by_word[_word(value)].append(value)
    most = max(by_word, key=lambda word: len(by_word[word]), default="")
    usual, odd = by_word[most], [value for word, found in by_word.items() if word != most for value in found]
    if most == "text" or len(odd) > MOST_ODD * len(values):
        return values, []
    if text_only and any(isinstance(value, str) and _CODE.fullmatch(value) for value in odd):
        return values, []  # CSV: `007` among numbers is a code that lost its zeros elsewhere
    return usual, odd


def _kind(value: Any) -> str:
    """The value's Hive type; of arrays and objects only that they are."""
    if isinstance(value, list | dict):
        return "array" if isinstance(value, list) else "object"
    return next(iter(proposals.types_of([value])))


def _word(value: Any) -> str:
    """What a value is, for people: all numbers are one thing."""
    kind = _kind(value)
    return _KINDS.get(kind, kind)


def _told(odd: Sequence[Any], kind: str) -> str:
    """What becomes of the odd values in a column of that type."""
    read = [v for v in odd if kind == "timestamp" and _kind(v) == "bigint"]
    dirty = [_word(v) for v in odd if kind != "timestamp" or _kind(v) != "bigint"]
    told = f"; {len(dirty):,} would be dirty: {', '.join(sorted(set(dirty)))}" if dirty else ""
    return told + (f"; {many(len(read), 'number')} would be read as epoch milliseconds" if read else "")


def _apart(node: Field, depth: int) -> bool:
    """Whether an object becomes a column for each of its fields, rather than one column."""
    if not node.objects or not node.children or depth + 1 >= DEEPEST:
        return False
    return not _is_map(node) or _map_type(node) is None


def _is_map(node: Field) -> bool:
    """Whether the keys look like data: many of them, each in few messages, or such as no path can name."""
    keys = len(node.children)
    rare = keys > _FEW_KEYS and sum(child.seen for child in node.children.values()) < 0.1 * keys * node.seen
    return keys > proposals.MOST_FIELDS or rare or not all(map(is_plain, node.children))


def _map_type(node: Field) -> str | None:
    """None where the values have no type in common, or are nested too deeply for one."""
    try:
        kind = proposals.common_type(proposals.types_of(v for child in node.children.values() for v in child.values))
    except RecursionError:
        return None
    return kind and f"map<string,{kind}>"
