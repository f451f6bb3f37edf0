"""MariaDB and MySQL: rows go in by INSERT of many rows, and come back as lines of CSV that the server makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pymysql

from tidegate.core.copy.port import SourceTable
from tidegate.databases import sql
from tidegate.databases.arrow import Parser
from tidegate.databases.mariadb import session, tls
from tidegate.databases.mariadb.expressions import field
from tidegate.databases.mariadb.stream import lines
from tidegate.targets.relational.columns import Column
from tidegate.targets.relational.dialect import Blame, utc
from tidegate.targets.relational.literals import STATEMENT_BYTES, NoLiteral, tuples

_SESSION = "SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', autocommit = 1"
_IDLE_S = 900
"""MariaDB ends a transaction, and MySQL a session, whose client says nothing for so long."""
_COLUMNS = """
SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
ORDER BY ORDINAL_POSITION"""
_ENGINE = "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
_NO_TRANSACTIONS = ("MyISAM", "Aria", "MEMORY", "CSV", "ARCHIVE", "BLACKHOLE", "MRG_MyISAM", "FEDERATED")
_WIDTHS = {"tinyint(4)": "tinyint", "smallint(6)": "smallint", "int(11)": "int", "bigint(20)": "bigint"}
"""Until MySQL 8.0.19, and in MariaDB, integers show a width that means nothing."""
_NO_VARIABLE = 1193
_USER = (1044, 1045, 1049, 1129, 1130, 1142, 1143, 1227, 1290, 1698, 1792, 1820, 1836, 1862, 3032, 3118, 3159, 4151)
"""Logins, hosts, rights, no such database, a server that only reads."""
_BLAMED = {
    **dict.fromkeys((1153, 1264, 1292, 1366, 1367, 1406), Blame.VALUE),
    **dict.fromkeys(_USER, Blame.USER),
    **dict.fromkeys((1021, 1030, 1114), Blame.SPACE),
    1146: Blame.TABLE, 1205: Blame.LOCK,
}  # fmt: skip
"""VALUE: a statement longer than max_allowed_packet, out of range, invalid, too long. 1030: errors of the engine,
of which a full disk is the usual one."""


class MariaDB:
    """Implements `dialect.Dialect`."""

    kind, driver = session.KIND, session.DRIVER
    count, short, when = "bigint", "varchar(200) CHARACTER SET ascii", "datetime(6)"
    sessions = "information_schema.INNODB_TRX"

    def connect(self, settings: Mapping[str, str], timeout_s: float) -> Any:
        """`timeout_s`: how long an answer may take, or a lock be waited for."""
        found = session.connect(settings, timeout_s)
        with found.cursor() as cursor:
            cursor.execute(_SESSION)
            cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {round(timeout_s / 5)}, wait_timeout = {_IDLE_S}")
            cursor.execute("SELECT @@max_allowed_packet")
            self._longest = int(cursor.fetchone()[0])
            try:
                cursor.execute(f"SET SESSION idle_transaction_timeout = {_IDLE_S}")
            except pymysql.err.Error as error:
                if error.args[0] != _NO_VARIABLE:
                    raise
        return found

    def named(self, settings: Mapping[str, str], table: str) -> SourceTable:
        schema, _, name = table.rpartition(".")
        return SourceTable(schema=schema or settings["database"], name=name, key=(), columns=())

    def quoted(self, name: str) -> str:
        return session.column_name(name).replace("%%", "%")

    def columns(self, cursor: Any, table: SourceTable) -> dict[str, str]:
        cursor.execute(_COLUMNS, (table.schema, table.name))
        return {name: _WIDTHS.get(kind, kind) for name, kind in cursor.fetchall()}

    def forgets(self, cursor: Any, table: SourceTable) -> tuple[str, str] | None:
        cursor.execute(_ENGINE, (table.schema, table.name))
        engine = (cursor.fetchone() or ("",))[0]
        if engine not in _NO_TRANSACTIONS:
            return None
        full = f"{self.quoted(table.schema)}.{self.quoted(table.name)}"
        return f"its engine {engine} takes nothing back", f"ALTER TABLE {full} ENGINE=InnoDB"

    def widen(self, table: str, column: Column) -> str:
        return f"ALTER TABLE {table} MODIFY COLUMN {self.quoted(column.name)} {column.type}"

    def write(self, found: Any, table: str, rows: Any, columns: Sequence[Column]) -> None:
        names = ", ".join(self.quoted(c.name) for c in columns)
        with found.cursor() as cursor:
            try:
                for some in tuples(rows, min(STATEMENT_BYTES, self._longest // 2)):
                    cursor.execute(self._checked(f"INSERT INTO {table} ({names}) VALUES {some}"))
            except NoLiteral as error:
                raise pymysql.err.ProgrammingError(str(error)) from error

    def _checked(self, statement: str) -> str:
        """Of a longer one the server may say nothing: it closes the connection. Raises NoLiteral."""
        if 4 * len(statement) < self._longest:  # of UTF-8, at most
            return statement
        size = len(statement.encode()) + 1
        if size > self._longest:
            raise NoLiteral(f"a row takes {size:,} bytes, max_allowed_packet is {self._longest:,}")
        return statement

    def read(self, found: Any, table: str, columns: Sequence[Column], where: str) -> Iterator[Any]:
        parser = Parser([(c.name, c.conversion) for c in columns], (), sql.RARE_QUOTE)
        fields = ", ',', ".join(field(c.conversion, False) for c in columns).replace("%%", "%")
        for some in lines(found, f"SELECT CONCAT({fields}, '\\n') FROM {table} WHERE {where}"):
            yield parser.batch(some)

    def blamed(self, error: Exception) -> Blame:
        if isinstance(error.__cause__, NoLiteral):
            return Blame.VALUE
        return Blame.USER if tls.distrusted(error) else _BLAMED.get(error.args[0], Blame.ANOTHER)

    def instant(self, ms: int) -> str:
        return f"TIMESTAMP'{utc(ms)}'"
