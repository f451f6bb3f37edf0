"""Parts of a keyed table that are read from the source again: keys from one to another, of whole numbers.

Whole numbers alone are in the same order everywhere: texts are ordered by the source's collation, which nobody else
knows, so that only the source can tell which of them lie between two others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.mirror.jobs import Position

WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
"""Hive types of columns by which a table has parts."""

_MOST = 2**63 - 1


@dataclass(frozen=True)
class OfServer:
    """Keys whose logical `column` is this name: those of one server (S11)."""

    column: str
    name: str


@dataclass(frozen=True)
class KeyPart:
    """Keys from `first` to `last`, both included, compared column by column. `columns`: logical columns, in the order
    of the source's primary key; no columns: all keys. `server`: of that one alone, where there are several."""

    columns: tuple[str, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    server: OfServer | None = field(default=None, metadata=LEFT_OUT)

    @property
    def lower(self) -> tuple[int, ...]:
        """The greatest key below `first`."""
        return (*self.first[:-1], self.first[-1] - 1)

    @property
    def words(self) -> str:
        """`id 7 to 9`, `server a`, `server a, id 7 to 9`."""
        of_server = [] if self.server is None else [f"server {self.server.name}"]
        names, first, last = (", ".join(map(str, one)) for one in (self.columns, self.first, self.last))
        return ", ".join([*of_server, *([f"{names} {first} to {last}"] if self.columns else [])])

    @property
    def of_columns(self) -> frozenset[str]:
        """Columns whose values say whether a key is one of these."""
        return frozenset(self.columns if self.server is None else (*self.columns, self.server.column))

    @property
    def bounds(self) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """The greatest key below, and the last one; None: no end on that side."""
        return (self.lower, self.last) if self.columns else (None, None)


def server_of(part: KeyPart | None) -> str:
    """The name of the server whose keys these are; empty where there is but one."""
    return "" if part is None or part.server is None else part.server.name


def is_all(part: KeyPart | None) -> bool:
    """Whether these are all keys: of the table, or of one of its servers."""
    return part is None or not part.columns


@dataclass(frozen=True)
class SweptPart:
    """S5 of a part: whatever is older than `below` says nothing of its keys any more."""

    part: KeyPart
    below: Position


def key_part(columns: Sequence[str], first: str, last: str) -> KeyPart:
    """The part that two keys name, both included: a value of each column, with commas between. Raises ValueError."""
    ends = [_key(columns, text) for text in (first, last)]
    if ends[1] < ends[0]:
        raise ValueError(f"{last!r} is below {first!r}")
    return KeyPart(tuple(columns), ends[0], ends[1])


def _key(columns: Sequence[str], text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(value) for value in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is no key: whole numbers are needed for {', '.join(columns)}") from None
    if len(found) != len(columns):
        raise ValueError(f"{text!r} is no key: a value is needed for each of {', '.join(columns)}, with commas between")
    if any(abs(value) > _MOST for value in found):
        raise ValueError(f"{text!r} is no key: no column holds such a number")
    return found


def holds(part: KeyPart, key: Mapping[str, Any]) -> Any:
    """Whether the key lies in the part: one key, of ints by column (a server's name is a text), or many, of numpy
    arrays of one length."""
    values = [key[name] for name in part.columns]
    of_server = True if part.server is None else key[part.server.column] == part.server.name
    return of_server & _not_below(values, part.first) & _not_below(part.last, values)


def covers(wider: KeyPart | None, part: KeyPart | None) -> bool:
    """Whether each key of the part is one of the `wider` one. None: all keys."""
    if wider is None or part is None:
        return wider is None
    if wider.server != part.server:
        return False
    return not wider.columns or (
        wider.columns == part.columns and wider.first <= part.first and part.last <= wider.last
    )


def swept_below(key: Mapping[str, Any], everywhere: Position, parts: Sequence[SweptPart]) -> tuple[Any, Any, Any]:
    """S5: the position below which nothing is said of the key any more; as `holds`, element by element.

    `everywhere`: that of the newest whole copy. `parts`: read after it, in the order in which they were swept: no LOW
    falls from round to round, so that the last one that holds a key has the greatest position."""
    found: tuple[Any, Any, Any] = everywhere
    for one in parts:
        inside = holds(one.part, key)
        found = tuple(old + inside * (new - old) for old, new in zip(found, one.below, strict=True))
    return found


def _not_below(one: Sequence[Any], other: Sequence[Any]) -> Any:
    above, level = False, True
    for mine, theirs in zip(one, other, strict=True):
        above = above | (level & (mine > theirs))
        level = level & (mine == theirs)
    return above | level
