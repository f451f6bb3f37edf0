"""Chunks of a PostgreSQL table: COPY of one snapshot that sees the end of every transaction that it has to see (S2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.core.copy.port import KeyRange, LogPosition, ReadAfter, SourceTable, Times
from tidegate.core.files.failure import JobError, refuse
from tidegate.databases import sql
from tidegate.databases.conversions import planned
from tidegate.databases.driver import LoggedRows
from tidegate.databases.postgresql import session
from tidegate.databases.postgresql.checksums import group
from tidegate.databases.postgresql.expressions import expression
from tidegate.databases.postgresql.stream import copied
from tidegate.databases.types import Bytes, Conversion

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg2.extensions import connection

    from tidegate.databases.arrow import Parser

PATIENCE_S, LOCK_S = 60.0, 30
_PAUSES_S = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
_SETTINGS = (
    "SET LOCAL TimeZone = 'UTC'", "SET LOCAL DateStyle = 'ISO'", "SET LOCAL extra_float_digits = 1",
    "SET LOCAL row_security = off", f"SET LOCAL lock_timeout = '{LOCK_S}s'",
)  # fmt: skip
_OPEN = """
SELECT x::text FROM unnest(%s::text[]::xid8[]) AS u(x) WHERE NOT pg_visible_in_snapshot(x, pg_current_snapshot())"""
_WHO = """
SELECT u.x, COALESCE(l.pid::text, ''), COALESCE(a.xact_start, p.prepared)::text, p.gid
FROM unnest(%s::text[]) AS u(x)
LEFT JOIN pg_locks l ON l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
  AND l.transactionid::text::numeric = mod(u.x::numeric, 4294967296)
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON p.transaction::text::numeric = mod(u.x::numeric, 4294967296)"""


class PostgreSQLChunks:
    """Implements `core.copy.port.ChunkReader`. `patience_s`: how long it waits for transactions to end."""

    def __init__(
        self,
        settings: Mapping[str, str],
        binary: Bytes = "bytes",
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings, self._binary, self._patience_s = settings, binary, patience_s
        self._clock, self._sleep = clock, sleep

    @contextmanager
    def read(
        self,
        table: SourceTable,
        columns: Sequence[tuple[str, str]],
        keys: KeyRange,
        after: ReadAfter | None,
        times: Times | None = None,
    ) -> Iterator[PostgreSQLRows]:
        from tidegate.databases.arrow import Parser

        made = planned(session.KIND, table, columns, self._binary)
        if after is not None and after.position is None:
            raise refuse(
                "no change event of this database has landed yet: a chunk would have no place among them",
                advice="change a row, or let the connector write heartbeats (heartbeat.action.query)",
            )
        with session.DRIVER.answering(self._settings):
            found = session.connect(self._settings)
        try:
            with session.DRIVER.answering(self._settings):
                self._snapshot(found, table, after)
                query = _query(found, table, made, keys, times, self._binary)
            known = None if after is None or after.position is None else (after.position[0], 0)
            with closing(PostgreSQLRows(found, query, Parser(made, table.key), known)) as rows:
                yield rows
        finally:
            found.close()

    def _snapshot(self, found: connection, table: SourceTable, after: ReadAfter | None) -> None:
        """Begin a transaction whose snapshot sees the end of all of `after.unseen`; or raise JobError."""
        with found.cursor() as cursor:
            if after is None:
                self._begin(cursor, table, ())
                return
            session.check_server(cursor)
            began, tries = self._clock(), 0
            while waits := self._begin(cursor, table, after.unseen):
                cursor.execute("ROLLBACK")
                if self._clock() - began >= self._patience_s:
                    raise _still_open(cursor, waits, self._patience_s)
                self._sleep(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])
                tries += 1

    def _begin(self, cursor: Any, table: SourceTable, unseen: Sequence[int]) -> list[str]:
        """The lock comes before the snapshot: a table that is rewritten or truncated in between would look empty."""
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        for setting in _SETTINGS:
            cursor.execute(setting)
        cursor.execute(f"LOCK TABLE {session.table_name(table).replace('%%', '%')} IN ACCESS SHARE MODE")
        cursor.execute(_OPEN, ([str(x) for x in unseen],))
        return [row[0] for row in cursor.fetchall()]


class PostgreSQLRows(LoggedRows):
    anew = "a failover"

    def __init__(self, found: connection, query: str, parser: Parser, known: LogPosition | None) -> None:
        """`known` None: nobody asks for a place in the log, which a standby does not have."""
        super().__init__(known or (0, 0), known)
        self._found, self._parser = found, parser
        self._parts = copied(found, f"COPY ({query}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')")

    def batches(self) -> Iterator[pa.RecordBatch]:
        with session.DRIVER.answering():
            for rows in self._parts:
                yield self._parser.batch(rows)
            high = self.low
            with self._found.cursor() as cursor:
                if self._known is not None:
                    cursor.execute(session.END)
                    high = (int(cursor.fetchone()[0]), 0)
                cursor.execute("COMMIT")
        self._end(high)

    def close(self) -> None:
        """End a query that nobody reads to its end."""
        self._parts.close()


def _query(
    found: connection,
    table: SourceTable,
    made: Sequence[tuple[str, Conversion]],
    keys: KeyRange,
    times: Times | None,
    binary: Bytes,
) -> str:
    wanted = ", ".join(expression(each) for _, each in made)
    where, given = sql.within(
        keys,
        partial(session.comparison, table),
        times,
        session.column_name,
        lambda groups: group(table, groups, binary == "base64"),
    )
    statement = f"SELECT {wanted} FROM {session.table_name(table)} WHERE {where}"
    with found.cursor() as cursor:
        done: bytes = cursor.mogrify(statement, given)
    return done.decode()


def _still_open(cursor: Any, waits: list[str], patience_s: float) -> JobError:
    cursor.execute(_WHO, (waits,))
    who = "; ".join(
        f"{x}{f', prepared as {gid}' if gid else f', pid {pid}' if pid else ''}{f', since {since}' if since else ''}"
        for x, pid, since, gid in cursor.fetchall()
    )
    return refuse(
        f"transactions that were open when the newest event landed are still open after {patience_s:.0f} s, and the "
        f"chunk has to see their end: {who}",
        advice="end them in the database if they do not end by themselves; the next try goes on by itself",
        retry=True,
    )


opened = PostgreSQLChunks
