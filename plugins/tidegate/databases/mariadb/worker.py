"""Chunks of a table of MariaDB or MySQL: one query in a snapshot that has seen the binary log up to a place (S2).

The server makes one text of each row, a line of CSV: the driver decodes nothing, and the lines become columns at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pymysql

from tidegate.core.copy.port import KeyRange, LogPosition, ReadAfter, SourceTable, Times
from tidegate.core.files.failure import refuse
from tidegate.databases import sql
from tidegate.databases.conversions import planned
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
        with _answering():
            found = session.connect(self._settings, ANSWER_S)
        try:
            with _answering(), found.cursor() as cursor:
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


class MariaDBRows:
    """Implements `core.copy.port.Rows`."""

    def __init__(
        self, found: Any, query: str, parser: Parser, low: LogPosition | None, known: LogPosition | None
    ) -> None:
        """`low` None: nobody asks for a place in the log."""
        self._found, self._query, self._parser, self._known = found, query, parser, known
        self.low, self._logged = low or (0, 0), low is not None
        self._high: LogPosition | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        with _answering():
            for rows in lines(self._found, self._query):
                yield self._parser.batch(rows)
            with self._found.cursor() as cursor:
                cursor.execute("COMMIT")
                high = session.end(cursor) if self._logged else self.low
        self._check(high)
        self._high = high

    def _check(self, high: LogPosition) -> None:
        if self._known is not None and high < (self._known[0], 0):
            raise refuse(
                f"events have landed up to {self._known[0]}, and the server's log ends at {high[0]}: it is another log",
                advice="let copy.conn_id name the server that the connector reads; after RESET MASTER copy anew",
            )

    @property
    def high(self) -> LogPosition:
        assert self._high is not None, "the rows have not ended"
        return self._high


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
    where, given = sql.within(
        keys, lambda bound, operator: session.comparison(table, bound, operator), times, session.column_name
    )
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


@contextmanager
def _answering() -> Iterator[None]:
    """What goes wrong becomes a job's last words."""
    try:
        yield
    except (pymysql.err.Error, OSError) as error:
        passing = session.passes(error)
        raise refuse(
            f"{session.TITLE} {'did not answer' if passing else 'refused'}: {session.said(error)}",
            advice="check the connection to the source's database, and the rights of its user",
            retry=passing,
        ) from None
    except session.Unusable as error:
        raise refuse(error.what, advice=error.advice) from None


def opened(settings: Mapping[str, str], binary: Bytes = "bytes") -> MariaDBChunks:
    return MariaDBChunks(settings, binary)
