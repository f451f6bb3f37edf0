"""Counts of windows by a read-only query on PostgreSQL, SQLite or a Hive endpoint.

The query's parameters are bound by name: `:start` and `:end` (UTC instants, the end exclusive), `:start_ms` and
`:end_ms` (epoch ms). In SQLite, which has no type for instants, they are the text `2013-01-05 04:00:00`. A session on
PostgreSQL is in UTC, so that they compare with columns without a zone as they do with those that have one. The protocol
of Hive has no parameters; there the four values, which are ours, are written as literals.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidegate.completeness.counts_json import shortened
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import CatalogueError, TruthUnknown
from tidegate.core.completeness.rules import NAMED_PARAMETER, count_of
from tidegate.core.window.states import WindowKey

TIMEOUT_S = 60.0
"""Seconds for the database to answer."""
KINDS = ("postgres", "sqlite", "hiveserver2")
_AS_TEXT = "%Y-%m-%d %H:%M:%S"
Rows = list[tuple[Any, ...]]


class SqlTruth:
    """Counts by one connection for each question. Raises TruthUnknown for an unsupported type of connection."""

    def __init__(
        self, connection: Connection, url: Callable[[], Any], query: str, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """`url`: SQLAlchemy's address of a `postgres` connection."""
        if connection.conn_type not in KINDS:
            kinds = ", ".join(KINDS)
            raise TruthUnknown(
                f"connection {connection.conn_id} is of type {connection.conn_type}: counts can be asked of {kinds}"
            )
        self._connection, self._url, self._query = connection, url, query.strip().rstrip(";")
        self._timeout_s = timeout_s

    def expected(self, window: WindowKey) -> int | None:
        """The window's count, from one row with one column; None without a row. Raises TruthUnknown."""
        ask = {"postgres": self._postgres, "sqlite": self._sqlite, "hiveserver2": self._hive}
        rows = ask[str(self._connection.conn_type)](window)
        if not rows:
            return None
        if len(rows) > 1 or len(rows[0]) != 1:
            raise self._unknown("the query must give one row with one column")
        try:
            return count_of(rows[0][0])
        except ValueError as e:
            raise self._unknown(str(e)) from None

    def _postgres(self, window: WindowKey) -> Rows:
        from sqlalchemy import create_engine, text
        from sqlalchemy.exc import SQLAlchemyError
        from sqlalchemy.pool import NullPool

        limit_ms = int(self._timeout_s * 1000)
        values = _used(self._query, {**_instants(window), **_epochs(window)})
        limits = {"connect_timeout": max(2, min(10, int(self._timeout_s))), "tcp_user_timeout": limit_ms}
        try:
            engine = create_engine(self._url(), poolclass=NullPool, connect_args=limits)
            with engine.connect().execution_options(postgresql_readonly=True) as c, c.begin():
                c.exec_driver_sql(f"SET LOCAL statement_timeout = {limit_ms}")
                c.exec_driver_sql("SET LOCAL TIME ZONE 'UTC'")
                # a cursor on the server: of a query that gives a million rows two are fetched
                found = c.execution_options(stream_results=True, max_row_buffer=2).execute(text(self._query), values)
                return [tuple(row) for row in found.fetchmany(2)]
        except SQLAlchemyError as e:
            raise self._unknown(str(getattr(e, "orig", None) or e)) from None

    def _sqlite(self, window: WindowKey) -> Rows:
        path = self._connection.host or f"/{self._connection.schema or ''}"
        at = {name: moment.strftime(_AS_TEXT) for name, moment in _instants(window).items()}
        values, end = _used(self._query, {**at, **_epochs(window)}), time.monotonic() + self._timeout_s
        if not Path(path).is_file():
            raise self._unknown(f"there is no file {path}")
        try:
            c = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=self._timeout_s)
            try:
                c.set_progress_handler(lambda: time.monotonic() > end, 10_000)
                return c.execute(self._query, values).fetchmany(2)
            finally:
                c.close()
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as e:
            raise self._unknown(str(e)) from None

    def _hive(self, window: WindowKey) -> Rows:
        from tidegate.targets.hive.catalogue import PyHiveCatalogue

        f = self._connection
        instants = {name: f"TIMESTAMP '{at.strftime(_AS_TEXT)}'" for name, at in _instants(window).items()}
        literals = {**instants, **{name: str(ms) for name, ms in _epochs(window).items()}}
        try:
            endpoint = PyHiveCatalogue.from_connection_fields(
                f.host, f.port, f.login, f.password, f.schema, f.extra, request_timeout_s=self._timeout_s
            )
            return endpoint.first_rows(NAMED_PARAMETER.sub(lambda m: literals[m[1]], self._query), 2)
        except CatalogueError as e:
            raise self._unknown(str(e).splitlines()[0]) from None

    def _unknown(self, why: str) -> TruthUnknown:
        """The error without secrets: databases quote the statement, no password; ours are removed all the same."""
        password = self._connection.password
        text = shortened(why)
        return TruthUnknown(f"{self._connection.conn_id}: {text.replace(password, '***') if password else text}")


def _instants(window: WindowKey) -> dict[str, datetime]:
    return {
        "start": datetime.fromtimestamp(window.start_ms / 1000, UTC),
        "end": datetime.fromtimestamp(window.end_ms / 1000, UTC),
    }


def _epochs(window: WindowKey) -> dict[str, int]:
    return {"start_ms": window.start_ms, "end_ms": window.end_ms}


def _used(query: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in re.findall(NAMED_PARAMETER, query)}
