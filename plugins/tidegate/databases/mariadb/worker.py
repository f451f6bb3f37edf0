"""Chunks of a table of MariaDB or MySQL: one query in a snapshot that has seen the binary log up to a place (S2).

The server makes one text of each row, a line of CSV: the driver decodes nothing, and the lines become columns at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.core.copy.port import KeyRange, LogPosition, ReadAfter, SourceTable, Times
from tidegate.databases import sql
from tidegate.databases.conversions import planned
from tidegate.databases.driver import LoggedRows
from tidegate.databases.mariadb import session
from tidegate.databases.mariadb.stream import lines
from tidegate.databases.types import Bytes, Conversion

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.databases.arrow import Parser

ANSWER_S = 600.0
_Q = f"_utf8mb4 x'{ord(sql.RARE_QUOTE):02x}'"
_DEFAULTS = """
SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
AND COLUMN_DEFAULT IS NOT NULL AND TRIM(LEADING '''' FROM COLUMN_DEFAULT) NOT LIKE '0000%%'"""


class MariaDBChunks:
    """Implements `core.copy.port.ChunkReader`. `ReadAfter.unseen` is always empty here."""

    def __init__(self, settings: Mapping[str, str], binary: Bytes = "bytes") -> None:
        self._settings, self._binary = settings, binary

    @contextmanager
    def read(
        self,
        table: SourceTable,
        columns: Sequence[tuple[str, str]],
        keys: KeyRange,
        after: ReadAfter | None,
        times: Times | None = None,
    ) -> Iterator[MariaDBRows]:
        from tidegate.databases.arrow import Parser

        made = planned(session.KIND, table, columns, self._binary)
        with session.DRIVER.answering():
            found = session.connect(self._settings, ANSWER_S)
        try:
            with session.DRIVER.answering(), found.cursor() as cursor:
                session.check_server(cursor, after is not None)
                if after is not None:
                    session.end(cursor, table.schema)
                defaults = with_default(cursor, table)
                if after is None:
                    cursor.execute(session.SNAPSHOT)
                low = None if after is None else session.begin_snapshot(cursor)
                query = _query(cursor, table, made, keys, defaults, times)
            position = None if after is None else after.position
            yield MariaDBRows(found, query, Parser(made, table.key, sql.RARE_QUOTE), low, position)
        finally:
            found._force_close()  # else an abandoned query is read to its end


class MariaDBRows(LoggedRows):
    anew = "RESET MASTER"

    def __init__(
        self, found: Any, query: str, parser: Parser, low: LogPosition | None, known: LogPosition | None
    ) -> None:
        """`low` None: nobody asks for a place in the log."""
        super().__init__(low or (0, 0), known)
        self._found, self._query, self._parser, self._logged = found, query, parser, low is not None

    def batches(self) -> Iterator[pa.RecordBatch]:
        with session.DRIVER.answering():
            for rows in lines(self._found, self._query):
                yield self._parser.batch(rows)
            with self._found.cursor() as cursor:
                cursor.execute("COMMIT")
                high = session.end(cursor) if self._logged else self.low
        self._end(high)


def with_default(cursor: Any, table: SourceTable) -> set[str]:
    """Columns with a default: what a connector makes of a zero date there is that default."""
    cursor.execute(_DEFAULTS, (table.schema, table.name))
    return {row[0] for row in cursor.fetchall()}


def _query(
    cursor: Any,
    table: SourceTable,
    made: Sequence[tuple[str, Conversion]],
    keys: KeyRange,
    defaults: set[str],
    times: Times | None,
) -> str:
    fields = ", ',', ".join(field(each, each.column.name in defaults) for _, each in made)
    where, given = sql.within(keys, partial(session.comparison, table), times, session.column_name)
    source = session.table_name(table) + (" FORCE INDEX (PRIMARY)" if table.key and times is None else "")
    statement = f"SELECT CONCAT({fields}, '\\n') FROM {source} WHERE {where}"
    found: str = cursor.mogrify(statement, given)
    return found


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


opened = MariaDBChunks
