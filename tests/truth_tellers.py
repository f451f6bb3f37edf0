"""Systems of each kind that can be asked for a window's count, and told what to answer."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from tests.fakes.counting_server import CountingServer
from tests.fakes.truth import FakeTruth
from tests.real_kafka import Topic
from tests.world import HOUR, T0, make_pipeline
from tidegate.adapters.connections import ConnectionMissing
from tidegate.completeness.connection import truth_of
from tidegate.core.base.connection import Connection
from tidegate.core.completeness.port import Truth
from tidegate.core.spec.pipeline import Completeness

QUERY = "select n from counts where start_ms = :start_ms and at >= :start and at < :end and end_ms = :end_ms"


@dataclass(frozen=True)
class Said:
    """A message of the audit topic."""

    content: bytes
    at: int = 0

    def value(self) -> bytes:
        return self.content

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at


class Teller(Protocol):
    """The other system: `tell` gives a window's count, `leave` makes it unreachable."""

    truth: Truth

    def tell(self, hour: int, count: Any) -> None: ...
    def leave(self) -> None: ...


def asked(settings: Completeness, connection: Connection | None) -> Truth:
    from dataclasses import replace

    def lookup(conn_id: str) -> Connection:
        if connection is None:
            raise ConnectionMissing(f"connection {conn_id} is not in this environment")
        return connection

    truth = truth_of(replace(make_pipeline("file:///lake/t"), completeness=settings), lookup)
    assert truth is not None
    return truth


class Fake:
    def __init__(self) -> None:
        self.truth = FakeTruth()

    def tell(self, hour: int, count: Any) -> None:
        self.truth.counts[T0 + hour * HOUR] = count

    def leave(self) -> None:
        self.truth.problem = "away"


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "other system's counts.db"
        self._do("create table counts (at text, start_ms bigint, end_ms bigint, n)")
        self.truth = asked(
            Completeness(source="sql", conn_id="counts", query=QUERY),
            Connection(conn_id="counts", conn_type="sqlite", host=str(self.path)),
        )

    def tell(self, hour: int, count: Any) -> None:
        at = f"2013-01-05 {hour:02d}:00:00"
        self._do("insert into counts values (?, ?, ?, ?)", at, T0 + hour * HOUR, T0 + (hour + 1) * HOUR, count)

    def leave(self) -> None:
        self.path.unlink()

    def _do(self, statement: str, *values: Any) -> None:
        with sqlite3.connect(self.path) as c:
            c.execute(statement, values)
        c.close()


class Postgres:
    """`at` has no zone and a server's own zone is far away: instants must be compared in UTC all the same."""

    def __init__(self, server: str) -> None:
        self.url, self.name = make_url(server), f"counts_{uuid.uuid4().hex[:8]}"
        self._admin(f"create database {self.name}", f"alter database {self.name} set timezone to 'Asia/Tokyo'")
        self._engine = create_engine(self.url.set(database=self.name), isolation_level="AUTOCOMMIT")
        self.do("create table counts (at timestamp, start_ms bigint, end_ms bigint, n double precision)")
        self.truth = self.asking(QUERY)

    def connection(self) -> Connection:
        url, extra = self.url, dict(self.url.query)
        host = url.host or extra.pop("host", None)
        return Connection(
            conn_id="counts",
            conn_type="postgres",
            host=host,
            port=url.port,
            login=url.username,
            password=url.password,
            schema=self.name,
            extra=extra,
        )

    def asking(self, query: str) -> Truth:
        return asked(Completeness(source="sql", conn_id="counts", query=query), self.connection())

    def tell(self, hour: int, count: Any) -> None:
        value = "null" if count is None else f"'{count}'::double precision"
        at = f"2013-01-05 {hour:02d}:00:00"
        self.do(f"insert into counts values ('{at}', {T0 + hour * HOUR}, {T0 + (hour + 1) * HOUR}, {value})")

    def leave(self) -> None:
        self._engine.dispose()
        self._admin(f"drop database {self.name} with (force)")

    def do(self, statement: str) -> None:
        with self._engine.connect() as c:
            c.exec_driver_sql(statement)

    def _admin(self, *statements: str) -> None:
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as c:
            for statement in statements:
                c.exec_driver_sql(statement)
        engine.dispose()


class Http:
    def __init__(self, server: CountingServer) -> None:
        self.server = server
        self.truth = self.asking(server.connection())

    def asking(self, connection: Connection, path: str = "/counts/{start_ms}?until={end}") -> Truth:
        return asked(Completeness(source="http", conn_id="counts", path=path, count_path="$.found.count"), connection)

    def tell(self, hour: int, count: Any) -> None:
        path = f"/counts/{T0 + hour * HOUR}?until=2013-01-05T{hour + 1:02d}%3A00%3A00Z"
        self.server.answers[path] = json.dumps({"found": {"count": count}})

    def leave(self) -> None:
        self.server.stop()


class Audit:
    def __init__(self, bootstrap: str, **paths: str) -> None:
        self.topic = Topic(bootstrap, 2)
        self.truth = self.asking(**paths)

    def asking(self, **paths: str) -> Truth:
        given = {"window_path": "$.window", "count_path": "$.count"} | paths
        settings = Completeness(source="topic", conn_id="kafka", topic=self.topic.name, **given)  # type: ignore[arg-type]
        return asked(settings, Connection(conn_id="kafka", conn_type="kafka", extra=self.topic.settings))

    def tell(self, hour: int, count: Any) -> None:
        self.topic.produce({"window": T0 + hour * HOUR, "count": count}, partition=hour % 2)

    def leave(self) -> None:
        self.topic.delete()


@contextmanager
def telling(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Any]:
    if kind == "fake":
        yield Fake()
    elif kind == "sqlite":
        yield Sqlite(folder)
    elif kind == "postgres":
        made = Postgres(request.getfixturevalue("postgres").ledger_url)
        yield made
        made._admin(f"drop database if exists {made.name} with (force)")
    elif kind == "http":
        with CountingServer() as server:
            yield Http(server)
    else:
        yield Audit(request.getfixturevalue("kafka").kafka_bootstrap)
