"""Which type a Hive type has in a relational database, and how it is written and read back.

| Hive type | PostgreSQL | MariaDB, MySQL |
|---|---|---|
| boolean | boolean | tinyint(1) |
| tinyint, smallint | smallint | tinyint, smallint |
| int, bigint | integer, bigint | int, bigint |
| float | real | double |
| double | double precision | double |
| decimal(p,s) | numeric(p,s) | decimal(p,s) |
| string | text | longtext (utf8mb4) |
| binary | bytea | longblob |
| date | date | date |
| timestamp | timestamp with time zone | datetime(6), UTC |
| array, map, struct | json | longtext, JSON |

A float of MariaDB shows six digits only, so a double holds it. JSON: structs and maps are objects whose keys are texts,
decimals are numbers with all their digits, timestamps ISO 8601 in UTC, binary is Base64, NaN is a text.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.hivetypes import Decimal, HiveType, Primitive, is_primitive, parse
from tidegate.core.copy.port import SourceColumn
from tidegate.databases.types import Conversion, Family

_STRING, _DOUBLE = Primitive("string"), Primitive("double")
_POSTGRESQL = {
    "boolean": ("boolean", "boolean"),
    "tinyint": ("smallint", "integer"),
    "smallint": ("smallint", "integer"),
    "int": ("integer", "integer"),
    "bigint": ("bigint", "integer"),
    "float": ("real", "float8"),
    "double": ("double precision", "float8"),
    "string": ("text", "text"),
    "binary": ("bytea", "bytes"),
    "date": ("date", "date"),
    "timestamp": ("timestamp with time zone", "instant"),
}
_MARIADB = {
    **_POSTGRESQL,
    "boolean": ("tinyint(1)", "boolean"),
    "tinyint": ("tinyint", "integer"),
    "int": ("int", "integer"),
    "float": ("double", "float8"),
    "double": ("double", "float8"),
    "string": ("longtext", "text"),
    "binary": ("longblob", "bytes"),
    "timestamp": ("datetime(6)", "datetime"),
}
_TABLES = {"postgresql": (_POSTGRESQL, "numeric", "json"), "mariadb": (_MARIADB, "decimal", "longtext")}
_HOW = {"bytes": "bytes", "instant": "utc", "datetime": "utc"}
"""Steps of `databases.arrow` behind the parsing of a text."""


@dataclass(frozen=True)
class Column:
    """`type`: in the database. `sent`: the Hive type of what is written, which is what is read back: a text in place of
    a nested value. `nested`: it is written as JSON."""

    name: str
    hive: HiveType
    type: str
    family: Family
    sent: HiveType
    nested: bool = False

    @property
    def conversion(self) -> Conversion:
        """How the text that the database shows of it becomes a value."""
        nullable = SourceColumn(self.name, self.type, True)
        return Conversion(nullable, self.family, self.sent, _HOW.get(self.family.name, ""))


def column(kind: str, name: str, hive: str) -> Column:
    """`kind`: of database. `hive`: the column's Hive type."""
    found = parse(hive)
    plain, decimal, json = _TABLES[kind]
    if not is_primitive(found):
        return Column(name, found, json, Family("text", word="json"), _STRING, nested=True)
    if isinstance(found, Decimal):
        family = Family("decimal", found.precision, found.scale, word=decimal)
        return Column(name, found, f"{decimal}({found.precision},{found.scale})", family, found)
    type_, family_name = plain[str(found)]
    wider = kind == "mariadb" and str(found) == "float"
    return Column(name, found, type_, Family(family_name, 6, word=type_), _DOUBLE if wider else found)


_WIDER = {
    "smallint": ("integer", "int", "bigint"),
    "tinyint": ("smallint", "int", "bigint"),
    "integer": ("bigint",),
    "int": ("bigint",),
    "real": ("double precision",),
}


def widens(before: str, after: str) -> bool:
    """Whether a column of one type in the database may become one of the other without losing a value."""
    if after in _WIDER.get(before, ()):
        return True
    old, new = _digits(before), _digits(after)
    return old is not None and new is not None and new[1] >= old[1] and new[0] - new[1] >= old[0] - old[1]


def _digits(text: str) -> tuple[int, int] | None:
    word, _, rest = text.partition("(")
    if word not in ("numeric", "decimal"):
        return None
    precision, _, scale = rest.rstrip(")").partition(",")
    return int(precision), int(scale)
