"""Types of JDBC -> names that `databases.types` has rules for, and how a value of each is asked for.

Times are asked for as `java.time`'s: those of `java.sql` change with the zone of the Java, and before 1582 by days."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.core.copy.port import SourceColumn
from tidegate.databases.jdbc.session import java
from tidegate.databases.types import Family

_TEXTS = (1, 12, -1, -15, -9, -16, 2005, 2011, 2009, -8)
_BYTES = (-2, -3, -4, 2004)
_PLAIN = {16: "boolean", -6: "smallint", 5: "smallint", 7: "real", 6: "double precision", 8: "double precision"}
_PLAIN |= {91: "date"} | dict.fromkeys(_TEXTS, "text") | dict.fromkeys(_BYTES, "bytea")
_ZONED = (2014, -101, -102, -155)
"""TIMESTAMP WITH TIME ZONE, and what Oracle's and SQL Server's drivers call theirs."""
_MICROSECONDS = 6
KEYS = ("integer", "text", "decimal", "date", "datetime")
"""Families of columns by which chunks are cut."""


def described(metadata: Any, number: int) -> SourceColumn:
    """The column of that number (from 1 on) of a `java.sql.ResultSetMetaData`."""
    nullable = int(metadata.isNullable(number)) != int(metadata.columnNoNulls)
    return SourceColumn(str(metadata.getColumnName(number)), _type(metadata, number), nullable)


def _type(metadata: Any, number: int) -> str:
    found = int(metadata.getColumnType(number))
    digits, scale = int(metadata.getPrecision(number)), int(metadata.getScale(number))
    signed = bool(metadata.isSigned(number))
    if found in (4, -5):
        return ("integer" if found == 4 else "bigint") if signed else ("bigint" if found == 4 else "numeric(20,0)")
    if found == -7:
        return "boolean" if digits <= 1 else f"bit({digits})"
    if found in (2, 3):  # Oracle's NUMBER has neither digits nor a scale
        return f"numeric({digits},{scale})" if digits > 0 and 0 <= scale <= digits else "numeric"
    if found in _ZONED or found == 93:
        fraction = scale if 0 <= scale <= _MICROSECONDS else _MICROSECONDS
        return f"timestamp({fraction}) with{'' if found in _ZONED else 'out'} time zone"
    return _PLAIN.get(found, str(metadata.getColumnTypeName(number)).lower())


def value_of(found: Family, how: str) -> Callable[[Any, int], str | None]:
    """What takes a column's value from a row of a `java.sql.ResultSet`, as `databases.arrow.Parser` reads it in CSV;
    None: null."""
    jpype = java()
    of = {"date": "LocalDate", "datetime": "LocalDateTime", "instant": "OffsetDateTime"}.get(found.name)
    if of is not None:
        return _time(jpype, of, how, found.digits or 0)
    return _VALUES[found.name]


def _time(jpype: Any, of: str, how: str, digits: int) -> Callable[[Any, int], str | None]:
    kind, zone = jpype.JClass(f"java.time.{of}").class_, jpype.JClass("java.time.ZoneOffset").UTC
    fraction, unit = f".{'S' * digits}" if digits else "", 10 ** (9 - digits)
    iso = jpype.JClass("java.time.format.DateTimeFormatter").ofPattern(f"uuuu-MM-dd'T'HH:mm:ss{fraction}'Z'")

    def take(rows: Any, number: int) -> str | None:
        value = rows.getObject(number, kind)
        if value is None or of != "OffsetDateTime":
            return None if value is None else str(value)
        utc = value.withOffsetSameInstant(zone)
        if how != "iso":
            return str(utc.toLocalDateTime())
        # more digits than its type has are cut by the pattern: all of them, for what reads it to refuse
        return str(utc if int(utc.getNano()) % unit else utc.format(iso))

    return take


def _integer(rows: Any, number: int) -> str | None:
    value = rows.getLong(number)
    return None if rows.wasNull() else str(value)


def _boolean(rows: Any, number: int) -> str | None:
    value = rows.getBoolean(number)
    return None if rows.wasNull() else "t" if value else "f"


def _float(rows: Any, number: int) -> str | None:
    value = rows.getDouble(number)
    return None if rows.wasNull() else repr(float(value))


def _single(rows: Any, number: int) -> str | None:
    value = rows.getFloat(number)
    return None if rows.wasNull() else repr(float(value))


def _decimal(rows: Any, number: int) -> str | None:
    value = rows.getBigDecimal(number)
    return None if value is None else str(value.toPlainString())


def _text(rows: Any, number: int) -> str | None:
    value = rows.getString(number)
    return None if value is None else f'"{str(value).replace(_QUOTE, _QUOTE * 2)}"'


def _bytes(rows: Any, number: int) -> str | None:
    value = rows.getBytes(number)
    return None if value is None else f'"{bytes(value).hex()}"'


_QUOTE = '"'
_VALUES: dict[str, Callable[[Any, int], str | None]] = {
    "integer": _integer, "boolean": _boolean, "decimal": _decimal, "float4": _single, "float8": _float, "text": _text,
    "bytes": _bytes,
}  # fmt: skip
