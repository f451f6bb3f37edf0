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
from tidegate.databases.mariadb.checksums import group
from tidegate.databases.mariadb.expressions import field, with_default
from tidegate.databases.mariadb.stream import lines
from tidegate.databases.types import Bytes, Conversion

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.databases.arrow import Parser

ANSWER_S = 600.0


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
        with session.DRIVER.answering(self._settings):
            found = session.connect(self._settings, ANSWER_S)
        try:
            with session.DRIVER.answering(self._settings), found.cursor() as cursor:
                session.check_server(cursor, after is not None)
                if after is not None:
                    session.end(cursor, table.schema)
                defaults = with_default(cursor, table)
                if after is None:
                    cursor.execute(session.SNAPSHOT)
                low = None if after is None else session.begin_snapshot(cursor)
                query = _query(cursor, table, made, keys, defaults, times, self._binary)
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


def _query(
    cursor: Any,
    table: SourceTable,
    made: Sequence[tuple[str, Conversion]],
    keys: KeyRange,
    defaults: set[str],
    times: Times | None,
    binary: Bytes,
) -> str:
    fields = ", ',', ".join(field(each, each.column.name in defaults) for _, each in made)
    where, given = sql.within(
        keys,
        partial(session.comparison, table),
        times,
        session.column_name,
        lambda groups: group(table, groups, binary == "base64", defaults),
    )
    source = session.table_name(table) + (" FORCE INDEX (PRIMARY)" if table.key and times is None else "")
    statement = f"SELECT CONCAT({fields}, '\\n') FROM {source} WHERE {where}"
    found: str = cursor.mogrify(statement, given)
    return found


opened = MariaDBChunks
