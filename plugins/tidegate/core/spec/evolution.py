"""How the columns of a table that has files may change: so that every reader still reads the old ones.

Held against Hive 4, Spark 3.5, DuckDB and PyArrow. Parquet's columns are found by name; Spark reads neither a 32-bit
integer as a wider one nor a float as a double. Hive finds ORC's columns by position, unless each reader's session says
otherwise, and a text file has no names at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.core.base.hivetypes import Array, Decimal, HiveType, Map, Primitive, Struct, canonical_type, parse

Columns = Sequence[tuple[str, str]]
"""(name, Hive type) in order."""

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_BY_NAME = ("parquet",)


@dataclass(frozen=True)
class Changes:
    """From the columns that are there to the wanted ones. `refused` says why not, a sentence for each reason.

    Dropped columns stay in the table and are null in new rows: old files keep what they hold."""

    added: tuple[tuple[str, str], ...] = ()
    widened: tuple[tuple[str, str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    reordered: bool = False
    refused: tuple[str, ...] = ()

    @property
    def alter_table(self) -> bool:
        """Whether the table has to change before data does."""
        return bool(self.added or self.widened)

    def words(self) -> list[str]:
        """What changes, for people."""
        found = [f"column {name} {kind} is new" for name, kind in self.added]
        found += [f"column {name} was {old}, is {new}" for name, old, new in self.widened]
        return found + [f"column {name} is dropped: it stays in the table, null in new rows" for name in self.dropped]


def changes(there: Columns, wanted: Columns, file_format: str, promotes: bool = False) -> Changes:
    """What `wanted` changes of a table whose files of `file_format` hold the columns `there`. `promotes`: its readers
    take an `int` of an old file for a `bigint`, whatever they do with files of that format elsewhere."""
    old = {name.lower(): canonical_type(kind) for name, kind in there}
    new = {name.lower(): canonical_type(kind) for name, kind in wanted}
    added = tuple((name, kind) for name, kind in new.items() if name not in old)
    dropped = tuple(name for name in old if name not in new)
    other = [(name, old[name], kind) for name, kind in new.items() if name in old and old[name] != kind]
    refused = [
        f"column {name} was {before}, is {after}: {why}"
        for name, before, after in other
        if not (promotes and _integer_grows(before, after))
        and (why := _objection(before, after, file_format)) is not None
    ]
    kept = [name for name in old if name in new]
    reordered = kept != [name for name in new if name in old]
    if file_format not in _BY_NAME and (added or dropped or reordered):
        what = ", ".join(
            [f"{name} is new" for name, _ in added]
            + [f"{name} is gone" for name in dropped]
            + ["another order"] * reordered
        )
        refused.append(f"columns of {file_format} files are found by their position, which must stay: {what}")
    return Changes(added, tuple(other), dropped, reordered, tuple(refused))


def grows(before: str, after: str) -> bool:
    """Whether `after` is the same kind of number with more room, so that each value of `before` is one of it, and the
    same: a wider integer, or a decimal with more digits before its point. Tables of others have types that are not
    known here: none of them."""
    try:
        old, new = parse(before), parse(after)
    except ValueError:
        return False
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return new.scale == old.scale and new.precision > old.precision
    return _integer_grows(str(old), str(new))


def can_grow(before: str, after: str, file_format: str, promotes: bool = False) -> bool:
    """Whether a column `grows` to `after`, and readers of old files of the format take it so; `promotes` as in
    `changes`."""
    return grows(before, after) and not changes((("", before),), (("", after),), file_format, promotes).refused


def _objection(before: str, after: str, file_format: str) -> str | None:
    """Why readers could not read old files any more; None if they can."""
    try:
        old, new = parse(before), parse(after)
    except ValueError:
        return "it is a type that Tidegate does not know"
    if _WIDENS.get(file_format, _never)(old, new):
        return None
    advice = "give the new type a column of its own name"
    if file_format == "parquet" and _orc_widens(old, new):
        return f"Spark 3.5 cannot read it from the Parquet files that are there; {advice}"
    return f"the files that are there cannot be read so; {advice}"


def _parquet_widens(old: HiveType, new: HiveType) -> bool:
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return new.scale == old.scale and new.precision >= old.precision
    if isinstance(old, Primitive) and isinstance(new, Primitive):
        return _integer_grows(old.name, new.name) and new.name != "bigint"
    return _fields_added(old, new)


def _orc_widens(old: HiveType, new: HiveType) -> bool:
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    if isinstance(old, Primitive) and isinstance(new, Decimal):
        return old.name in _DIGITS and new.precision - new.scale >= _DIGITS[old.name]
    if isinstance(old, Primitive) and isinstance(new, Primitive):
        return _integer_grows(old.name, new.name) or (old.name, new.name) == ("float", "double")
    return _fields_added(old, new)


def _never(old: HiveType, new: HiveType) -> bool:
    return False


_WIDENS: dict[str, Callable[[HiveType, HiveType], bool]] = {"parquet": _parquet_widens, "orc": _orc_widens}


def _integer_grows(old: str, new: str) -> bool:
    return old in _INTEGERS and new in _INTEGERS and _INTEGERS.index(new) > _INTEGERS.index(old)


def _fields_added(old: HiveType, new: HiveType) -> bool:
    """Structs may get fields at their end, also inside of arrays and of maps' values; all else stays as it is."""
    if isinstance(old, Struct) and isinstance(new, Struct):
        if len(new.fields) < len(old.fields):
            return False
        return all(
            a == b and (x == y or _fields_added(x, y)) for (a, x), (b, y) in zip(old.fields, new.fields, strict=False)
        )
    if isinstance(old, Array) and isinstance(new, Array):
        return old.element == new.element or _fields_added(old.element, new.element)
    if isinstance(old, Map) and isinstance(new, Map):
        return old.key == new.key and (old.value == new.value or _fields_added(old.value, new.value))
    return False
