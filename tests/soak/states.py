"""Where a task stands in its protocol, read from the ledger in a millisecond."""

from __future__ import annotations

import psycopg2

from tests.soak.scene import NAME
from tests.soak.servers import Servers

BATCH = ("NONE", "PLANNED", "WRITING", "SEALED", "LANDED")
"""NONE: no open batch. LANDED: its late and dirty files are not all in their tables yet."""
WINDOW = ("OPEN", "CLOSING", "BUILDING", "BUILT", "SWAPPING", "CURRENT")
"""CLOSED stands as BUILDING: both begin with the same commit."""

_BATCH = "SELECT state, side_registered FROM batches WHERE pipeline = %s ORDER BY batch_id DESC LIMIT 1"
_WINDOW = "SELECT state FROM windows WHERE pipeline = %s AND start_ms = %s"
_GENERATION = (
    "SELECT state FROM generations WHERE pipeline = %s AND window_ms = %s AND state <> 'DISCARDED' "
    "ORDER BY number DESC LIMIT 1"
)


class States:
    """One connection, opened again when it breaks; every look is None while PostgreSQL does not answer."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._connection: psycopg2.extensions.connection | None = None

    def batch(self) -> str | None:
        row = self._row(_BATCH, NAME)
        if not isinstance(row, tuple):
            return row
        state, registered = row
        return "NONE" if state == "ABANDONED" or (state == "LANDED" and registered) else state

    def window(self, start_ms: int) -> str | None:
        row = self._row(_WINDOW, NAME, start_ms)
        if not isinstance(row, tuple):
            return "OPEN" if row == "NONE" else row
        if row[0] != "CLOSED":
            return row[0]
        generation = self._row(_GENERATION, NAME, start_ms)
        return generation[0] if isinstance(generation, tuple) else generation and "BUILDING"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _row(self, query: str, *values: object) -> tuple | str | None:
        """A row, "NONE" without one, None without an answer."""
        for _ in range(2):  # a connection of before a restart is broken, a new one answers
            try:
                if self._connection is None:
                    self._connection = self._servers.connect()
                    self._connection.cursor().execute("SET statement_timeout = '2s'")
                with self._connection.cursor() as cursor:
                    cursor.execute(query, values)
                    return cursor.fetchone() or "NONE"
            except psycopg2.Error:
                self._connection = None
        return None
