"""PostgreSQL: rows go in and come back by COPY."""

from __future__ import annotations

import binascii
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg2
import pyarrow as pa
from pyarrow import csv

from tidegate.core.copy.port import SourceTable
from tidegate.databases.arrow import Parser
from tidegate.databases.postgresql import session
from tidegate.databases.postgresql.expressions import expression
from tidegate.databases.postgresql.stream import copied
from tidegate.targets.relational.columns import Column
from tidegate.targets.relational.dialect import Blame, utc

_SESSION = (
    "SET TimeZone = 'UTC'", "SET DateStyle = 'ISO'", "SET extra_float_digits = 1",
    "SET idle_in_transaction_session_timeout = '15min'", "SET synchronous_commit = on",
)  # fmt: skip
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_KIND = "SELECT relkind = 'f', relpersistence = 'u' FROM pg_class WHERE oid = to_regclass(%s)"
_BLAMED = {
    "22": Blame.VALUE, "25006": Blame.USER, "28": Blame.USER, "3D000": Blame.USER, "42501": Blame.USER,
    "3F000": Blame.TABLE, "42P01": Blame.TABLE, "55P03": Blame.LOCK, "53100": Blame.SPACE,
}  # fmt: skip
"""Beginnings of SQLSTATE. 25006: a server that only reads; 3D000: no such database."""
_TYPES = {"numeric": "numeric", "timestamp(6) with time zone": "timestamp with time zone"}


class PostgreSQL:
    """Implements `dialect.Dialect`."""

    kind, driver = session.KIND, session.DRIVER
    count, short, when = "bigint", "varchar(200)", "timestamp with time zone"
    sessions = "pg_stat_activity"

    def connect(self, settings: Mapping[str, str], timeout_s: float) -> Any:
        """`timeout_s`: how long the server may take for a statement, or wait for a lock."""
        found = session.connect(settings)
        with found.cursor() as cursor:
            for statement in (*_SESSION, f"SET lock_timeout = '{round(timeout_s / 5)}s'"):
                cursor.execute(statement)
        return found

    def named(self, settings: Mapping[str, str], table: str) -> SourceTable:
        schema, _, name = table.rpartition(".")
        return SourceTable(schema=schema or "public", name=name, key=(), columns=())

    def quoted(self, name: str) -> str:
        return session.column_name(name).replace("%%", "%")

    def columns(self, cursor: Any, table: SourceTable) -> dict[str, str]:
        cursor.execute(_COLUMNS, (self._full(table),))
        return {name: _TYPES.get(kind, kind) for name, kind in cursor.fetchall()}

    def forgets(self, cursor: Any, table: SourceTable) -> tuple[str, str] | None:
        cursor.execute(_KIND, (self._full(table),))
        foreign, unlogged = cursor.fetchone() or (False, False)
        if foreign:
            return "it is a foreign table, whose rows are committed apart from their token", "name another table"
        if unlogged:
            return "it is UNLOGGED: a crash of the server empties it", f"ALTER TABLE {self._full(table)} SET LOGGED"
        return None

    def _full(self, table: SourceTable) -> str:
        return f"{self.quoted(table.schema)}.{self.quoted(table.name)}"

    def widen(self, table: str, column: Column) -> str:
        return f"ALTER TABLE {table} ALTER COLUMN {self.quoted(column.name)} TYPE {column.type}"

    def write(self, found: Any, table: str, rows: Any, columns: Sequence[Column]) -> None:
        buffer = io.BytesIO()
        csv.write_csv(_spelled(rows, columns), buffer, csv.WriteOptions(include_header=False))
        buffer.seek(0)
        names = ", ".join(self.quoted(c.name) for c in columns)
        with found.cursor() as cursor:
            cursor.copy_expert(f"COPY {table} ({names}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')", buffer)

    def read(self, found: Any, table: str, columns: Sequence[Column], where: str) -> Iterator[Any]:
        parser = Parser([(c.name, c.conversion) for c in columns], ())
        fields = ", ".join(expression(c.conversion).replace("%%", "%") for c in columns)
        query = f"SELECT {fields} FROM {table} WHERE {where}"
        for lines in copied(found, f"COPY ({query}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')"):
            yield parser.batch(lines)

    def blamed(self, error: Exception) -> Blame:
        code = getattr(error, "pgcode", None)
        if code is None:  # nobody was let in, or the line broke
            return Blame.USER if isinstance(error, psycopg2.OperationalError) else Blame.ANOTHER
        return next((blame for begin, blame in _BLAMED.items() if code.startswith(begin)), Blame.ANOTHER)

    def instant(self, ms: int) -> str:
        return f"TIMESTAMP WITH TIME ZONE '{utc(ms)}+00'"


def _spelled(rows: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """As COPY takes it: bytes in hex."""
    arrays = [_hex(a) if c.family.name == "bytes" else a for a, c in zip(rows.columns, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, rows.schema.names)


def _hex(array: pa.Array) -> pa.Array:
    found = [None if v is None else f"\\x{binascii.hexlify(v).decode()}" for v in array.to_pylist()]
    return pa.array(found, pa.string())
