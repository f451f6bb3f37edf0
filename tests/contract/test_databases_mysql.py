"""What MySQL does in its own way: which commits a snapshot has seen, users, TLS. `make test-mysql`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.test_databases import insert, read_while_many_write
from tests.contract.test_databases_refusals import ONE, TWO
from tests.databases.mysql_server import PASSWORD
from tests.databases.reading import known, numbers, read, refused
from tests.databases.servers import Server
from tests.real_kafka import eventually
from tests.tls import self_signed
from tidegate.core.base.errors import SourceError
from tidegate.databases import kinds
from tidegate.databases.mariadb import mysql as rules

pytestmark = pytest.mark.skipif("TIDEGATE_MYSQL" not in os.environ, reason="make test-mysql")


@contextmanager
def held(server: Server, name: str, value: int) -> Iterator[None]:
    """A global variable, meanwhile."""
    (was,) = server.run(f"SELECT @@GLOBAL.{name}")[0]
    server.run(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        server.run(f"SET GLOBAL {name} = {was}")


@contextmanager
def in_the_log_and_not_seen(server: Server) -> Iterator[None]:
    """A commit waits for a second between the log and the table: the row 1 of shop.t."""
    with held(server, "binlog_group_commit_sync_delay", 1_000_000):
        at = server.run("SHOW BINARY LOG STATUS")[0][1]
        writer = threading.Thread(target=insert, args=(server, 1))
        writer.start()
        try:
            eventually(lambda: server.run("SHOW BINARY LOG STATUS")[0][1] > at)
            assert server.run("SELECT COUNT(*) FROM shop.t WHERE id = 1") == [(0,)], "it is too late"
            yield
        finally:
            writer.join()


def test_a_commit_that_is_in_the_log_is_waited_for(mysql: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2, and what is lost without it."""
    mysql.run("DROP TABLE IF EXISTS shop.t")
    numbers(mysql, 3)
    database = kinds.opened(mysql.connection, 10.0)
    table = database.describe("shop.t")
    with in_the_log_and_not_seen(mysql):
        place = database.position()
        rows, low, high = read(mysql, table, [("id", "bigint")], after=known(mysql, database))
    assert place <= low <= high
    assert sorted(row["id"] for row in rows) == [1, 10, 20, 30]
    mysql.run("DELETE FROM shop.t WHERE id = 1")
    monkeypatch.setattr(rules, "wait_until_seen", lambda _cursor: None)
    with in_the_log_and_not_seen(mysql):
        place = database.position()
        rows, low, _ = read(mysql, table, [("id", "bigint")], after=known(mysql, database))
    assert place <= low
    assert sorted(row["id"] for row in rows) == [10, 20, 30], "nothing waits, and yet it was seen"
    database.close()


def test_a_commit_that_does_not_come_is_told_and_tried_again(mysql: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    mysql.run("DROP TABLE IF EXISTS shop.t")
    numbers(mysql, 3)
    table = kinds.opened(mysql.connection, 10.0).describe("shop.t")
    monkeypatch.setattr(rules.wait_until_seen, "__defaults__", (1,))
    owned = [f"{ONE}:23", f"{ONE}:25", f"{TWO}:1", f"{TWO}:a_tag:7"]
    cursors = [mysql.session(autocommit=False).cursor() for _ in owned]
    for cursor, gtid in zip(cursors, owned, strict=True):
        cursor.execute(f"SET gtid_next = '{gtid}'")
    said = refused(lambda: read(mysql, table, [("id", "bigint")]), retry=True)
    for cursor in cursors:
        cursor.execute("BEGIN")
        cursor.execute("COMMIT")
        cursor.execute("SET gtid_next = 'AUTOMATIC'")
    for gtid in owned:
        assert gtid.rsplit(":", 1)[0] in said
    rows, _, _ = read(mysql, table, [("id", "bigint")])
    assert len(rows) == 3


def test_what_a_snapshot_sees_ends_between_low_and_high_while_many_write(mysql: Server) -> None:
    with held(mysql, "binlog_rows_query_log_events", 1), held(mysql, "sync_binlog", 1):
        read_while_many_write(mysql)


def test_a_server_without_gtids_is_refused(mysql: Server) -> None:
    steps = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")
    mysql.run(*(f"SET GLOBAL gtid_mode = {step}" for step in steps))
    try:
        with pytest.raises(SourceError, match="gtid_mode is not ON") as caught:
            kinds.opened(mysql.connection, 10.0).position()
        assert (caught.value.retry, caught.value.advice) == (False, "set gtid_mode=ON there")
        assert kinds.opened(mysql.connection, 10.0, logged=False).now_ms() > 0
    finally:
        mysql.run(*(f"SET GLOBAL gtid_mode = {step}" for step in (*steps[1::-1], "ON")))


def test_a_log_of_parts_of_documents_is_refused(mysql: Server) -> None:
    """Debezium 3.1 was seen to leave out an update that is logged so, without a word."""
    mysql.run("SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'")
    try:
        with pytest.raises(SourceError, match="Debezium sends no event of such an update"):
            kinds.opened(mysql.connection, 10.0).position()
    finally:
        mysql.run("SET GLOBAL binlog_row_value_options = ''")


def test_a_log_of_compressed_transactions_is_refused(mysql: Server) -> None:
    """Debezium 3.1 was seen to give an update of rows 1 and 2 and a later one of row 2, in one transaction, one `pos`,
    and the later one the smaller `row`: the mirror would keep the earlier one. A delete, and an insert of the same key
    behind it, have the same place: the row would be gone."""
    mysql.run("SET GLOBAL binlog_transaction_compression = ON")
    try:
        with pytest.raises(SourceError, match="all statements of a transaction have one place in the log") as caught:
            kinds.opened(mysql.connection, 10.0).position()
        assert not caught.value.retry
    finally:
        mysql.run("SET GLOBAL binlog_transaction_compression = OFF")


@pytest.mark.parametrize("user", ["shop", "safe"])
def test_a_user_with_the_rights_of_the_docs_reads_a_chunk(mysql: Server, user: str, tmp_path: Path) -> None:
    """`caching_sha2_password`, over TLS whether the user has to or not, and the server's certificate is looked at."""
    mysql.run("DROP TABLE IF EXISTS shop.t")
    numbers(mysql, 3)
    assert mysql.mysql is not None
    extra = {"ssl": {"ca": str(mysql.mysql.certificate)}}
    for given in ({}, extra):
        at = replace(mysql.connection, login=user, password=PASSWORD, extra=given)
        reader = Server("mariadb", at)
        database = kinds.opened(at, 10.0)
        rows, low, high = read(reader, database.describe("shop.t"), [("id", "bigint")], after=known(reader, database))
        assert len(rows) == 3
        assert low <= high
        database.close()
    wrong = replace(at, extra={"ssl": {"ca": str(self_signed(tmp_path)[1])}})
    with pytest.raises(SourceError, match="certificate verify failed"):
        kinds.opened(wrong, 10.0).position()
    wrong = replace(mysql.connection, login=user, password="other")
    with pytest.raises(SourceError, match="Access denied"):
        kinds.opened(wrong, 10.0).position()


DOCUMENTS = (
    ('{"b": 1, "aa": [1, 2, {"x": null}], "c": true}', '{"b":1,"c":true,"aa":[1,2,{"x":null}]}'),
    (r'{"t, : ": "a, b: c \\ \" \/ \n\t \u0001 é 😀 1e20"}', r'{"t, : ":"a, b: c \\ \" / \n\t \u0001 é 😀 1e20"}'),
    ("[1.5, 1.0, -0.0, 0.1, 0.001, 1e6]", "[1.5,1.0,-0.0,0.1,0.001,1000000.0]"),
    ("[18446744073709551615, -9223372036854775808]", "[18446744073709551615,-9223372036854775808]"),
    ("1e20", "100000000000000000000"),
    ("123456789012345680000", "123456789012345683968"),
    ("12345678.9", "12345678.90000000037252902984619140625"),
    ("1e-7", "0.0000000999999999999999954748111825886258685613938723690807819366455078125"),
    ("0.0001", "0.000100000000000000004792173602385929598312941379845142364501953125"),
    ("null", "null"),
)
"""Documents, and the texts of them that Debezium 3.1 sent of a real MySQL 9.7."""


def test_documents_have_the_text_that_events_have(mysql: Server) -> None:
    mysql.run("DROP TABLE IF EXISTS shop.t", "CREATE TABLE shop.t (id INT PRIMARY KEY, j JSON)")
    with mysql.session().cursor() as cursor:
        cursor.executemany("INSERT INTO shop.t VALUES (%s, %s)", [(n, text) for n, (text, _) in enumerate(DOCUMENTS)])
    table = kinds.opened(mysql.connection, 10.0).describe("shop.t")
    rows, _, _ = read(mysql, table, [("j", "string")])
    assert [row["j"] for row in rows] == [text for _, text in DOCUMENTS]
    decimal = "12345678901234567890123456789012345.50"
    mysql.run(f"INSERT INTO shop.t VALUES (100, CAST(CAST('{decimal}' AS DECIMAL(40,2)) AS JSON))")
    assert read(mysql, table, [("j", "string")])[0][-1]["j"] == decimal
    mysql.run("INSERT INTO shop.t VALUES (101, JSON_ARRAY(x'00ff'))")
    said = refused(lambda: read(mysql, table, [("id", "int"), ("j", "string")]))
    assert "the row with the key id 101: the value of j (json)" in said
    assert "declare the column as string" in refused(lambda: read(mysql, table, [("j", "binary")]))
