"""A database by JDBC as the control plane sees it: a table's shape, and bounds of chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.copy.port import Bound, Checksums, KeyRange, LogPosition, SourceTable, Value
from tidegate.databases.driver import Unusable
from tidegate.databases.jdbc import session
from tidegate.databases.jdbc.columns import KEYS, described, value_of
from tidegate.databases.sql import key_columns, look_at
from tidegate.databases.types import family


class JDBC:
    """Implements `core.copy.port.Database` for tables without a log: it knows no places in one."""

    def __init__(self, settings: Mapping[str, str], timeout_s: float) -> None:
        self._settings, self._timeout_s = settings, max(1, int(timeout_s))
        self._session: Any = None

    def describe(self, table: str) -> SourceTable:
        """A key that chunks cannot be cut by counts as none: of another type, or one that may be null (SQLite), whose
        row would be in no chunk. Raises SourceError for a table that is missing."""
        schema, _, name = table.partition(".")
        with self._asking() as connection:
            at = SourceTable(schema=schema, name=name, key=(), columns=())
            if not self._exists(connection, schema, name):
                _refuse(f"there is no table {table}", "name it as schema.table, in the case it has there")
            statement = self._prepared(f"SELECT * FROM {session.Names(connection).table(at)} WHERE 1 = 0")
            metadata = statement.executeQuery().getMetaData()
            columns = tuple(described(metadata, number) for number in range(1, int(metadata.getColumnCount()) + 1))
            statement.close()
            key = self._key(connection, schema, name)
        by_name = {c.name: family(session.KIND, c.type) for c in columns if not c.nullable}
        cut = all((found := by_name.get(each)) is not None and found.name in KEYS for each in key)
        return SourceTable(schema=schema, name=name, key=key if cut else (), columns=columns)

    def _exists(self, connection: Any, schema: str, name: str) -> bool:
        """Drivers take names for patterns, with `_` and `%`."""
        get = connection.getMetaData().getTables
        return any(_is(get(*at, name, None), schema, name) for at in ((None, schema), (schema, None)))

    def _key(self, connection: Any, schema: str, name: str) -> tuple[str, ...]:
        metadata = connection.getMetaData()
        for catalogue, of in ((None, schema), (schema, None)):
            rows = metadata.getPrimaryKeys(catalogue, of, name)
            found = {int(r.getShort("KEY_SEQ")): str(r.getString("COLUMN_NAME")) for r in _of(rows, schema, name)}
            if found:
                return tuple(found[number] for number in sorted(found))
        return ()

    def tables(self) -> Sequence[str]:
        with self._asking() as connection:
            rows, found = connection.getMetaData().getTables(None, None, "%", None), []
            while rows.next():
                schema = rows.getString("TABLE_SCHEM") or rows.getString("TABLE_CAT")
                found.append(f"{schema}.{rows.getString('TABLE_NAME')}")
            return found

    def bounds(self, table: SourceTable, after: Bound | None, rows: int, most: int) -> Sequence[Bound]:
        columns, found = key_columns(table), list[Bound]()
        with self._asking() as connection:
            names = session.Names(connection)
            wanted = ", ".join(names.column(c.name) for c in columns)
            while len(found) < most:
                where, given = names.where(table, KeyRange(lower=found[-1] if found else after))
                statement = self._prepared(
                    f"SELECT {wanted} FROM {names.table(table)} WHERE {where} ORDER BY {wanted} "
                    f"OFFSET {rows - 1} ROWS FETCH NEXT 1 ROWS ONLY",
                    given,
                )
                row = statement.executeQuery()
                bound = tuple(_key_value(row, n, c.type) for n, c in enumerate(columns, 1)) if row.next() else None
                statement.close()
                if bound is None:
                    break
                found.append(bound)
        return found

    def now_ms(self) -> int:
        """By the database's own clock."""
        with self._asking() as connection:
            statement = self._prepared(_clock(connection))
            row = statement.executeQuery()
            row.next()
            now = int(row.getTimestamp(1).getTime())
            statement.close()
            return now

    def event_names(self, table: SourceTable) -> Mapping[str, str]:
        _refuse(_NO_LOG, _INSTEAD)

    def checksums(
        self, table: SourceTable, columns: Sequence[tuple[str, str]], base64: bool, rate: int | None = None
    ) -> Checksums:
        _refuse(_NO_LOG, _INSTEAD)

    def rows_about(self, table: SourceTable) -> int:
        return 0

    def position(self) -> LogPosition:
        _refuse(_NO_LOG, _INSTEAD)

    def log_begin(self) -> LogPosition:
        _refuse(_NO_LOG, _INSTEAD)

    def in_progress(self) -> tuple[int, ...]:
        _refuse(_NO_LOG, _INSTEAD)

    def close(self) -> None:
        found, self._session = self._session, None
        if found is not None:
            session.close(found)

    def _prepared(self, statement: str, given: Sequence[Any] = ()) -> Any:
        made = session.prepared(self._session, statement, given)
        made.setQueryTimeout(self._timeout_s)
        return made

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """A connection; what goes wrong becomes an error of sources."""
        try:
            if self._session is None or self._session.isClosed():
                self._session = session.connect(self._settings, self._timeout_s)
            yield self._session
        except Unusable as error:
            _refuse(error.what, error.advice)
        except Exception as error:
            if not session.is_of_the_driver(error):
                raise
            at = session.address(self._settings)
            if session.passes(error):
                raise SourceUnavailable(f"{at} did not answer: {session.said(error, self._settings)}") from None
            _refuse(f"{at} refused: {session.said(error, self._settings)}", look_at(self._settings))


def _of(rows: Any, schema: str, name: str) -> Iterator[Any]:
    """A driver's rows about this very table. Some databases call a schema a catalogue, and have no other; elsewhere a
    catalogue holds schemas, and may have the name of one of them."""
    while rows.next():
        at = rows.getString("TABLE_SCHEM") or rows.getString("TABLE_CAT")
        if (str(at), str(rows.getString("TABLE_NAME"))) == (schema, name):
            yield rows


def _is(rows: Any, schema: str, name: str) -> bool:
    return next(_of(rows, schema, name), None) is not None


_NO_LOG = "a database by JDBC has no log of changes that can be asked for places"
_INSTEAD = "copies beside changes are read from MariaDB, MySQL and PostgreSQL by connections of those types"


_CLOCKS = {
    "Oracle": "SELECT SYSTIMESTAMP FROM dual",
    "Microsoft SQL Server": "SELECT SYSUTCDATETIME()",
    "DB2": "SELECT CURRENT TIMESTAMP - CURRENT TIMEZONE FROM sysibm.sysdummy1",
}
"""Where CURRENT_TIMESTAMP alone is no statement, or a local time."""


def _clock(connection: Any) -> str:
    name = str(connection.getMetaData().getDatabaseProductName())
    return next((of for product, of in _CLOCKS.items() if name.startswith(product)), "SELECT CURRENT_TIMESTAMP")


def _key_value(row: Any, number: int, kind: str) -> Value:
    found = family(session.KIND, kind)
    assert found is not None, "checked where the table was described"
    text = value_of(found, "")(row, number) or ""
    if found.name == "integer":
        return int(text)
    return text[1:-1].replace('""', '"') if found.name == "text" else text


def _refuse(what: str, advice: str) -> NoReturn:
    raise SourceError(what, advice=advice, retry=False)


def opened(settings: Mapping[str, str], timeout_s: float, logged: bool = True) -> JDBC:
    """Raises SourceError for a copy beside changes."""
    if logged:
        _refuse(_NO_LOG, _INSTEAD)
    return JDBC(settings, timeout_s)
