"""Sessions of MariaDB and MySQL: how one is opened, its SQL, places in its binary log, and what its errors mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pymysql

from tidegate.core.copy.port import LogPosition, SourceColumn, SourceTable, Value
from tidegate.databases.driver import Driver, Unusable
from tidegate.databases.mariadb import mysql, tls
from tidegate.databases.mariadb.places import place
from tidegate.databases.sql import key_columns, quoted, spelled_out
from tidegate.databases.types import family

KIND = "mariadb"
CONNECT_S = 10
_TRANSIENT = frozenset((1040, 1053, 1159, 1160, 1161, 1184, 1203, 1205, 1213, 1226, 1317, 1412, 1927, 1969))
_TRANSIENT |= frozenset((2002, 2003, 2006, 2013, 2055, 3024, 3169))
"""Too many connections, shutting down, lost, killed, timed out, locked, changed meanwhile, unreachable."""
_SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600, net_read_timeout = 600, "
    "sql_select_limit = 18446744073709551615"  # a server's own limit cuts answers off without a word
)
SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"


def connect(settings: Mapping[str, str], timeout_s: float) -> pymysql.connections.Connection[Any]:
    """`timeout_s`: how long an answer may take. Raises pymysql's errors."""
    found: pymysql.connections.Connection[Any] = pymysql.connect(
        host=settings["host"], port=int(settings["port"]), user=settings["user"], password=settings["password"],
        database=settings["database"] or None, charset="utf8mb4", autocommit=True, init_command=_SESSION,
        connect_timeout=CONNECT_S, read_timeout=timeout_s, write_timeout=timeout_s, **tls.arguments(settings),
    )  # fmt: skip
    with found.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    return found


def check_server(cursor: Any, logged: bool = True) -> None:
    """`logged`: a log of changes is needed. Raises Unusable."""
    if not logged:
        return
    cursor.execute("SELECT VERSION(), @@GLOBAL.log_bin, @@GLOBAL.binlog_format")
    version, logs, form = cursor.fetchone()
    if not logs:
        raise Unusable("the server writes no binary log (log_bin is off)", "start it with log_bin")
    if form.upper() != "ROW":
        raise Unusable(f"binlog_format is {form}: the log does not have rows", "set binlog_format=ROW")
    if mysql.is_one(version) and (why := mysql.unfit(cursor, bool(snapshot_status(cursor)))):
        raise Unusable(*why)


def snapshot_status(cursor: Any) -> dict[str, str]:
    cursor.execute("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'")
    return {name.lower(): value for name, value in cursor.fetchall()}


def begin_snapshot(cursor: Any) -> LogPosition:
    """Begin one; a place in the log up to which it has seen every commit (S2): its own one where the server says it.
    Raises Unusable."""
    if not snapshot_status(cursor):
        low = end(cursor)
        mysql.wait_until_seen(cursor)
        cursor.execute(SNAPSHOT)
        return low
    cursor.execute(SNAPSHOT)
    found = snapshot_status(cursor)
    if not found["binlog_snapshot_file"]:
        raise Unusable("the server does not say which place in its log belongs to a snapshot", "it has to be a MariaDB")
    return place(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))


def end(cursor: Any, schema: str | None = None) -> LogPosition:
    """The log's end. Raises Unusable where it has none, or leaves this database out."""
    cursor.execute(mysql.end_statement(cursor.connection.get_server_info()))
    found = cursor.fetchone()
    if found is None:
        raise Unusable("the server writes no binary log", "start it with log_bin")
    file, offset, only, ignored = found[:4]
    if schema is not None and ((only and schema not in only.split(",")) or schema in (ignored or "").split(",")):
        raise Unusable(
            f"the binary log leaves out the database {schema}", "take it out of binlog_ignore_db, or into binlog_do_db"
        )
    return place(file, int(offset))


def begin(cursor: Any) -> LogPosition:
    """The position at which the oldest binary log begins. Raises Unusable if the server has no log."""
    cursor.execute("SHOW BINARY LOGS")
    found = cursor.fetchone()
    cursor.fetchall()
    if found is None:
        raise Unusable("the server writes no binary log", "start it with log_bin")
    return place(found[0], 0)


def passes(error: Exception) -> bool:
    """Whether another try may succeed without a human."""
    if tls.distrusted(error):
        return False
    code = error.args[0] if error.args else None
    return code in _TRANSIENT or isinstance(error, pymysql.err.InterfaceError | OSError)


def said(error: Exception) -> str:
    """The server's words in one line."""
    return " ".join(str(error.args[-1] if error.args else error).split())[:400]


def table_name(table: SourceTable) -> str:
    return f"{column_name(table.schema)}.{column_name(table.name)}"


def column_name(name: str) -> str:
    return quoted(name, "`")


def comparison(table: SourceTable, bound: Sequence[Value], operator: str) -> tuple[str, list[Any]]:
    columns = key_columns(table)
    marks = [_mark(column) for column in columns]
    text, given = spelled_out([column_name(c.name) for c in columns], marks, list(bound), operator)
    return f"({text})", given


def key_expression(column: SourceColumn) -> str:
    """The column's value as a `Value`."""
    name, found = column_name(column.name), family(KIND, column.type)
    if found is not None and found.name == "integer":
        return name
    return f"LOWER(HEX({name}))" if found is not None and found.name == "bytes" else f"CONCAT({name})"


def unordered(column: SourceColumn) -> str | None:
    """Why bounds cannot be made of a key column; None: they can."""
    found = family(KIND, column.type)
    if found is None or found.name in ("float4", "float8", "boolean"):
        return f"no bounds can be made of {column.type}"
    if found.word in ("enum", "set"):
        return f"{found.word} is ordered by its numbers and compared by its texts"
    return None


def _mark(column: SourceColumn) -> str:
    """A decimal that is compared with a text is compared as a double."""
    found = family(KIND, column.type)
    if found is not None and found.name == "decimal":
        return f"CAST(%s AS DECIMAL({found.digits},{found.scale}))"
    return "UNHEX(%s)" if found is not None and found.name == "bytes" else "%s"


DRIVER = Driver("MariaDB or MySQL", (pymysql.err.Error, OSError), passes, said)
