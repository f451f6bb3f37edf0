"""How the tables that a mirror shows are read from their databases: the section `copy`, compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidegate.core.base.plain import LEFT_OUT


@dataclass(frozen=True, kw_only=True)
class CopiedServer:
    """One of several servers that have a mirror's source tables (S11). `name`: what its events call it, the connector's
    `topic.prefix`; all else as in `Copy`."""

    name: str
    conn_id: str
    connect_conn_id: str | None = None
    connector: str | None = None
    slot: str | None = None

    @property
    def is_told(self) -> bool:
        """Whether anybody says how far its connector is."""
        return self.connector is not None or self.slot is not None


@dataclass(frozen=True, kw_only=True)
class Copy:
    """How a mirror's source table is read: `table` is `schema.name` there; or of its shards `tables`, a regular
    expression of that. `rate`: most rows a second, of all tasks
    together; None: no limit. `tasks`: chunks that are read at once. Who says how far the connector is: Kafka Connect at
    `connect_conn_id` of its `connector`, or PostgreSQL of its `slot`; None: nobody. `compare`: cron schedule of
    comparisons; None: there is no DAG for them. `compare_rows`: of the source, of one of them; None: all. `servers`:
    where the tables lie on several; then `conn_id` is empty."""

    conn_id: str
    table: str
    chunk_rows: int = 100_000
    rate: int | None = None
    tasks: int = 2
    schedule: str | None = None
    pool: str = "tidegate_ingest"
    connect_conn_id: str | None = None
    connector: str | None = None
    slot: str | None = None
    compare: str | None = None
    tables: str = field(default="", metadata=LEFT_OUT)
    compare_rows: int | None = field(default=None, metadata=LEFT_OUT)
    servers: tuple[CopiedServer, ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def each(self) -> tuple[CopiedServer, ...]:
        """The servers that are read; the only one has no name."""
        if self.servers:
            return self.servers
        told = {"connect_conn_id": self.connect_conn_id, "connector": self.connector, "slot": self.slot}
        return (CopiedServer(name="", conn_id=self.conn_id, **told),)

    def names(self, there: Callable[[], Iterable[str]]) -> tuple[str, ...]:
        """`schema.name` of each table, in order; `there`: all that the database has."""
        if not self.tables:
            return (self.table,)
        return tuple(sorted(name for name in there() if re.fullmatch(self.tables, name)))

    def server(self, name: str) -> CopiedServer:
        """The one of that name."""
        return next(one for one in self.each if one.name == name)

    @property
    def is_told(self) -> bool:
        """Whether anybody says how far every connector is."""
        return all(one.is_told for one in self.each)
