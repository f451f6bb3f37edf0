"""A database's table as the control plane sees it: that it is there, and the chunks of a reading."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.base.instants import iso
from tidegate.core.batch.readings import ALWAYS, LANE, LEAST_OFFSETS, Reading, offset_at
from tidegate.core.copy.port import Bound, Database, KeyRange, SourceTable, Times
from tidegate.core.source.port import ForWorkers, Lane, LogState, Unmarked
from tidegate.core.spec import pipeline
from tidegate.core.window.states import WindowKey
from tidegate.databases import kinds
from tidegate.sources.database import TRAITS
from tidegate.sources.database.times import times_of

CUTS_S = 300.0
"""A statement that cuts chunks reads the key's index."""
_AT_ONCE = 100


class TableOfDatabase(Unmarked):
    """Implements `core.batch.readings.TableSource`. Each question has a session of its own."""

    traits = TRAITS

    def __init__(self, connection: Connection, source: pipeline.Source, timeout_s: float) -> None:
        self._connection, self._timeout_s, self._options = connection, timeout_s, dict(source.options)
        self._settings = kinds.for_workers(connection)

    def look(self, topic: str) -> LogState:
        """Raises SourceError for a table that is missing; its lane has no end, for it is time."""
        self.described(topic)
        return LogState(topic=topic, topic_id=topic, partitions={LANE: Lane(0, ALWAYS, ALWAYS)}, traits=TRAITS)

    def described(self, topic: str) -> SourceTable:
        with self.database(self._timeout_s) as database:
            return database.describe(topic)

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        self.described(topic)
        return {LANE: offset_at(timestamp_ms)}

    def for_workers(self) -> ForWorkers:
        settings = dict(self._settings)
        secrets = {name: settings.pop(name) for name in kinds.SECRETS if name in settings}
        return ForWorkers(settings, secrets)

    def reading(self, topic: str, window: WindowKey, complete_ms: int) -> Reading:
        rate = self._options.get("rate")
        with self.database(CUTS_S) as database:
            table = database.describe(topic)
            self._refuse_early(database.now_ms(), window)
            column = self._options.get("column")
            times = None if column is None else self.times(table, column, window)
            chunks = (KeyRange(),) if column is not None else self._chunks(database, table)
        most = (offset_at(window.end_ms) - offset_at(window.start_ms)) // LEAST_OFFSETS
        if len(chunks) > most:
            raise SourceError(
                f"table {topic} has {len(chunks)} chunks, such a window takes {most}",
                advice="raise source.chunk_rows",
                retry=False,
            )
        return Reading(
            server=self.server,
            table=table,
            window=window,
            complete_ms=complete_ms,
            chunks=tuple(chunks),
            times=times,
            tasks=int(self._options["tasks"]),
            rate=None if rate is None else int(rate),
        )

    def _refuse_early(self, now_ms: int, window: WindowKey) -> None:
        """Where the database's window goes on, rows are still to come for it. Raises SourceUnavailable."""
        if now_ms < window.end_ms:
            raise SourceUnavailable(
                f"{self.server}: its clock says {iso(now_ms)}, and the window ends at {iso(window.end_ms)}",
                advice="synchronise both clocks (NTP); the next try reads the window once it has ended there",
            )

    @property
    def server(self) -> str:
        """For people."""
        return kinds.told(self._settings)

    def times(self, table: SourceTable, column: str, window: WindowKey) -> Times:
        """Bounds of a window by the column. Raises SourceError."""
        zone, overlap = self._options["column_timezone"], int(self._options["overlap"])
        return times_of(self._settings["kind"], table, column, window, overlap, zone)

    def _chunks(self, database: Database, table: SourceTable) -> tuple[KeyRange, ...]:
        rows = self._options.get("chunk_rows")
        if rows is None or not table.key:
            return (KeyRange(),)
        bounds: list[Bound] = []
        while True:
            found = database.bounds(table, bounds[-1] if bounds else None, int(rows), _AT_ONCE)
            bounds += found
            if len(found) < _AT_ONCE:
                return tuple(KeyRange(*pair) for pair in itertools.pairwise([None, *bounds, None]))

    @contextmanager
    def database(self, timeout_s: float) -> Iterator[Database]:
        opened = kinds.opened(self._connection, timeout_s, logged=False)
        try:
            yield opened
        finally:
            opened.close()


def opened(connection: Connection, source: pipeline.Source, client_id: str, timeout_s: float) -> TableOfDatabase:
    """Raises SourceError."""
    return TableOfDatabase(connection, source, timeout_s)
