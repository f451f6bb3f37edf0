"""MariaDB or MySQL as the control plane sees it: a table's shape, bounds of chunks, and the end of its binary log."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pymysql

from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.copy.port import Bound, KeyRange, LogPosition, SourceColumn, SourceTable
from tidegate.databases import sql
from tidegate.databases.mariadb import mysql, session
from tidegate.databases.mariadb.checksums import MariaDBChecksums

ENGINES = ("innodb", "rocksdb")
"""Those that have snapshots."""
_TABLE = """
SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = BINARY %s AND TABLE_NAME = BINARY %s"""
_TABLES = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"""
_COLUMNS = """
SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE = 'YES' FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND (GENERATION_EXPRESSION IS NULL OR GENERATION_EXPRESSION = '')
ORDER BY ORDINAL_POSITION"""
_KEY = """
SELECT COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX"""
_ROWS = "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
_WIDTH = re.compile(r"^(tinyint|smallint|mediumint|int|bigint)\(([0-9]+)\)")
_LIST = re.compile(r"^(enum|set)\(.*\)$", re.DOTALL)


class MariaDB:
    """Implements `core.copy.port.Database`."""

    def __init__(self, settings: Mapping[str, str], timeout_s: float, logged: bool = True) -> None:
        self._settings, self._timeout_s, self._logged = settings, timeout_s, logged
        self._session: pymysql.connections.Connection[Any] | None = None
        self._used = 0.0

    def describe(self, table: str) -> SourceTable:
        """Generated columns are left out. Without a log a table may have no key, and be a view."""
        schema, _, name = table.partition(".")
        with self._asking() as cursor:
            cursor.execute(_TABLE, (schema, name))
            found = cursor.fetchone()
            kinds = ("BASE TABLE", "SYSTEM VERSIONED") if self._logged else ("BASE TABLE", "SYSTEM VERSIONED", "VIEW")
            if found is None or found[0] not in kinds:
                raise _refused(f"there is no table {table}", "name it as database.table, in the case it has there")
            if self._logged:
                _check_engine(table, found[1])
                session.end(cursor, schema)
            cursor.execute(_KEY, (schema, name))
            key = cursor.fetchall()
            cursor.execute(_COLUMNS, (schema, name))
            columns = tuple(SourceColumn(n, _type(text), bool(nullable)) for n, text, nullable in cursor.fetchall())
        made = SourceTable(schema=schema, name=name, key=tuple(n for n, _ in key), columns=columns)
        why = _unfit_key(made, {n for n, part in key if part})
        if why is not None and self._logged:
            raise _refused(*why)
        return made if why is None else replace(made, key=())

    def tables(self) -> Sequence[str]:
        with self._asking() as cursor:
            cursor.execute(_TABLES)
            return [f"{schema}.{name}" for schema, name in cursor.fetchall()]

    def event_names(self, table: SourceTable) -> Mapping[str, str]:
        return {"db": table.schema, "table": table.name}

    def rows_about(self, table: SourceTable) -> int:
        with self._asking() as cursor:
            cursor.execute(_ROWS, (table.schema, table.name))
            found = cursor.fetchone()
            return int(found[0] or 0) if found else 0

    def bounds(self, table: SourceTable, after: Bound | None, rows: int, most: int) -> Sequence[Bound]:
        columns = sql.key_columns(table)
        wanted = ", ".join(session.key_expression(c) for c in columns)
        order = ", ".join(f"t.{session.column_name(c.name)}" for c in columns)  # not of what is selected
        found: list[Bound] = []
        with self._asking() as cursor:
            while len(found) < most:
                where, given = sql.within(
                    KeyRange(lower=found[-1] if found else after), lambda b, op: session.comparison(table, b, op)
                )
                start = f"SELECT {wanted} FROM {session.table_name(table)} t FORCE INDEX (PRIMARY)"
                cursor.execute(f"{start} WHERE {where} ORDER BY {order} LIMIT 1 OFFSET %s", [*given, rows - 1])
                row = cursor.fetchone()
                if row is None:
                    break
                found.append(tuple(row))
        return found

    def position(self) -> LogPosition:
        with self._asking() as cursor:
            return session.end(cursor)

    def in_progress(self) -> tuple[int, ...]:
        return ()

    def checksums(
        self, table: SourceTable, columns: Sequence[tuple[str, str]], base64: bool, rate: int | None = None
    ) -> MariaDBChecksums:
        return MariaDBChecksums(self._asking, table, columns, base64, rate)

    def now_ms(self) -> int:
        with self._asking() as cursor:
            cursor.execute("SELECT UNIX_TIMESTAMP(NOW(3)) * 1000")
            return int(cursor.fetchone()[0])

    def close(self) -> None:
        if self._session is not None:
            if self._session.open:
                self._session.close()
            self._session = None

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """A cursor; what goes wrong becomes an error of sources."""
        try:
            with self._connected().cursor() as cursor:
                yield cursor
            self._used = time.monotonic()
        except (pymysql.err.Error, OSError) as error:
            if self._session is not None and not self._session.open:
                self._session = None
            if session.passes(error):
                what = f"{session.TITLE} did not answer: {session.said(error)}"
                raise SourceUnavailable(what, advice=sql.NO_ANSWER) from None
            raise _refused(f"{session.TITLE} refused: {session.said(error)}", "") from None
        except session.Unusable as error:
            self.close()
            raise _refused(error.what, error.advice) from None

    def _connected(self) -> pymysql.connections.Connection[Any]:
        if self._session is not None and time.monotonic() - self._used >= sql.IDLE_S:
            try:
                self._session.ping(reconnect=False)
            except (pymysql.err.Error, OSError):
                self.close()
        if self._session is None or not self._session.open:
            self._session = session.connect(self._settings, self._timeout_s)
            with self._session.cursor() as cursor:
                session.check_server(cursor, self._logged)
                cursor.execute("SET SESSION TRANSACTION READ ONLY")
                cursor.execute(mysql.limited(self._session.get_server_info(), self._timeout_s))
        return self._session


def _type(text: str) -> str:
    """A display width says nothing of a type, but that tinyint(1) is a boolean to many; lists are left out."""
    text = _LIST.sub(r"\1", text.lower())
    match = _WIDTH.match(text)
    return text if match is None or match[0] == "tinyint(1)" else match[1] + text[match.end() :]


def _check_engine(table: str, engine: str | None) -> None:
    if (engine or "").lower() not in ENGINES:
        raise _refused(f"table {table} is of {engine}, which has no snapshots", "ALTER TABLE ... ENGINE=InnoDB")


def _unfit_key(table: SourceTable, prefixes: set[str]) -> tuple[str, str] | None:
    """Why no chunks can be cut by the key, and what would help."""
    name = f"{table.schema}.{table.name}"
    if not table.key:
        return f"table {name} has no primary key", "a mirror needs one: add it"
    if {*table.key} - {c.name for c in table.columns}:
        return f"the primary key of {name} has a generated column", "a mirror needs one of plain columns"
    for column in sql.key_columns(table):
        why = "its key has a part of it only" if column.name in prefixes else session.unordered(column)
        if why:
            return f"table {name}, key column {column.name}: {why}", "a copy needs another primary key"
    return None


def _refused(what: str, advice: str) -> SourceError:
    return SourceError(what, advice=advice or "correct the connection or the table", retry=False)


def opened(settings: Mapping[str, str], timeout_s: float, logged: bool = True) -> MariaDB:
    return MariaDB(settings, timeout_s, logged)
