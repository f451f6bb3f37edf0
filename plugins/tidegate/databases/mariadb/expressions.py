"""What MariaDB or MySQL is asked for of a column whose values become those of a mirror."""

from __future__ import annotations

from typing import Any

from tidegate.core.copy.port import SourceTable
from tidegate.databases import sql
from tidegate.databases.mariadb import session
from tidegate.databases.types import Conversion

_Q = f"_utf8mb4 x'{ord(sql.RARE_QUOTE):02x}'"
_DEFAULTS = """
SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
AND COLUMN_DEFAULT IS NOT NULL AND TRIM(LEADING '''' FROM COLUMN_DEFAULT) NOT LIKE '0000%%'"""


def with_default(cursor: Any, table: SourceTable) -> set[str]:
    """Columns with a default: what a connector makes of a zero date there is that default."""
    cursor.execute(_DEFAULTS, (table.schema, table.name))
    return {row[0] for row in cursor.fetchall()}


def field(each: Conversion, has_default: bool) -> str:
    """Not IFNULL around it: a text that is too long for the server becomes NULL, and must not become an empty one."""
    name = session.column_name(each.column.name)
    found = text(each, name, has_default)
    return f"IF({name} IS NULL, '', {found})" if each.column.nullable else found


def text(each: Conversion, name: str, has_default: bool) -> str:
    family = each.family.name
    if family in ("text", "json"):
        return f"CONCAT({_Q}, REPLACE(CONVERT({name} USING utf8mb4), {_Q}, CONCAT({_Q}, {_Q})), {_Q})"
    if family == "bytes":
        return f"CONCAT({_Q}, HEX({name}), {_Q})"
    if family == "float4":
        return f"CAST({name} AS DOUBLE)"
    if family == "boolean":
        return f"CAST({name} AS UNSIGNED)"
    if family in ("date", "datetime", "instant"):
        return _time(each, name, has_default)
    return f"IF({name} = 0, 'zero', {name})" if each.family.word == "year" else name


def _time(each: Conversion, name: str, has_default: bool) -> str:
    """Connectors make of a year below 100 one of our time (enable.time.adjuster): the row is refused instead."""
    plain = f"CONCAT(REPLACE({name}, ' ', 'T'), 'Z')" if each.how == "iso" else name
    is_zero = " OR ".join(f"{part}({name}) = 0" for part in ("YEAR", "MONTH", "DAYOFMONTH"))
    others = f"IF({is_zero}, {_zero(each, name, has_default)}, 'year below 100')"
    return f"IF(YEAR({name}) >= 100 AND MONTH({name}) > 0 AND DAYOFMONTH({name}) > 0, {plain}, {others})"


def _zero(each: Conversion, name: str, has_default: bool) -> str:
    """What the connector makes of a zero date, as it streams: null, or the beginning of time where the column is NOT
    NULL; a default would take its place, which is not known here: the row is refused by what stands there."""
    fraction = f".{'0' * each.family.digits}" if each.family.digits else ""
    if each.family.name == "instant":
        return f"'1970-01-01T00:00:00{fraction}Z'" if each.how == "iso" else f"'1970-01-01 00:00:00{fraction}'"
    if each.column.nullable:
        return "''"
    begin = "1970-01-01" if each.family.name == "date" else f"1970-01-01 00:00:00{fraction}"
    return "'zero'" if has_default else f"'{begin}'"
