"""How far a connector has come: what Kafka Connect 3.9 with Debezium 3.1 answers, and a slot of a real PostgreSQL."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from dev.stack.ports import choose_ports
from tests.databases.servers import Server
from tests.real_kafka import eventually
from tidegate import wiring
from tidegate.core.base.errors import NoPlace, SourceError, SourceUnavailable
from tidegate.core.copy.port import NOWHERE, Place
from tidegate.core.spec.copy import Copy
from tidegate.databases import connector, kinds

NOTED = {
    "offsets": [
        {
            "partition": {"server": "mariadb-plain"},
            "offset": {
                "ts_sec": 1795798778, "file": "binlog.000001", "pos": 20049, "gtids": "0-1-14", "row": 1,
                "server_id": 1, "event": 2,
            },
        }
    ]
}  # fmt: skip
"""Recorded. The newest event in Kafka was of pos 20427, in the transaction that begins at 20049."""
WAL = {
    "offsets": [
        {
            "partition": {"server": "postgresql-plain"},
            "offset": {"lsn_proc": 36876552, "messageType": "INSERT", "lsn_commit": 36876552, "lsn": 36876552},
        }
    ]
}
STATUS = {
    "name": "shop/a", "connector": {"state": "RUNNING", "worker_id": "127.0.0.1:8083"},
    "tasks": [{"id": 0, "state": "FAILED", "worker_id": "127.0.0.1:8083", "trace": "it is gone\n\tat X.java"}],
    "type": "source",
}  # fmt: skip


class Connect(http.server.BaseHTTPRequestHandler):
    """Answers for the connector `shop/a`, and for `none`, of which it has noted nothing."""

    def do_GET(self) -> None:
        answers = {
            "/connectors/shop%2Fa/offsets": NOTED, "/connectors/none/offsets": {"offsets": []},
            "/connectors/shop%2Fa/status": STATUS, "/connectors/shop%2Fa/config": {"name": "shop/a", "tasks.max": "1"},
        }  # fmt: skip
        status = 500 if "broken" in self.path else 200 if self.path in answers else 404
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answers.get(self.path, {})).encode())

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Connect)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_connector_of_mariadb_has_sent_what_began_below_its_offset(url: str) -> None:
    assert connector.connect_position(url, "shop/a", 5.0) == ((1 << 40) + 20049, 0)


def test_a_connector_says_how_it_runs_and_is_set(url: str) -> None:
    found = connector.connect_state(url, "shop/a", 5.0)
    parts = [("the connector", "RUNNING", ""), ("task 0", "FAILED", "it is gone\n\tat X.java")]
    assert (found.parts, found.settings["tasks.max"]) == (parts, "1")
    with pytest.raises(SourceError, match="knows no status of a connector unknown"):
        connector.connect_state(url, "unknown", 5.0)


@pytest.mark.parametrize(("name", "passes"), [("none", True), ("unknown", False)])
def test_a_connector_without_a_place_is_refused(url: str, name: str, passes: bool) -> None:
    """One that has noted nothing yet will; an unknown one needs a person."""
    with pytest.raises(SourceError) as caught:
        connector.connect_position(url, name, 5.0)
    assert caught.value.retry is passes


def test_connect_that_does_not_answer_is_asked_again(url: str) -> None:
    away = f"http://127.0.0.1:{choose_ports(('away',), {})['away']}"
    for at, name in ((away, "shop/a"), (url, "broken")):
        with pytest.raises(SourceUnavailable) as caught:
            connector.connect_position(at, name, 5.0)
        assert "copy.connect_conn_id" in caught.value.advice


def test_other_offsets_are_refused() -> None:
    with pytest.raises(SourceError, match="no place in a binary log"):
        connector.offset_position("shop", WAL)
    reading = {"offsets": [{"offset": NOTED["offsets"][0]["offset"] | {"snapshot": "INITIAL"}}]}
    with pytest.raises(NoPlace, match="reading a snapshot") as caught:
        connector.offset_position("shop", reading)
    assert caught.value.retry


@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_where_the_log_begins(request: pytest.FixtureRequest, kind: str) -> None:
    server: Server = request.getfixturevalue(kind)
    database = kinds.opened(server.connection, 10.0)
    try:
        if kind == "postgresql":
            assert database.log_begin() == NOWHERE, "a slot keeps what its reader has not had"
            return
        before, end = database.log_begin(), database.position()
        assert NOWHERE < before < end
        server.run("FLUSH BINARY LOGS")
        *_, (newest, *_) = server.run("SHOW BINARY LOGS")
        assert database.log_begin() == before

        def purged() -> bool:
            """The server keeps a file until what it has of transactions is on disk elsewhere."""
            server.run(f"PURGE BINARY LOGS TO '{newest}'")
            return end < database.log_begin()

        eventually(purged)
        assert database.log_begin() <= database.position()
    finally:
        database.close()


def test_the_log_is_asked_where_it_begins_once_the_place_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """S12: what is purged in between is no loss that goes unseen."""
    asked: list[str] = []

    def answers(what: str, answer: Any) -> Any:
        return lambda *_: (asked.append(what), answer)[1]

    monkeypatch.setattr(connector, "slot_position", answers("place", (7, 0)))
    monkeypatch.setattr(wiring, "resolve", lambda *_: None)
    base = SimpleNamespace(position=answers("end", (9, 0)), log_begin=answers("begin", (3, 0)))
    monkeypatch.setattr(wiring, "open_database", lambda *_: nullcontext(base))
    copy = Copy(conn_id="shop", table="shop.t", slot="s")
    (ask,) = wiring.connectors_of(SimpleNamespace(copy=copy), None).values()  # type: ignore[arg-type]
    assert ask() == Place((7, 0), (9, 0), (3, 0))
    assert asked == ["place", "end", "begin"]


def test_a_slot_of_postgresql_says_what_is_confirmed(postgresql: Server) -> None:
    database = kinds.opened(postgresql.connection, 10.0)
    postgresql.run("SELECT pg_create_logical_replication_slot('copy_test', 'pgoutput')")
    try:
        before = connector.slot_position(postgresql.connection, "copy_test", 10.0)
        postgresql.run("DROP TABLE IF EXISTS shop.t", "CREATE TABLE shop.t (id int PRIMARY KEY)")
        later = database.position()
        assert before < later
        assert connector.slot_position(postgresql.connection, "copy_test", 10.0) == before
        postgresql.run("SELECT pg_replication_slot_advance('copy_test', pg_current_wal_insert_lsn())")
        assert connector.slot_position(postgresql.connection, "copy_test", 10.0) >= later
        with pytest.raises(NoPlace, match="no logical replication slot nothing") as caught:
            connector.slot_position(postgresql.connection, "nothing", 10.0)
        assert caught.value.retry, "one that has confirmed nothing yet looks the same"
    finally:
        postgresql.run("SELECT pg_drop_replication_slot('copy_test')")
        database.close()


@pytest.mark.parametrize("source", [{"table": "shop.t"}, {"table": "", "tables": "shop[.]t(_[0-9])?"}])
def test_a_slot_whose_publications_lack_a_table_brings_none_of_its_changes(
    postgresql: Server, source: dict[str, str]
) -> None:
    """Its place goes on by other tables' changes and by heartbeats all the same."""
    postgresql.run("DROP TABLE IF EXISTS shop.t", "CREATE TABLE shop.t (id int PRIMARY KEY)")
    postgresql.run("SELECT pg_create_logical_replication_slot('copy_test', 'pgoutput')")
    copy = Copy(conn_id="shop", slot="copy_test", **source)

    def asked() -> Any:
        return connector.slot_position(postgresql.connection, "copy_test", 10.0, copy)

    try:
        with pytest.raises(NoPlace, match=r"^shop\.t is in no publication") as caught:
            asked()
        assert "ALTER PUBLICATION ... ADD TABLE shop.t" in caught.value.advice
        postgresql.run("CREATE PUBLICATION copy_test FOR TABLE shop.t")
        assert asked() > NOWHERE
        postgresql.run("ALTER PUBLICATION copy_test SET (publish = 'insert, update')")
        with pytest.raises(NoPlace, match="with inserts, updates and deletes of all rows"):
            asked()
        postgresql.run("ALTER PUBLICATION copy_test SET (publish = 'insert, update, delete')")
        postgresql.run("DROP TABLE shop.t", "CREATE TABLE shop.t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        with pytest.raises(NoPlace):
            asked()
        postgresql.run(
            "CREATE TABLE shop.part PARTITION OF shop.t DEFAULT", "ALTER PUBLICATION copy_test ADD TABLE shop.part"
        )
        assert asked() > NOWHERE, "its rows are published by their partition"
        postgresql.run("CREATE TABLE shop.part1 PARTITION OF shop.t FOR VALUES FROM (1) TO (9)")
        with pytest.raises(NoPlace, match=r"^shop\.t is in no publication"):
            asked()
        postgresql.run("ALTER PUBLICATION copy_test ADD TABLE shop.part1")
        assert asked() > NOWHERE
        postgresql.run("ALTER PUBLICATION copy_test SET TABLE shop.part, shop.part1 WHERE (id > 4)")
        with pytest.raises(NoPlace, match="of all rows") as caught:
            asked()
        assert "SET TABLE where it has a row filter" in caught.value.advice
        postgresql.run(
            "ALTER PUBLICATION copy_test SET (publish_via_partition_root)",
            "ALTER PUBLICATION copy_test SET TABLE shop.t",
        )
        assert asked() > NOWHERE, "by the table itself"
    finally:
        postgresql.run("SELECT pg_drop_replication_slot('copy_test')", "DROP PUBLICATION IF EXISTS copy_test")
        postgresql.run("DROP TABLE shop.t")
