"""Which type of a database's column becomes which Hive type, and how: the same values as decoded change events have.

| family | types of MariaDB, MySQL | types of PostgreSQL | becomes |
|---|---|---|---|
| integer | tinyint to bigint, unsigned, year | smallint, integer, bigint | integers, decimal, double, string |
| boolean | tinyint(1) too, bit(1) | boolean, bit(1) | boolean |
| decimal | decimal | numeric | decimal, string (as it stands there), double; without a fraction also integers |
| float4, float8 | float, double | real, double precision | float, double: each only its own; float(m,d) both |
| text | char, varchar, text, enum, set | char, varchar, text, enums, json, jsonb, uuid, inet | string |
| json | json of MySQL | | string (as events have it) |
| bytes | binary, varbinary, blob | bytea | binary, string (Base64) |
| date | date | date | date, int and bigint (days since 1970) |
| datetime | datetime | timestamp | timestamp (as if UTC), bigint (since 1970: ms if it has up to 3 digits, else us) |
| instant | timestamp | timestamp with time zone | timestamp, string (2026-01-02T03:04:05Z) |

What is not here is refused by name, and so is each value that its type does not hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tidegate.core.base.hivetypes import Decimal, HiveType, parse
from tidegate.core.copy.port import SourceColumn
from tidegate.core.files.failure import refuse

Bytes = Literal["bytes", "base64"]
INTEGERS = ("tinyint", "smallint", "int", "bigint")
_WORDS = re.compile(
    r"([a-z_][a-z0-9_ ]*?)\s*(?:\(([0-9]+)(?:,([0-9]+))?\))?((?: unsigned| zerofill| with(?:out)? time zone)*)"
    r"(?: character set ([a-z0-9]+))?$"
)
IN_EVENTS = {"latin1": ("\x81\x8d\x8f\x90\x9d", "\ufffd"), "gbk": ("\u2295", "\u2641")}
"""Of character sets (`mariadb.charsets`) which characters of the database, any of them, are another one in events."""


@dataclass(frozen=True)
class Family:
    """What a column's type is, whichever database has it. `digits`: of a decimal in all, or of a second's fraction;
    `scale`: of them behind the point; None: the type sets no limit."""

    name: str
    digits: int | None = None
    scale: int | None = None
    unsigned: bool = False
    padded: bool = False
    """Zeros are put before the number: a text of it is another one than the event's."""
    word: str = ""
    """The database's own word for it."""
    charset: str = ""
    """Of a text some of whose characters are others in events, as `IN_EVENTS` has them."""


@dataclass(frozen=True)
class Conversion:
    """How a column's text becomes the wanted type. `how`: a step after its parsing (`arrow.py`), or empty."""

    column: SourceColumn
    family: Family
    wanted: HiveType
    how: str = ""


_MARIADB = {
    **{word: "integer" for word in ("tinyint", "smallint", "mediumint", "int", "bigint", "year")},
    **{word: "text" for word in ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")},
    **{word: "bytes" for word in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")},
    **{"decimal": "decimal", "float": "float4", "double": "float8", "bit": "bit", "json": "json"},
    **{"date": "date", "datetime": "datetime", "timestamp": "instant"},
}
_POSTGRESQL = {
    **{word: "integer" for word in ("smallint", "integer", "bigint")},
    **{word: "text" for word in ("character", "character varying", "text", "enum", "json", "jsonb", "uuid", "inet")},
    **{"bytea": "bytes", "numeric": "decimal", "real": "float4", "double precision": "float8", "boolean": "boolean"},
    **{"bit": "bit", "date": "date", "timestamp": "datetime"},
}
_FAMILIES = {"mariadb": _MARIADB, "postgresql": _POSTGRESQL, "jdbc": _POSTGRESQL}
"""A driver's types of JDBC are named as PostgreSQL's (`databases.jdbc.columns`)."""


def family(kind: str, text: str) -> Family | None:
    """None: there is no rule for this type."""
    match = _WORDS.match(text)
    if match is None:
        return None
    word, first, second, more, charset = match.groups()
    name = _FAMILIES[kind].get(word)
    digits = int(first) if first else None
    unsigned = "unsigned" in more
    if name == "datetime" and "with time zone" in more:
        name = "instant"
    if name == "bit":
        name = "boolean" if digits == 1 else None
    if name is None or (charset is not None and charset not in IN_EVENTS):
        return None
    if name in ("datetime", "instant") and digits is None:
        digits = 0 if kind == "mariadb" else 6
    scale = int(second) if second else (0 if name == "decimal" and digits is not None else None)
    return Family(name, digits, scale, unsigned, "zerofill" in more, word, charset or "")


def conversion(kind: str, column: SourceColumn, wanted: str, binary: Bytes = "bytes") -> Conversion:
    """Raises JobError, refused, for a type that does not become the wanted one."""
    hive, found = parse(wanted), family(kind, column.type)
    if found is None:
        raise refuse(
            f"column {column.name} of the source is {column.type}: there is no rule by which it becomes {hive}",
            advice="leave the column out, or give it another type in the source",
            field=column.name,
        )
    how = _how(found, hive, binary)
    if how is None:
        others = _others(found)
        raise refuse(
            f"column {column.name} of the source is {column.type}: it does not become {hive}",
            advice=f"declare the column as {others}",
            field=column.name,
        )
    return Conversion(column, found, hive, how)


def _how(found: Family, hive: HiveType, binary: Bytes) -> str | None:
    if isinstance(hive, Decimal):
        return _to_decimal(found, hive)
    word = getattr(hive, "name", "")
    if found.name == "integer":
        return _integer(found, word)
    if found.name == "decimal":
        return _decimal(found, word)
    plain = {"boolean": "boolean", "float4": "float", "float8": "double", "text": "string", "date": "date"}
    if plain.get(found.name) == word:
        return "finite" if word in ("float", "double") else found.charset
    if found.name == "float4" and found.scale is not None and word == "double":
        return "finite"  # a connector takes FLOAT(m,d) for a double
    if found.name == "json":
        return "json" if word == "string" else None
    if found.name == "bytes":
        return {"binary": "bytes" if binary == "bytes" else "base64_bytes", "string": "base64"}.get(word)
    if found.name == "date":
        return "days" if word in ("int", "bigint") else None
    if found.name in ("datetime", "instant") and word == "timestamp":
        return "utc"
    if found.name == "instant" and word == "string":
        return "iso"
    if found.name == "datetime" and word == "bigint":
        return "ms" if (found.digits or 0) <= 3 else "us"
    return None


def _integer(found: Family, word: str) -> str | None:
    if word in INTEGERS:
        return ""
    if word == "double":
        return "finite"
    if word == "boolean":
        return "" if (found.word, found.digits) == ("tinyint", 1) else None
    # an unsigned bigint is Base64 in an event's text
    if word == "string" and not found.padded and not (found.unsigned and found.word == "bigint"):
        return ""
    return None


def _decimal(found: Family, word: str) -> str | None:
    if word == "double":
        return "finite"
    if word == "string":
        return None if found.padded else "number"
    return "" if word in INTEGERS and found.scale == 0 else None


_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "integer": 10, "bigint": 20, "year": 4}


def _to_decimal(found: Family, hive: Decimal) -> str | None:
    """Values of a narrower type fit all of them; of another one each is looked at."""
    if found.name == "integer":
        digits, scale = _INTEGER_DIGITS[found.word] - (found.word == "bigint" and not found.unsigned), 0
    elif found.name != "decimal":
        return None
    elif found.digits is None or found.scale is None:
        return "exact"
    else:
        digits, scale = found.digits, found.scale
    fits = scale <= hive.scale and digits - scale <= hive.precision - hive.scale
    return "" if fits else "exact"


def _others(found: Family) -> str:
    digits = found.digits if found.digits is not None and found.digits <= 38 else 38
    of = {
        "integer": "decimal(20,0)" if found.unsigned and found.word == "bigint" else "bigint",
        "boolean": "boolean", "decimal": f"decimal({digits},{found.scale or 0}) or string", "float4": "float",
        "float8": "double", "text": "string", "json": "string", "bytes": "binary",
        "date": "date, or int (days since 1970)",
        "datetime": "timestamp, or bigint (since 1970)", "instant": "timestamp",
    }  # fmt: skip
    return of[found.name]
