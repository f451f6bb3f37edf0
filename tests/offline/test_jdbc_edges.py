"""Databases by their driver for JDBC (H2): other schemas' keys, secrets in words, what is left behind, odd values."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.databases.reading import refused
from tests.databases.servers import Server
from tests.offline.test_jdbc import rows, table
from tidegate.core.base.errors import DeliveryRefused, SourceError
from tidegate.core.copy.port import KeyRange, SourceTable
from tidegate.databases import kinds
from tidegate.databases.jdbc import control, session
from tidegate.databases.jdbc.control import JDBC
from tidegate.kinds import delivery_kind, source_kind

__all__ = ["table"]  # a fixture
Table = Callable[..., SourceTable]


def test_a_key_of_another_schemas_table_is_not_taken(jdbc: Server, table: Table) -> None:
    """The database of H2 is a catalogue, and it has the name of the schema: a row without this key is in no chunk."""
    jdbc.run("CREATE SCHEMA IF NOT EXISTS other", "DROP TABLE IF EXISTS other.t")
    jdbc.run("CREATE TABLE other.t (id INT PRIMARY KEY)")
    of = table("CREATE TABLE shop.t (id INT)", "INSERT INTO shop.t VALUES (1), (NULL)")
    assert of.key == ()
    database = JDBC(kinds.for_workers(jdbc.connection), 10.0)
    jdbc.run("DROP TABLE shop.t")
    with pytest.raises(SourceError, match=r"there is no table shop\.t"):
        database.describe("shop.t")
    database.close()
    jdbc.run("DROP TABLE other.t")


def test_wildcards_in_names_are_no_wildcards(jdbc: Server, table: Table) -> None:
    jdbc.run("CREATE SCHEMA IF NOT EXISTS axb", "DROP TABLE IF EXISTS axb.t", "CREATE TABLE axb.t (id INT)")
    table("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    database = JDBC(kinds.for_workers(jdbc.connection), 10.0)
    for name in ("a_b.t", "%.t", "shop.%", "shop._"):
        with pytest.raises(SourceError, match="there is no table"):
            database.describe(name)
    database.close()
    jdbc.run("DROP SCHEMA axb CASCADE")


def test_times_in_text_lose_no_digits(jdbc: Server, table: Table) -> None:
    of = table(
        "CREATE TABLE shop.t (id INT PRIMARY KEY, at TIMESTAMP(9) WITH TIME ZONE)",
        "INSERT INTO shop.t VALUES (1, TIMESTAMP WITH TIME ZONE '2024-01-01 00:00:00.123456+00')",
        "INSERT INTO shop.t VALUES (2, TIMESTAMP WITH TIME ZONE '2024-01-01 00:00:00.123456789+00')",
    )
    wanted = [("id", "int"), ("at", "string")]
    assert rows(jdbc, of, *wanted, keys=KeyRange(None, (1,))) == [(1, "2024-01-01T00:00:00.123456Z")]
    assert "the row with the key id 2: the value of at" in refused(lambda: rows(jdbc, of, *wanted))


def test_texts_of_all_kinds(jdbc: Server, table: Table) -> None:
    of = table(
        "CREATE TABLE shop.t (id INT PRIMARY KEY, word VARCHAR(20))",
        r"INSERT INTO shop.t VALUES (1, U&'\+01F600\0000\000D\000A,'), (2, ''), (3, NULL), (4, U&'\FEFF')",
    )
    assert rows(jdbc, of, ("word", "string")) == [("\U0001f600\x00\r\n,",), ("",), (None,), ("\ufeff",)]
    jdbc.run("DELETE FROM shop.t", r"INSERT INTO shop.t VALUES (5, U&'a\D800')")
    said = refused(lambda: rows(jdbc, of, ("id", "int"), ("word", "string")))
    assert "UTF-8" in said


SAYS = [
    ("jdbc:oracle:thin:scott/sesame@//db:1521/shop", "jdbc:oracle:thin:***@//db:1521/shop"),
    ("jdbc:oracle:thin:@//db:1521/shop", "jdbc:oracle:thin:@//db:1521/shop"),
    ("jdbc:vendor://scott:sesame@db:1/shop?x=sesame", "jdbc:vendor://***@db:1/shop"),
    ("jdbc:db2://db:50000/shop:user=scott;password=sesame;", "jdbc:db2://db:50000/shop"),
    ("jdbc:db2://db:50000/shop:password=sesame;", "jdbc:db2://db:50000/shop"),
    ("jdbc:teradata://db/USER=scott,PASSWORD=sesame", "jdbc:teradata://db"),
    ("jdbc:sqlserver://db:1433;password=ses@me", "jdbc:sqlserver://db:1433"),
    ("jdbc:h2:tcp://db:1/./shop", "jdbc:h2:tcp://db:1/./shop"),
]


@pytest.mark.parametrize(("url", "told"), SAYS)
def test_no_part_of_a_url_that_may_hold_a_password_is_told(url: str, told: str) -> None:
    assert session.address({"url": url}) == told


def test_what_a_driver_says_of_its_url_is_told_without_secrets(jdbc: Server) -> None:
    """H2 repeats a URL that it cannot read."""
    broken = replace(jdbc.connection, host=f"{jdbc.connection.host};PASSWORD=sesame;broken", login=None, password=None)
    database = kinds.opened(broken, 5.0, logged=False)
    with pytest.raises(SourceError) as caught:
        database.describe("shop.t")
    assert "jdbc:h2:tcp:" in str(caught.value)
    assert "sesame" not in f"{caught.value} {caught.value.advice}"
    reader = kinds.reader(kinds.for_workers(broken))
    of = SourceTable(schema="shop", name="t", key=(), columns=())

    def read() -> None:
        with reader.read(of, [], KeyRange(), None):
            pass

    assert "sesame" not in refused(read, retry=True)


def test_each_connection_has_the_drivers_classes_of_before(jdbc: Server) -> None:
    """A Python process reads chunk after chunk, and each driver registers itself for ever."""
    jpype = session.java()
    loaded = jpype.JClass("java.lang.management.ManagementFactory").getClassLoadingMXBean()
    counts = []
    for _ in range(4):
        session.connect(kinds.for_workers(jdbc.connection)).close()
        counts.append(int(loaded.getTotalLoadedClassCount()))
    assert counts[-1] - counts[1] < 50


def test_a_driver_that_was_replaced_is_loaded_anew(jdbc: Server, tmp_path: Path) -> None:
    jar = tmp_path / "driver.jar"
    shutil.copy(jdbc.connection.extra["driver_path"], jar)
    at = kinds.for_workers(replace(jdbc.connection, extra={"driver_path": str(jar)}))
    loaders = []
    for _ in range(2):
        found = session.connect(at)
        loaders.append(found.getClass().getClassLoader())
        found.close()
        shutil.copy(jar, tmp_path / "new")
        os.utime(tmp_path / "new", ns=(1, 1))
        os.replace(tmp_path / "new", jar)
    assert not loaders[0].equals(loaders[1])


class _Connection:
    """Notes what is asked of the real one."""

    def __init__(self, real: Any, asked: list[str]) -> None:
        self._real, self.asked = real, asked

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._real, name)


def test_a_reading_ends_its_transaction_before_it_closes(
    jdbc: Server,
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Db2 closes no connection that is in one."""
    of, asked, connect = table("CREATE TABLE shop.t (id INT PRIMARY KEY)"), list[str](), session.connect
    monkeypatch.setattr(session, "connect", lambda *given: _Connection(connect(*given), asked))
    assert rows(jdbc, of, ("id", "int")) == []
    assert asked[-2:] == ["rollback", "close"]


def test_what_ended_a_reading_is_told_though_closing_fails_too(
    jdbc: Server,
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = table("CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (300)")

    class Broken(_Connection):
        def rollback(self) -> None:
            self._real.close()
            self._real.rollback()

    connect = session.connect
    monkeypatch.setattr(session, "connect", lambda *given: Broken(connect(*given), []))
    assert "the row with the key id 300: the value of id" in refused(lambda: rows(jdbc, of, ("id", "tinyint")))


def test_what_is_no_error_of_sql_is_a_refusal_too(jdbc: Server, table: Table) -> None:
    """A class that is no driver; and one that does not load."""
    jar = jdbc.connection.extra["driver_path"]
    odd = replace(jdbc.connection, extra={"driver_path": jar, "driver_class": "org.h2.tools.Server"})
    with pytest.raises(SourceError, match=r"has no driver org\.h2\.tools\.Server"):
        kinds.opened(odd, 5.0, logged=False).describe("shop.t")


def test_a_connection_of_this_type_fits_a_source() -> None:
    assert set(source_kind("database").connection_types) >= set(kinds.CONNECTION_TYPES)


def test_chunks_of_a_key_that_may_be_null_would_lose_rows(
    jdbc: Server, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite lets keys be null."""
    of = table("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    assert of.key == ("id",)
    known = control.described
    monkeypatch.setattr(control, "described", lambda *given: replace(known(*given), nullable=True))
    database = JDBC(kinds.for_workers(jdbc.connection), 10.0)
    assert database.describe("shop.t").key == ()
    database.close()


def test_a_delivery_by_jdbc_is_refused(jdbc: Server) -> None:
    delivery = SimpleNamespace(name="further", kind="postgresql", table="public.t", conn_id="shop")
    for kind in ("postgresql", "mariadb", "mysql"):
        with pytest.raises(
            DeliveryRefused, match="connection shop is of type jdbc, the delivery.s database is another"
        ):
            delivery_kind(kind).settings(jdbc.connection)
        delivery.kind = kind
        (found,) = delivery_kind(kind).examined(SimpleNamespace(name="p"), delivery, jdbc.connection, 5.0)  # type: ignore[arg-type]
        assert "connection shop is of type jdbc" in found.what


def test_many_may_start_java_at_once() -> None:
    """As tidegate doctor does; and the process ends after that."""
    code = (
        "from concurrent.futures import ThreadPoolExecutor; from tidegate.databases.jdbc import session\n"
        "with ThreadPoolExecutor(8) as pool: print(len(list(pool.map(lambda _: session.java(), range(8)))))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "8\n", ended.stderr


@pytest.mark.parametrize("product", ["MySQL", "MariaDB"])
def test_databases_with_a_kind_of_their_own_are_not_read_by_jdbc(
    jdbc: Server, monkeypatch: pytest.MonkeyPatch, product: str
) -> None:
    """Times of MySQL's type `timestamp` come in its session's zone, and their type says so to nobody."""
    monkeypatch.setattr(session, "_product", lambda connection: product)
    with pytest.raises(SourceError, match=f"is {product}: by JDBC its times are those of its session's zone") as caught:
        kinds.opened(jdbc.connection, 5.0, logged=False).describe("shop.t")
    assert "name a connection of type mysql" in str(caught.value.advice)


def test_what_is_secret_in_a_drivers_words() -> None:
    settings = {"url": "jdbc:x:thin:scott/sesame@db;trustStorePassword=poppy;x=1", "password": "tiger"}

    def told(text: str) -> str:
        return session.said(SimpleNamespace(getMessage=lambda: text), settings)

    assert told("no\n jdbc:x:thin:scott/sesame@db;trustStorePassword=poppy;x=1") == "no jdbc:x:thin:***@db"
    assert told("scott/sesame@db: no") == "***@db: no"
    assert told("db;trustStorePassword=poppy;x=1: no") == "db***: no"
    assert told("user=me, pwd = tigers, other=tiger: a tiger") == "user=me, pwd = ***, other=***: a ***"
    assert (
        told("unexpected token: SELECT, wrong password [28000]") == "unexpected token: SELECT, wrong password [28000]"
    )
