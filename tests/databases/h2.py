"""H2 as a server: a database that is reached by its driver for JDBC alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dev.stack.jars import ensure_jars
from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.ports import LOOPBACK, choose_ports
from dev.stack.processes import Identity, Launcher, Program, end_all
from tests.databases.servers import Server
from tidegate.core.base.connection import Connection
from tidegate.databases import kinds
from tidegate.databases.jdbc import session

LOCKS = Path(__file__).with_name("jars")
_LIKE_OTHERS = "DATABASE_TO_LOWER=TRUE;NON_KEYWORDS=DAY,LOCAL;DB_CLOSE_DELAY=-1"


class _Cursor:
    """As much of a cursor as tests of the other databases use; `%s` are parameters."""

    def __init__(self, connection: Any) -> None:
        self._connection, self._rows = connection, None
        self.description: Any = None

    def __enter__(self) -> _Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, statement: str, given: Sequence[Any] = ()) -> None:
        made = self._connection.prepareStatement(statement.replace("%s", "?"))
        for number, value in enumerate(given, 1):
            made.setObject(number, value if value is None or not isinstance(value, bytes) else _java_bytes(value))
        self._rows = made.getResultSet() if made.execute() else None
        self.description = self._rows and self._rows.getMetaData()

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            self.execute(statement, row)

    def fetchall(self) -> list[tuple[Any, ...]]:
        count, found = self.description.getColumnCount(), []
        while self._rows.next():
            found.append(tuple(self._rows.getObject(n) for n in range(1, count + 1)))
        return found


def _java_bytes(value: bytes) -> Any:
    jpype = session.java()
    return jpype.JArray(jpype.JByte)(value)


class Session:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def cursor(self) -> _Cursor:
        return _Cursor(self._connection)

    def close(self) -> None:
        self._connection.close()


class H2(Server):
    """The server; its user `reader` has a password."""

    def session(self, autocommit: bool = True) -> Any:
        connection = session.connect(kinds.for_workers(self.connection))
        connection.setReadOnly(False)
        return Session(connection)


@contextmanager
def h2(folder: Path) -> Iterator[Server]:
    """With the schema `shop`."""
    (jar,) = ensure_jars("h2", Places.of_checkout(), locks=LOCKS).glob("*.jar")
    os.environ.setdefault("JAVA_HOME", str(find_java().home))
    port = choose_ports(("h2",), {})["h2"]
    launcher = Launcher(run_id="h2", logs=folder / "logs", owner=Identity.of(os.getpid()), on_start=lambda _: None)
    arguments = ["-tcp", "-tcpPort", str(port), "-ifNotExists", "-baseDir", str(folder)]
    program = Program([str(find_java().binary), "-cp", str(jar), "org.h2.tools.Server", *arguments], {}, folder)
    running = launcher.start("h2", program)
    url = f"jdbc:h2:tcp://{LOOPBACK}:{port}/./shop;{_LIKE_OTHERS}"
    at = Connection(
        conn_id="shop", conn_type="jdbc", host=url, login="reader", password="open", extra={"driver_path": str(jar)}
    )
    made = H2("jdbc", at)
    try:
        running.wait_ready(lambda: _answers(made), 60)
        made.run("CREATE SCHEMA shop")
        yield made
    finally:
        end_all([running.keeper], 10)


def _answers(server: Server) -> bool:
    try:
        server.session().close()
    except Exception as e:
        if not session.is_of_the_driver(e):
            raise
        return False
    return True
