"""A real MariaDB, MySQL and PostgreSQL to copy from, each with a log of changes, and connections to them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg2

from dev.demo.mirror.mariadb import MariaDB
from dev.stack import keeper, postgres
from dev.stack.debian import unpacked
from dev.stack.info import StackInfo
from dev.stack.places import Places
from dev.stack.ports import choose_ports
from dev.stack.processes import Identity, Launcher, Program, end_all
from dev.stack.stack import Stack
from tests.databases.mysql_server import MySQL
from tests.real_kafka import eventually
from tidegate.core.base.connection import Connection

ICU_PACKAGES = ("postgresql-15", "libicu72", "libxml2", "libldap-2.5-0", "libsasl2-2")


@dataclass
class Server:
    """A server, as a pipeline's connection and for the test's own statements. `kind`: of database, `mysql`: of the
    kind `mariadb`, it is a MySQL. `crash`: kills it, and starts it again with what has committed; sessions are gone."""

    kind: str
    connection: Connection
    mysql: MySQL | None = None
    sessions: list[Any] = field(default_factory=list)
    crash: Callable[[], None] | None = None

    @property
    def product(self) -> str:
        """What people call it: `mysql` is a name of its own."""
        return "mysql" if self.mysql else self.kind

    def session(self, autocommit: bool = True) -> Any:
        """A new session of the test's own; the server's end closes it."""
        made = self._pymysql(autocommit) if self.kind == "mariadb" else self._psycopg2(autocommit)
        self.sessions.append(made)
        return made

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run them; the rows of the last one."""
        session = self.session()
        with session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.description else []
        session.close()
        return rows

    def _pymysql(self, autocommit: bool) -> Any:
        import pymysql

        at = self.connection
        return pymysql.connect(
            host=at.host, port=at.port, user="root", database=at.schema, autocommit=autocommit, charset="utf8mb4",
            init_command="SET SESSION sql_mode = '', time_zone = '+00:00'",
        )  # fmt: skip

    def _psycopg2(self, autocommit: bool) -> Any:
        at = self.connection
        made = psycopg2.connect(host=at.host, port=at.port, user=at.login, password=at.password, dbname=at.schema)
        made.autocommit = autocommit
        return made


@contextmanager
def mariadb(folder: Path, durable: bool = False, options: tuple[str, ...] = ()) -> Iterator[Server]:
    """MariaDB of Debian's packages, with the database `shop`. A `durable` one can `crash`. `options`: of the server."""
    launcher = Launcher(
        run_id="databases", logs=folder / "logs", owner=Identity.of(os.getpid()), on_start=lambda _running: None
    )
    source = MariaDB(folder / "mariadb", choose_ports(("mariadb",), {})["mariadb"], launcher, durable, options)
    running = [source.start()]

    def crash() -> None:
        end_all([running[-1].keeper], 0)
        running.append(source.serve())

    try:
        source.run("CREATE DATABASE shop CHARACTER SET utf8mb4")
        at = Connection(
            conn_id="shop", conn_type="mysql", host="127.0.0.1", port=source.port, login="root", schema="shop"
        )
        yield Server("mariadb", at, crash=crash if durable else None)
    finally:
        end_all([running[-1].keeper], 10)


@contextmanager
def mysql(folder: Path) -> Iterator[Server]:
    """MySQL of Debian's sid, with the database `shop`; its connection is root's, as in `mariadb`."""
    launcher = Launcher(
        run_id="databases", logs=folder / "logs", owner=Identity.of(os.getpid()), on_start=lambda _running: None
    )
    source = MySQL(folder / "mysql", choose_ports(("mysql",), {})["mysql"], launcher)
    running = [source.start()]

    def crash() -> None:
        end_all([running[-1].keeper], 0)
        running.append(source.serve())

    try:
        at = Connection(
            conn_id="shop", conn_type="mysql", host="127.0.0.1", port=source.port, login="root", schema="shop"
        )
        yield Server("mariadb", at, source, crash=crash)
    finally:
        end_all([running[-1].keeper], 10)


@contextmanager
def postgresql(folder: Path) -> Iterator[Server]:
    """PostgreSQL with wal_level=logical and prepared transactions, and the schema `shop` in its database. It can
    `crash`."""
    stack = Stack(folder / "stack", ("postgres",))
    with stack as info:
        server = Server("postgresql", _at(info))
        server.run("ALTER SYSTEM SET wal_level = logical")
        server.run("ALTER SYSTEM SET max_prepared_transactions = 10")
    with stack as info:
        again: list[subprocess.Popen[bytes]] = []
        server = Server("postgresql", _at(info), crash=lambda: _crashed(server, folder, again))
        server.run("CREATE SCHEMA shop")
        try:
            yield server
        finally:
            for process in again:
                process.send_signal(signal.SIGQUIT)
                process.wait()


def _crashed(server: Server, folder: Path, again: list[subprocess.Popen[bytes]]) -> None:
    """Kill it, and start it again as it was, as one of these processes."""
    ((home,),) = server.run("SHOW data_directory")
    own = int((Path(home) / "postmaster.pid").read_text().split()[0])
    of = Path(f"/proc/{own}")
    argv = (of / "cmdline").read_bytes().decode().split("\0")[:-1]
    env = dict(one.split("=", 1) for one in (of / "environ").read_bytes().decode().split("\0") if "=" in one)
    unroot = keeper.leave_root if os.geteuid() == 0 else None
    children = [int(pid) for pid in (of / "task" / str(own) / "children").read_text().split()]
    os.kill(own, signal.SIGKILL)
    eventually(lambda: not any(_lives(pid) for pid in (own, *children)))
    with (folder / "again.log").open("ab") as log:
        again.append(subprocess.Popen(argv, env=env, cwd=home, stdout=log, stderr=log, preexec_fn=unroot))
    eventually(lambda: _answers(server))


def _lives(pid: int) -> bool:
    try:
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")
    except OSError:
        return False


def _answers(server: Server) -> bool:
    try:
        return bool(server.run("SELECT 1"))
    except psycopg2.OperationalError:
        return False


@contextmanager
def postgresql_with_icu(folder: Path) -> Iterator[Server]:
    """The same from Debian's packages: the stack's own has no ICU."""
    root = unpacked(Places.of_checkout().own / "debian" / "postgresql", ICU_PACKAGES) / "usr"
    (home,) = (root / "lib" / "postgresql").iterdir()
    (libraries,) = (root / "lib").glob("*-linux-gnu")

    def program(name: str, options: list[str], cwd: Path) -> Program:
        made = theirs(name, options, cwd)
        env = {**made.env, "LD_LIBRARY_PATH": str(libraries)}
        return replace(made, argv=[str(home / "bin" / name), *options], env=env)

    theirs = postgres._program
    with (
        mock.patch.object(postgres, "_program", program),
        mock.patch.object(postgres, "cluster_template", return_value=None),
        postgresql(folder) as server,
    ):
        yield server


def _at(info: StackInfo) -> Connection:
    return Connection(
        conn_id="shop", conn_type="postgres", host=info.postgres_host, port=info.postgres_port,
        login=info.postgres_user, password=info.postgres_password, schema="tidegate",
    )  # fmt: skip
