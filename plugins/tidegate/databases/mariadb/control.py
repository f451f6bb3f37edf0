"""MariaDB or MySQL as the control plane sees it: a table's shape, bounds of chunks, and the end of its binary log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.core.copy.port import LogPosition, SourceColumn, SourceTable, Value
from tidegate.databases.driver import LoggedDatabase, refused
from tidegate.databases.mariadb import charsets, mysql, session
from tidegate.databases.mariadb.checksums import MariaDBChecksums
from tidegate.databases.sql import key_columns

ENGINES = ("innodb", "rocksdb")
"""Those that have snapshots."""
_TABLE = """
SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = BINARY %s AND TABLE_NAME = BINARY %s"""
_TABLES = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"""
_COLUMNS = """
SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, IS_NULLABLE = 'YES' FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"""
"""Generated ones too, stored or not: the log has their values, and events say them."""
_KEY = """
SELECT COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX"""
_ROWS = "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
_WIDTH = re.compile(r"^(tinyint|smallint|mediumint|int|bigint)\(([0-9]+)\)")


class MariaDB(LoggedDatabase):
    driver, summed, listing = session.DRIVER, MariaDBChecksums, _TABLES
    clock = "SELECT UNIX_TIMESTAMP(NOW(3)) * 1000"

    def describe(self, table: str) -> SourceTable:
        """Without a log a table may have no key, and be a view."""
        schema, _, name = table.partition(".")
        with self._asking() as cursor:
            cursor.execute(_TABLE, (schema, name))
            found = cursor.fetchone()
            kinds = ("BASE TABLE", "SYSTEM VERSIONED") if self._logged else ("BASE TABLE", "SYSTEM VERSIONED", "VIEW")
            if found is None or found[0] not in kinds:
                raise refused(f"there is no table {table}", "name it as database.table, in the case it has there")
            if self._logged:
                _check_engine(table, found[1])
                session.end(cursor, schema)
            cursor.execute(_KEY, (schema, name))
            key = cursor.fetchall()
            cursor.execute(_COLUMNS, (schema, name))
            columns = tuple(
                SourceColumn(n, _type(text, charset, self._logged), bool(nullable))
                for n, text, charset, nullable in cursor.fetchall()
            )
        made = SourceTable(schema=schema, name=name, key=tuple(n for n, _ in key), columns=columns)
        why = _unfit_key(made, {n for n, part in key if part})
        if why is not None and self._logged:
            raise refused(*why)
        return made if why is None else replace(made, key=())

    def event_names(self, table: SourceTable) -> Mapping[str, str]:
        return {"db": table.schema, "table": table.name}

    def rows_about(self, table: SourceTable) -> int:
        with self._asking() as cursor:
            cursor.execute(_ROWS, (table.schema, table.name))
            found = cursor.fetchone()
            return int(found[0] or 0) if found else 0

    def position(self) -> LogPosition:
        with self._asking() as cursor:
            return session.end(cursor)

    def log_begin(self) -> LogPosition:
        with self._asking() as cursor:
            return session.begin(cursor)

    def in_progress(self) -> tuple[int, ...]:
        return ()

    def _comparison(self, table: SourceTable, bound: Sequence[Value], operator: str) -> tuple[str, list[Any]]:
        return session.comparison(table, bound, operator)

    def _keys(self, table: SourceTable, where: str) -> str:
        columns = key_columns(table)
        wanted = ", ".join(session.key_expression(c) for c in columns)
        order = ", ".join(f"t.{session.column_name(c.name)}" for c in columns)  # not of what is selected
        source = f"{session.table_name(table)} t FORCE INDEX (PRIMARY)"
        return f"SELECT {wanted} FROM {source} WHERE {where} ORDER BY {order}"

    def _connect(self) -> Any:
        return session.connect(self._settings, self._timeout_s)

    def _begin(self, cursor: Any) -> None:
        session.check_server(cursor, self._logged)
        cursor.execute("SET SESSION TRANSACTION READ ONLY")
        cursor.execute(mysql.limited(cursor.connection.get_server_info(), self._timeout_s))

    def _ping(self, found: Any) -> None:
        found.ping(reconnect=False)


def _type(text: str, charset: str | None, in_events: bool) -> str:
    """A display width says nothing of a type, but that tinyint(1) is a boolean to many."""
    text = charsets.told(text, charset, in_events)
    match = _WIDTH.match(text)
    return text if match is None or match[0] == "tinyint(1)" else match[1] + text[match.end() :]


def _check_engine(table: str, engine: str | None) -> None:
    if (engine or "").lower() not in ENGINES:
        raise refused(f"table {table} is of {engine}, which has no snapshots", "ALTER TABLE ... ENGINE=InnoDB")


def _unfit_key(table: SourceTable, prefixes: set[str]) -> tuple[str, str] | None:
    """Why no chunks can be cut by the key, and what would help."""
    name = f"{table.schema}.{table.name}"
    if not table.key:
        return f"table {name} has no primary key", "a mirror needs one: add it"
    for column in key_columns(table):
        why = "its key has a part of it only" if column.name in prefixes else session.unordered(column)
        if why:
            return f"table {name}, key column {column.name}: {why}", "a copy needs another primary key"
    return None


opened = MariaDB
