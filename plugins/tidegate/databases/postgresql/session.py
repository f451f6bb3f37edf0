"""Sessions of PostgreSQL: how one is opened, its SQL, and what its errors mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import psycopg2

from tidegate.core.copy.port import SourceColumn, SourceTable, Value
from tidegate.databases.driver import Driver, Unusable
from tidegate.databases.sql import key_columns, quoted
from tidegate.databases.types import family

if TYPE_CHECKING:
    from psycopg2.extensions import connection

KIND = "postgresql"
CONNECT_S = 10
OLDEST = 130000
END = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
"""Not pg_current_wal_lsn(): with synchronous_commit=off a commit is visible before it is written."""
_OUR_OWN = ("kind", "connection", "database")
_TRANSIENT = ("08", "40", "53", "57", "58", "55P03")
"""Beginnings of SQLSTATE that another try may not meet: connections, conflicts, resources, operators, locks."""
_DENIED = (
    "authentication failed", "no pg_hba.conf entry", "does not exist", "permission denied", "not permitted",
    "certificate verify failed", "does not match host name", "server does not support SSL",
)  # fmt: skip
_ABOUT = "SELECT pg_is_in_recovery(), current_setting('wal_level'), current_setting('server_version_num')::int"


def connect(settings: Mapping[str, str]) -> connection:
    """Without a transaction of its own accord (autocommit)."""
    options = {name: value for name, value in settings.items() if name not in _OUR_OWN}
    found = psycopg2.connect(
        **options, dbname=settings["database"] or "postgres", connect_timeout=CONNECT_S, application_name="tidegate",
        client_encoding="UTF8", keepalives=1, keepalives_idle=30, keepalives_interval=10, keepalives_count=5,
    )  # fmt: skip
    found.autocommit = True
    return found


def check_server(cursor: Any) -> None:
    """Raises Unusable."""
    cursor.execute(_ABOUT)
    standby, level, version = cursor.fetchone()
    if version < OLDEST:
        raise Unusable(
            f"PostgreSQL {version // 10000} does not say what a snapshot sees", "PostgreSQL 13 or later does"
        )
    if standby:
        raise Unusable(
            "the server is a standby: it has no log of its own, and what it shows may be behind",
            "let the connection name the primary, which the connector reads from",
        )
    if level != "logical":
        raise Unusable(f"wal_level is {level}: there is no log of changes", "set wal_level=logical and restart it")


def passes(error: Exception) -> bool:
    """Whether another try may succeed without a human."""
    code = getattr(error, "pgcode", None)
    if code:
        return str(code).startswith(_TRANSIENT)
    if isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError):
        return not any(words in str(error) for words in _DENIED)
    return type(error) is psycopg2.DatabaseError  # what the driver makes of a connection that ends within COPY


def said(error: Exception) -> str:
    """The driver's words in one line."""
    return " ".join(str(error).split())[:400]


def table_name(table: SourceTable) -> str:
    return f"{column_name(table.schema)}.{column_name(table.name)}"


def column_name(name: str) -> str:
    return quoted(name, '"')


def comparison(table: SourceTable, bound: Sequence[Value], operator: str) -> tuple[str, list[Any]]:
    """A comparison of rows: its index finds it. The server makes the texts values of the columns' types."""
    columns = key_columns(table)
    names, marks = ", ".join(column_name(c.name) for c in columns), ", ".join("%s" for _ in columns)
    return f"({names}) {operator} ({marks})", [_given(c, v) for c, v in zip(columns, bound, strict=True)]


def key_expression(column: SourceColumn) -> str:
    """The column's value as a `Value`, but for booleans."""
    name = column_name(column.name)
    found = family(KIND, column.type)
    if found is not None and found.name == "bytes":
        return f"encode({name}, 'hex')"
    plain = found is not None and (found.name == "integer" or column.type == "boolean")
    return name if plain else f"{name}::text"


def _given(column: SourceColumn, value: Value) -> Any:
    if column.type == "bytea":
        return f"\\x{value}"
    return bool(value) if column.type == "boolean" else value


DRIVER = Driver("PostgreSQL", (psycopg2.Error,), passes, said)
