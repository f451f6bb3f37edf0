"""Servers that a copy cannot use, users with few rights, and connections that end meanwhile."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tests.databases.reading import known, numbers, read, refused, series
from tests.databases.servers import Server
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.copy.port import KeyRange, SourceTable
from tidegate.core.files.failure import JobError
from tidegate.databases import kinds, sql
from tidegate.databases.driver import Unusable
from tidegate.databases.mariadb import mysql
from tidegate.databases.mariadb import session as mariadb_session
from tidegate.databases.postgresql import session as postgresql_session

ONE, TWO = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
TABLE = SourceTable(schema="shop", name="t", key=("id",), columns=())


class Cursor:
    """Gives one row for each statement that begins so, and none for others. `version`: of its server."""

    def __init__(self, answers: dict[str, Any], version: str = "5.5.5-10.11.6-MariaDB") -> None:
        self._answers, self._found, self._version = answers, None, version
        self.connection, self.asked, self.said = self, list[Any](), list[str]()

    def get_server_info(self) -> str:
        return self._version

    def execute(self, sql: str, args: Any = None) -> None:
        self.asked.append(args)
        self.said.append(sql)
        self._found = next((row for start, row in self._answers.items() if sql.startswith(start)), None)

    def fetchone(self) -> Any:
        return self._found

    def fetchall(self) -> Any:
        return self._found or []


@pytest.mark.parametrize(
    ("about", "says"),
    [
        (("8.4.2", 1, "ROW"), "does not say which commits .* gtid_mode is not ON"),
        (("10.11.6-MariaDB", 0, "ROW"), "writes no binary log"),
        (("10.11.6-MariaDB", 1, "MIXED"), "binlog_format is MIXED"),
    ],
)
def test_servers_without_a_usable_binary_log(about: tuple[str, int, str], says: str) -> None:
    answers = {"SELECT VERSION()": about, "SHOW GLOBAL": [("gtid_mode", "ON_PERMISSIVE")]}
    with pytest.raises(Unusable, match=says):
        mariadb_session.check_server(Cursor(answers))


def test_a_server_that_says_the_place_of_a_snapshot_is_taken_by_any_name() -> None:
    said = [("Binlog_snapshot_file", "binlog.000002"), ("Binlog_snapshot_position", "77")]
    cursor = Cursor({"SELECT VERSION()": ("8.0.36-28 Percona Server", 1, "ROW"), "SHOW STATUS": said})
    mariadb_session.check_server(cursor)
    assert mariadb_session.begin_snapshot(cursor) == (2 * (1 << 40) + 77, 0)
    with pytest.raises(Unusable):
        mariadb_session.begin_snapshot(Cursor({"SHOW STATUS": [("Binlog_snapshot_file", "")]}))


@pytest.mark.parametrize(
    ("version", "statement"),
    [
        ("5.5.5-11.8.2-MariaDB", "SHOW MASTER STATUS"),
        ("8.0.42", "SHOW MASTER STATUS"),
        ("8.1.0", "SHOW MASTER STATUS"),
        ("8.2.0", "SHOW BINARY LOG STATUS"),
        ("9.7.4-2", "SHOW BINARY LOG STATUS"),
        ("10.0.1-commercial", "SHOW BINARY LOG STATUS"),
    ],
)
def test_the_log_s_end_is_asked_in_the_server_s_words(version: str, statement: str) -> None:
    cursor = Cursor({statement: ("binlog.000001", 4, "", "")}, version)
    assert mariadb_session.end(cursor) == ((1 << 40) + 4, 0)


@pytest.mark.parametrize(
    ("owned", "asked"),
    [
        ("", None),
        (f"{ONE}:23#45", f"{ONE}:23"),
        (f"{ONE}:23#45:25#9{TWO}:tag:1#7{TWO}:9#812", f"{ONE}:23:25,{TWO}:tag:1,{TWO}:9"),
        (f"{ONE}:23#45,\n{TWO}:1#7", f"{ONE}:23,{TWO}:1"),
    ],
)
def test_commits_of_mysql_that_are_under_way_are_waited_for_in_one_question(owned: str, asked: str | None) -> None:
    for late in (0, 1):
        cursor = Cursor({"SELECT @@GLOBAL.gtid_owned": (owned,), "SELECT WAIT_FOR": (late,)})
        if late and asked:
            with pytest.raises(JobError, match="not seen to be committed within 7 s") as caught:
                mysql.wait_until_seen(cursor, 7)
            assert caught.value.failure.retry
        else:
            mysql.wait_until_seen(cursor, 7)
        assert cursor.asked[1:] == ([] if asked is None else [(asked, 7)])


def test_the_log_s_end_of_mysql_is_known_before_it_is_asked_what_is_under_way() -> None:
    """The other way round a commit that begins in between is below LOW, and not waited for."""
    answers = {"SHOW BINARY": ("binlog.000001", 4, "", ""), "SELECT @@GLOBAL.gtid_owned": ("",)}
    cursor = Cursor(answers, "9.7.4")
    assert mariadb_session.begin_snapshot(cursor) == ((1 << 40) + 4, 0)
    order = ("SHOW STATUS", "SHOW BINARY LOG STATUS", "SELECT @@GLOBAL.gtid_owned", "START TRANSACTION")
    assert [said.startswith(start) for said, start in zip(cursor.said, order, strict=True)] == [True] * 4


@pytest.mark.parametrize(("only", "ignored"), [("other", ""), ("", "a,shop"), ("shops", None)])
def test_a_binary_log_that_leaves_the_database_out(only: str, ignored: str | None) -> None:
    cursor = Cursor({"SHOW MASTER": ("binlog.000001", 4, only, ignored)})
    with pytest.raises(Unusable, match="leaves out the database shop"):
        mariadb_session.end(cursor, "shop")
    assert mariadb_session.end(cursor) == ((1 << 40) + 4, 0)


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ((True, "logical", 160000), "is a standby"),
        ((False, "replica", 160000), "wal_level is replica"),
        ((False, "logical", 120011), "PostgreSQL 12 does not say"),
    ],
)
def test_servers_without_a_usable_log_of_changes(about: tuple[bool, str, int], says: str) -> None:
    with pytest.raises(Unusable, match=says):
        postgresql_session.check_server(Cursor({"SELECT pg_is": about}))


def test_both_sides_refuse_what_the_session_cannot_use(mariadb: Server) -> None:
    mariadb.run("SET GLOBAL binlog_format = 'MIXED'")
    try:
        with pytest.raises(SourceError, match="binlog_format is MIXED") as caught:
            kinds.opened(mariadb.connection, 10.0).position()
        assert not caught.value.retry
        assert "binlog_format=ROW" in refused(lambda: read(mariadb, TABLE, []))
    finally:
        mariadb.run("SET GLOBAL binlog_format = 'ROW'")


def test_tables_without_snapshots_are_refused(mariadb: Server) -> None:
    mariadb.run("DROP TABLE IF EXISTS shop.t", "CREATE TABLE shop.t (id INT PRIMARY KEY) ENGINE=MyISAM")
    with pytest.raises(SourceError, match="MyISAM, which has no snapshots"):
        kinds.opened(mariadb.connection, 10.0).describe("shop.t")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("id ENUM('b','a') PRIMARY KEY", "ordered by its numbers"),
        ("id FLOAT PRIMARY KEY", "no bounds can be made of float"),
        ("id TIME PRIMARY KEY", "no bounds can be made of time"),
        ("id TEXT, PRIMARY KEY (id(9))", "its key has a part of it only"),
    ],
)
def test_keys_whose_order_is_none_are_refused(mariadb: Server, columns: str, says: str) -> None:
    mariadb.run("DROP TABLE IF EXISTS shop.t", f"CREATE TABLE shop.t ({columns})")
    with pytest.raises(SourceError, match=says):
        kinds.opened(mariadb.connection, 10.0).describe("shop.t")


def test_tables_of_postgresql_whose_log_is_another(postgresql: Server) -> None:
    database = kinds.opened(postgresql.connection, 10.0)
    postgresql.run("DROP TABLE IF EXISTS shop.t", "CREATE UNLOGGED TABLE shop.t (id int PRIMARY KEY)")
    with pytest.raises(SourceError, match="unlogged"):
        database.describe("shop.t")
    postgresql.run(
        "DROP TABLE shop.t", "CREATE TABLE shop.t (id int PRIMARY KEY)", "CREATE TABLE shop.c () INHERITS (shop.t)"
    )
    with pytest.raises(SourceError, match="other tables inherit"):
        database.describe("shop.t")
    postgresql.run("DROP TABLE shop.t CASCADE", "CREATE TABLE shop.t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    postgresql.run(
        "CREATE TABLE shop.t1 PARTITION OF shop.t FOR VALUES FROM (0) TO (9)", "INSERT INTO shop.t VALUES (1), (2)"
    )
    table = database.describe("shop.t")
    assert [row["id"] for row in read(postgresql, table, [("id", "int")])[0]] == [1, 2]
    database.close()


# ---------------------------------------------------------------- rights


@pytest.fixture
def reader(postgresql: Server) -> Iterator[Server]:
    """A user who may read shop.t, and nothing else."""
    postgresql.run("DROP TABLE IF EXISTS shop.t")
    numbers(postgresql, 3)
    postgresql.run(
        "CREATE ROLE reader LOGIN PASSWORD 'reader'",
        "GRANT USAGE ON SCHEMA shop TO reader",
        "GRANT SELECT ON shop.t TO reader",
    )
    yield Server("postgresql", replace(postgresql.connection, login="reader", password="reader"))
    postgresql.run("DROP OWNED BY reader", "DROP ROLE reader")


def test_a_user_who_may_read_sees_the_transactions_of_others(postgresql: Server, reader: Server) -> None:
    writer = postgresql.session(autocommit=False)
    writer.cursor().execute("INSERT INTO shop.t VALUES (1, 'open')")
    database = kinds.opened(reader.connection, 10.0)
    after, table = known(reader, database), database.describe("shop.t")
    assert len(after.unseen) == 1
    writer.commit()
    writer.close()
    assert len(read(reader, table, [("id", "bigint")], after=after)[0]) == 4
    database.close()


def test_rows_that_a_policy_hides_are_refused(postgresql: Server, reader: Server) -> None:
    postgresql.run("ALTER TABLE shop.t ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON shop.t USING (id > 10)")
    database = kinds.opened(reader.connection, 10.0)
    after, table = known(reader, database), database.describe("shop.t")
    with pytest.raises(SourceError, match="row-level security"):
        database.bounds(table, None, 1, 1)
    assert "row-level security" in refused(lambda: read(reader, table, [("id", "bigint")], after=after))
    database.close()


def test_a_wrong_password_is_not_tried_again(postgresql: Server) -> None:
    wrong = Server("postgresql", replace(postgresql.connection, password="wrong"))
    with pytest.raises(SourceError) as caught:
        kinds.opened(wrong.connection, 10.0).position()
    assert not caught.value.retry
    assert caught.value.advice == f"check connection {wrong.connection.conn_id}, and the rights of its user"
    refused(lambda: read(wrong, TABLE, []))


# ---------------------------------------------------------------- connections


@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_a_connection_that_is_ended_is_tried_again(
    request: pytest.FixtureRequest, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "IDLE_S", math.inf)
    server: Server = request.getfixturevalue(kind)
    server.run("DROP TABLE IF EXISTS shop.t", "CREATE TABLE shop.t (id BIGINT PRIMARY KEY, word VARCHAR(200))")
    server.run(f"INSERT INTO shop.t SELECT n, REPEAT('x', 150) FROM {series(server, 1, 200_000)}")
    database = kinds.opened(server.connection, 10.0)
    table = database.describe("shop.t")
    chunks = kinds.reader(kinds.for_workers(server.connection))
    with chunks.read(table, [("id", "bigint"), ("word", "string")], KeyRange(), known(server, database)) as rows:
        batches = rows.batches()
        next(batches)
        end_sessions(server)
        refused(lambda: list(batches), retry=True)
    with pytest.raises(SourceUnavailable) as caught:
        database.position()
    assert caught.value.advice.startswith("check the connection to the source's database"), "it is not source.conn_id"
    assert database.position() > (1, 0)  # by a new connection
    database.close()


@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_a_session_that_ended_while_it_was_idle_is_replaced(
    request: pytest.FixtureRequest, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `wait_timeout` or a firewall, while a job reads, or the mirror is summed: a task would fail with each try."""
    monkeypatch.setattr(sql, "IDLE_S", 0.0)
    server: Server = request.getfixturevalue(kind)
    server.run("DROP TABLE IF EXISTS shop.t")
    numbers(server, 3)
    database = kinds.opened(server.connection, 10.0)
    table = database.describe("shop.t")
    sums = database.checksums(table, [("id", "bigint")], base64=False)
    before = sums.of(KeyRange())
    end_sessions(server)
    assert sums.of(KeyRange()) == before
    database.close()
    assert database.describe("shop.t") == table
    database.close()


@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_a_session_that_was_refused_its_settings_is_not_used(
    request: pytest.FixtureRequest, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the second question would be asked by one that may write, and that waits for ever."""
    server: Server = request.getfixturevalue(kind)
    database = kinds.opened(server.connection, 10.0)
    monkeypatch.setattr(type(database), "_begin", lambda _self, cursor: cursor.execute("SET SESSION no_such = 1"))
    for _ in range(2):
        with pytest.raises(SourceError, match="refused"):
            database.position()
    monkeypatch.undo()
    assert database.position() > (0, 0)
    database.close()


def end_sessions(server: Server) -> None:
    if server.kind == "postgresql":
        server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate'")
        return
    others = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND USER = 'root'"
    for (number,) in server.run(others):
        server.run(f"KILL {number}")


@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_what_a_caller_raises_is_not_taken_for_the_servers(request: pytest.FixtureRequest, kind: str) -> None:
    server: Server = request.getfixturevalue(kind)
    server.run("DROP TABLE IF EXISTS shop.t")
    numbers(server, 3)
    database = kinds.opened(server.connection, 10.0)
    table, chunks = database.describe("shop.t"), kinds.reader(kinds.for_workers(server.connection))

    def write() -> None:
        with chunks.read(table, [("id", "bigint")], KeyRange(), known(server, database)) as rows:
            for _ in rows.batches():
                raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        write()
    database.close()


def test_connections_of_other_kinds_are_refused() -> None:
    for connection in (Connection(conn_id="x", conn_type="http"), Connection(conn_id="x", conn_type="mysql")):
        with pytest.raises(SourceError):
            kinds.for_workers(connection)
    found = kinds.for_workers(
        Connection(conn_id="x", conn_type="mysql", host="db", extra={"ssl": '{"ca": "/etc/ca.pem"}', "charset": "utf8"})
    )
    assert found == {
        "kind": "mariadb", "connection": "x", "host": "db", "port": "3306", "user": "", "password": "", "database": "",
        "ssl_ca": "/etc/ca.pem", "ssl_mode": "VERIFY_CA",
    }  # fmt: skip


def test_a_servers_own_limit_cuts_no_answer_off(mariadb: Server) -> None:
    """`sql_select_limit` of sessions that set none: chunks of two rows would look whole."""
    mariadb.run("DROP TABLE IF EXISTS shop.t")
    numbers(mariadb, 9)
    mariadb.run("SET GLOBAL sql_select_limit = 2")
    try:
        with closing(kinds.opened(mariadb.connection, 10.0)) as database:
            table = database.describe("shop.t")
            assert database.bounds(table, None, 2, 9) == [(20,), (40,), (60,), (80,)]
        assert len(read(mariadb, table, [("id", "bigint")])[0]) == 9
    finally:
        mariadb.run("SET GLOBAL sql_select_limit = 18446744073709551615", "DROP TABLE shop.t")
