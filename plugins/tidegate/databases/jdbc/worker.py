"""Chunks of a table by JDBC: rows of one query, value by value, by the Java in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tidegate.core.copy.port import KeyRange, LogPosition, ReadAfter, SourceTable, Times
from tidegate.core.files.failure import refuse
from tidegate.databases.conversions import planned
from tidegate.databases.driver import Unusable
from tidegate.databases.jdbc import session
from tidegate.databases.jdbc.columns import value_of
from tidegate.databases.sql import BATCH_BYTES, BATCH_ROWS, look_at
from tidegate.databases.types import Bytes, Conversion

if TYPE_CHECKING:
    import pyarrow as pa


class JDBCChunks:
    """Implements `core.copy.port.ChunkReader` for tables without a log."""

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
    ) -> Iterator[JDBCRows]:
        made = planned(session.KIND, table, columns, self._binary)
        if after is not None:
            raise refuse(
                "a database by JDBC has no log of changes", advice="read the table without one: docs/offline.md"
            )
        with _answering(self._settings):
            found = session.connect(self._settings)
        rows = JDBCRows(self._settings, found, table, made, keys, times)
        try:
            yield rows
        except BaseException:
            rows.cancel()  # else some drivers read an abandoned query to its end
            raise
        finally:
            session.close(found)


class JDBCRows:
    """Implements `core.copy.port.Rows`; its places say nothing."""

    low: LogPosition = (0, 0)
    high: LogPosition = (0, 0)

    def __init__(
        self,
        settings: Mapping[str, str],
        connection: Any,
        table: SourceTable,
        made: Sequence[tuple[str, Conversion]],
        keys: KeyRange,
        times: Times | None,
    ) -> None:
        self._settings, self._connection, self._made = settings, connection, made
        self._table, self._keys, self._times = table, keys, times
        self._asked: Any = None

    def cancel(self) -> None:
        if self._asked is not None:
            with suppress(session.java().JException):
                self._asked.cancel()

    def batches(self) -> Iterator[pa.RecordBatch]:
        from tidegate.databases.arrow import Parser

        parser, lines, size = Parser(self._made, self._table.key), list[bytes](), 0
        for line in self._lines():
            lines.append(line)
            size += len(line)
            if len(lines) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield parser.batch(lines)
                lines, size = [], 0
        if lines:
            yield parser.batch(lines)

    def _lines(self) -> Iterator[bytes]:
        """A line of CSV for each row."""
        with _answering(self._settings):
            self._asked = self._query()
            rows = self._asked.executeQuery()
            takes = [(value_of(each.family, each.how), number) for number, (_, each) in enumerate(self._made, 1)]
            while rows.next():
                yield (",".join([take(rows, number) or "" for take, number in takes]) + "\n").encode()

    def _query(self) -> Any:
        names = session.Names(self._connection)
        wanted = ", ".join(names.column(each.column.name) for _, each in self._made)
        where, given = names.where(self._table, self._keys, self._times)
        self._connection.setAutoCommit(False)  # some drivers bring all rows at once otherwise
        made = session.prepared(
            self._connection, f"SELECT {wanted} FROM {names.table(self._table)} WHERE {where}", given
        )
        made.setFetchSize(session.FETCH_ROWS)
        return made


@contextmanager
def _answering(settings: Mapping[str, str]) -> Iterator[None]:
    """What goes wrong becomes a job's last words."""
    try:
        yield
    except Unusable as error:
        raise refuse(error.what, advice=error.advice) from None
    except UnicodeError:
        raise refuse("a row of the source is no text in UTF-8", advice="look for its bytes in the source") from None
    except Exception as error:
        if not session.is_of_the_driver(error):
            raise
        passing = session.passes(error)
        did = "did not answer" if passing else "refused"
        raise refuse(
            f"{session.address(settings)} {did}: {session.said(error, settings)}",
            advice=look_at(settings),
            retry=passing,
        ) from None


opened = JDBCChunks
