"""Databases by their driver for JDBC (H2): types, odd values, keys, drivers that are missing, what is told of a URL."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.databases.reading import refused
from tests.databases.servers import Server
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import SourceError
from tidegate.core.copy.port import KeyRange, ReadAfter, SourceTable
from tidegate.databases import kinds
from tidegate.databases.jdbc.control import JDBC
from tidegate.databases.jdbc.session import address

ODD = """CREATE TABLE shop.t (id VARCHAR(9) PRIMARY KEY, "a ""b"" %" VARCHAR(9), c CHAR(4), cl CLOB, day DATE,
  at TIMESTAMP(6), nano TIMESTAMP(9), zoned TIMESTAMP(3) WITH TIME ZONE, free NUMERIC, wide DECIMAL(40, 5), ok BOOLEAN,
  big BIGINT, tiny TINYINT, f DOUBLE PRECISION, b BLOB, tm TIME)"""


@pytest.fixture
def table(jdbc: Server) -> Iterator[Callable[..., SourceTable]]:
    """Makes `shop.t`, and describes it."""
    database = JDBC(kinds.for_workers(jdbc.connection), 10.0)
    jdbc.run("DROP VIEW IF EXISTS shop.v", "DROP TABLE IF EXISTS shop.t")

    def make(*statements: str) -> SourceTable:
        jdbc.run(*statements)
        return database.describe("shop.t")

    yield make
    database.close()


def rows(server: Server, of: SourceTable, *columns: tuple[str, str], keys: KeyRange = KeyRange()) -> list[Any]:
    with kinds.reader(kinds.for_workers(server.connection)).read(of, columns, keys, None) as found:
        return [tuple(row.values()) for batch in found.batches() for row in batch.to_pylist()]


def test_types_have_names_that_there_are_rules_for(table: Callable[..., SourceTable]) -> None:
    assert [(c.name, c.type) for c in table(ODD).columns] == [
        ("id", "text"), ('a "b" %', "text"), ("c", "text"), ("cl", "text"), ("day", "date"),
        ("at", "timestamp(6) without time zone"), ("nano", "timestamp(6) without time zone"),
        ("zoned", "timestamp(3) with time zone"), ("free", "numeric(100000,0)"), ("wide", "numeric(40,5)"),
        ("ok", "boolean"), ("big", "bigint"), ("tiny", "smallint"), ("f", "double precision"), ("b", "bytea"),
        ("tm", "time"),
    ]  # fmt: skip


def test_odd_values_arrive_as_they_are(jdbc: Server, table: Callable[..., SourceTable]) -> None:
    of = table(
        ODD,
        """INSERT INTO shop.t VALUES ('k"1', 'say "a"', 'ab', '', DATE '1500-02-03', TIMESTAMP '1500-02-03 00:00:00',
           NULL, TIMESTAMP WITH TIME ZONE '2024-03-31 02:30:00.5+02:00', 7, 12345678901234567890123456789012345.67891,
           FALSE, -9223372036854775808, -128, -0.0, X'00FF', NULL)""",
    )
    wanted = [
        ("id", "string"), ('a "b" %', "string"), ("c", "string"), ("cl", "string"), ("day", "date"),
        ("at", "timestamp"), ("zoned", "timestamp"), ("zoned", "string"), ("wide", "string"), ("ok", "boolean"),
        ("big", "bigint"), ("tiny", "tinyint"), ("f", "double"), ("b", "binary"),
    ]  # fmt: skip
    columns = {name: hive for name, hive in wanted if (name, hive) != ("zoned", "string")}
    (found,) = rows(jdbc, of, *columns.items())
    zoned = datetime(2024, 3, 31, 0, 30, 0, 500_000, UTC)
    assert found == (
        'k"1', 'say "a"', "ab  ", "", date(1500, 2, 3), datetime(1500, 2, 3, tzinfo=UTC), zoned,
        "12345678901234567890123456789012345.67891", False, -(2**63), -128, -0.0, b"\x00\xff",
    )  # fmt: skip
    assert rows(jdbc, of, ("zoned", "string"), ("free", "decimal(38,0)")) == [("2024-03-31T00:30:00.500Z", Decimal(7))]


def test_what_a_type_does_not_hold_is_refused_by_the_rows_key(jdbc: Server, table: Callable[..., SourceTable]) -> None:
    of = table(
        ODD,
        "INSERT INTO shop.t (id, nano) VALUES ('short', TIMESTAMP '2024-01-01 00:00:00.123456')",
        "INSERT INTO shop.t (id, nano) VALUES ('long', TIMESTAMP '2024-01-01 00:00:00.123456789')",
        "INSERT INTO shop.t (id, f) VALUES ('no number', CAST('NaN' AS DOUBLE PRECISION))",
    )
    assert "the row with the key id long: the value of nano" in refused(
        lambda: rows(jdbc, of, ("id", "string"), ("nano", "timestamp"))
    )
    assert "the row with the key id no number: the value of f" in refused(
        lambda: rows(jdbc, of, ("id", "string"), ("f", "double"))
    )
    assert "column tm of the source is time: there is no rule" in refused(lambda: rows(jdbc, of, ("tm", "string")))


@pytest.mark.parametrize(
    ("key", "values"),
    [("a TIMESTAMP(6), b DATE", "TIMESTAMP '2024-01-01 00:00:00.000001' , DATE '2024-01-0%'"),
     ("a DECIMAL(9,2), b VARCHAR(9)", "%.25, 'it''s %'"), ("a VARCHAR(9), b INT", "'\"%\"', %")],
    ids=["times", "decimal and text", "quotes"],
)  # fmt: skip
def test_chunks_by_any_key_have_each_row_once(
    jdbc: Server, table: Callable[..., SourceTable], key: str, values: str
) -> None:
    inserts = [f"INSERT INTO shop.t VALUES ({values.replace('%', str(n))}, {n})" for n in range(1, 8)]
    of = table(f"CREATE TABLE shop.t ({key}, n INT, PRIMARY KEY (a, b))", *inserts)
    database = JDBC(kinds.for_workers(jdbc.connection), 10.0)
    bounds = database.bounds(of, None, 3, 100)
    assert [len(bound) for bound in bounds] == [2, 2]
    edges = [None, *bounds, None]
    parts = [rows(jdbc, of, ("n", "int"), keys=KeyRange(*pair)) for pair in itertools.pairwise(edges)]
    assert [len(part) for part in parts] == [3, 3, 1]
    assert sorted(n for part in parts for (n,) in part) == [*range(1, 8)]
    assert database.bounds(of, bounds[0], 3, 1) == [bounds[1]]
    database.close()


def test_a_key_that_texts_do_not_hold_is_no_key_to_cut_by(table: Callable[..., SourceTable]) -> None:
    assert table("CREATE TABLE shop.t (a BINARY(4) PRIMARY KEY)").key == ()


def test_what_the_connection_lacks_is_told_with_what_to_do(jdbc: Server) -> None:
    def told(**changes: Any) -> str:
        database = kinds.opened(replace(jdbc.connection, **changes), 5.0, logged=False)
        with pytest.raises(SourceError) as caught:
            database.describe("shop.t")
        assert not caught.value.retry
        return f"{caught.value.args[0]} | {caught.value.advice}"

    jar = jdbc.connection.extra["driver_path"]
    assert "the connection names no driver" in told(extra={})
    assert "the driver /nowhere.jar is not on this host | driver_path" in told(extra={"driver_path": "/nowhere.jar"})
    assert "has no driver org.Nope" in told(extra={"driver_path": jar, "driver_class": "org.Nope"})
    assert "takes jdbc:oracle:thin:@db:1521/shop" in told(host="jdbc:oracle:thin:@db:1521/shop?password=sesame")
    named = {"driver_path": jar, "driver_class": "org.h2.Driver"}
    assert kinds.opened(replace(jdbc.connection, extra=named), 5.0, logged=False).now_ms() > 1_700_000_000_000


def test_a_task_that_is_told_to_end_still_ends_by_its_own_handler(jdbc: Server) -> None:
    code = (
        "import os, signal, sys; from tidegate.databases.jdbc import session\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit('cleaned up'))\n"
        "session.java(); os.kill(os.getpid(), signal.SIGTERM); signal.pause()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr.strip()) == (1, "cleaned up")


def test_a_url_is_told_without_its_parameters() -> None:
    for url in ("jdbc:sqlserver://db:1433;password=sesame", "jdbc:db2://db:50000/shop?password=sesame"):
        at = Connection(conn_id="shop", conn_type="jdbc", host=url, password="sesame")
        assert "sesame" not in kinds.told(kinds.for_workers(at))
        assert address({"url": url}).endswith(("db:1433", "/shop"))


def test_a_copy_beside_changes_is_refused(jdbc: Server, table: Callable[..., SourceTable]) -> None:
    with pytest.raises(SourceError, match="no log of changes"):
        kinds.opened(jdbc.connection, 5.0)
    of = table("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    reader = kinds.reader(kinds.for_workers(jdbc.connection))

    def read() -> None:
        with reader.read(of, [("id", "int")], KeyRange(), ReadAfter((1, 0))):
            pass

    assert "no log of changes" in refused(read)
