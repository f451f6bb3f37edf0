"""Records change events of a real MariaDB and a real PostgreSQL through Debezium into `messages/`.

    python -m tests.change_events.record          needs Debian's apt, Maven Central, and some minutes
    python -m tests.change_events.record lock     resolves the jars again

Each line of a recording is `{"key": text or null, "value": text or null}`, in the order of the topic.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg2
from confluent_kafka import Consumer, TopicPartition

from dev.stack.info import StackInfo
from dev.stack.postgres import USER
from dev.stack.stack import Stack
from tests.change_events.connect import FLATTEN, HERE, Connect, Settings, lock
from tests.change_events.databases import MariaDB

MESSAGES = HERE / "messages"
PATIENCE_S = 180.0
FORMS = ("plain", "schema", "flat")
WITH_SCHEMAS = 8  # of so many messages the schema is kept: it is long
BINLOG = "op,source.connector,source.file,source.pos,source.row,source.snapshot,source.ts_ms"
WAL = "op,source.connector,source.lsn,source.sequence,source.snapshot,source.ts_ms"

MARIADB_FIRST = """
CREATE DATABASE shop;
USE shop;
CREATE TABLE orders (
  id BIGINT UNSIGNED PRIMARY KEY, customer VARCHAR(40) NOT NULL, total DECIMAL(12,2), huge DECIMAL(45,0),
  placed DATE, due DATE NOT NULL, note TEXT, changed DATETIME(6), pieces INT NOT NULL DEFAULT 0);
INSERT INTO orders VALUES (1, 'Ada', 12.50, NULL, '2026-01-02', '2026-02-03', 'first', '2026-01-02 03:04:05.678901', 3);
"""
MARIADB_THEN = """
USE shop;
INSERT INTO orders VALUES (2, 'Bo', 7.00, 123456789012345678901234567890123456789012345, NULL, '2026-02-03', NULL,
  NULL, 1), (18446744073709551615, 'Cy', -0.01, -1, '0000-00-00', '0000-00-00', 'zero dates', NULL, 0);
UPDATE orders SET pieces = pieces + 1;
UPDATE orders SET id = 20 WHERE id = 2;
DELETE FROM orders WHERE id = 20;
DELETE FROM orders WHERE id = 18446744073709551615;
ALTER TABLE orders ADD COLUMN city VARCHAR(20);
INSERT INTO orders VALUES (3, 'Di', 1.00, NULL, NULL, '2026-02-03', 'after the change', NULL, 5, 'Oslo');
TRUNCATE TABLE orders;
INSERT INTO orders VALUES (4, 'last', NULL, NULL, NULL, '2026-02-03', 'end', NULL, 0, NULL);
"""
POSTGRES_FIRST = """
CREATE SCHEMA shop;
CREATE TABLE shop.orders (
  id bigint PRIMARY KEY, customer varchar(40) NOT NULL, total numeric(12,2), huge numeric(45,0), placed date,
  note text, blob bytea, tags text[], changed timestamptz, pieces int NOT NULL DEFAULT 0);
ALTER TABLE shop.orders ALTER COLUMN note SET STORAGE EXTERNAL, ALTER COLUMN blob SET STORAGE EXTERNAL;
INSERT INTO shop.orders VALUES
  (1, 'Ada', 12.50, NULL, '2026-01-02', 'first', NULL, '{a,b}', '2026-01-02 03:04:05.678901+02', 3);
"""
POSTGRES_THEN = """
INSERT INTO shop.orders VALUES (2, 'Bo', 7.00, 123456789012345678901234567890123456789012345, 'infinity',
  repeat('long ', 600), decode(repeat('00ff', 1500), 'hex'), NULL, NULL, 1);
UPDATE shop.orders SET pieces = pieces + 1;
UPDATE shop.orders SET id = 20 WHERE id = 2;
DELETE FROM shop.orders WHERE id = 20;
ALTER TABLE shop.orders ADD COLUMN city varchar(20);
INSERT INTO shop.orders VALUES (3, 'Di', 1.00, NULL, NULL, 'after the change', NULL, NULL, NULL, 5, 'Oslo');
"""
POSTGRES_LAST = """
TRUNCATE shop.orders;
INSERT INTO shop.orders VALUES (4, 'last', NULL, NULL, NULL, 'end', NULL, NULL, NULL, 0, NULL);
"""


def connectors(mariadb: int, postgres: int, password: str, folder: Path) -> dict[str, Settings]:
    """A connector for each database and form."""
    found: dict[str, Settings] = {}
    for n, form in enumerate(FORMS):
        shared = {
            "decimal.handling.mode": "string", "skipped.operations": "none", "database.hostname": "127.0.0.1",
            "key.converter.schemas.enable": str(form == "schema").lower(),
            "value.converter.schemas.enable": str(form == "schema").lower(),
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            **(FLATTEN if form == "flat" else {}),
        }  # fmt: skip
        found[f"mariadb-{form}"] = shared | {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector", "database.port": str(mariadb),
            "database.user": "root", "database.password": "", "database.server.id": str(100 + n),
            "database.ssl.mode": "disable", "topic.prefix": f"mariadb-{form}", "database.include.list": "shop",
            "bigint.unsigned.handling.mode": "precise", "include.schema.changes": "false",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(folder / f"history-{form}"),
            **({"transforms.flat.add.fields": BINLOG} if form == "flat" else {}),
        }  # fmt: skip
        found[f"postgres-{form}"] = shared | {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "database.port": str(postgres),
            "database.user": USER, "database.password": password, "database.dbname": "tidegate",
            "topic.prefix": f"postgres-{form}", "schema.include.list": "shop", "plugin.name": "pgoutput",
            "slot.name": f"slot_{form}", "publication.name": f"publication_{form}",
            **({"transforms.flat.add.fields": WAL} if form == "flat" else {}),
        }  # fmt: skip
    return found


class Topics:
    """What is in the connectors' topics."""

    def __init__(self, bootstrap: str, names: list[str]) -> None:
        self._names = names
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "recording", "log_level": "2"})

    def read(self, name: str) -> list[tuple[bytes | None, bytes | None]]:
        """All messages of a connector's topic; none while there is no such topic."""
        topic = f"{name}.shop.orders"
        if topic not in self._consumer.list_topics(timeout=10).topics:
            return []
        _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[tuple[bytes | None, bytes | None]] = []
        while len(found) < end:
            message = self._consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append((message.key(), message.value()))
        return found

    def await_all(self, enough: Callable[[list[tuple[bytes | None, bytes | None]]], bool]) -> None:
        """Return when every topic holds enough."""
        deadline = time.monotonic() + PATIENCE_S
        for name in self._names:
            while not enough(self.read(name)):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{name}: {len(self.read(name))} messages after {PATIENCE_S:.0f} s")
                time.sleep(0.5)


def _has(word: bytes, times: int = 1) -> Callable[[list[tuple[bytes | None, bytes | None]]], bool]:
    return lambda found: sum(word in (value or b"") for _, value in found) >= times


def _interleave(connect: Callable[[], psycopg2.extensions.connection]) -> None:
    """Two transactions of PostgreSQL at once: the one that began first commits last."""
    one, two = connect(), connect()
    for connection in (one, two):
        connection.autocommit = False
    steps = ((one, 5, "one"), (two, 6, "two"), (one, 7, "one"), (two, 8, "two"))
    for connection, key, who in steps:
        sql = "INSERT INTO shop.orders (id, customer) VALUES (%s, %s)"
        connection.cursor().execute(sql, (key, who))
    for connection in (two, one):
        connection.commit()
        connection.close()


def _session(info: StackInfo) -> psycopg2.extensions.connection:
    found = psycopg2.connect(
        host=info.postgres_host, port=info.postgres_port, user=info.postgres_user, password=info.postgres_password,
        dbname="tidegate",
    )  # fmt: skip
    found.autocommit = True
    return found


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def record(folder: Path) -> None:
    """Run the databases and Connect in `folder`, and write what comes."""
    stack = Stack(folder / "stack", ("kafka", "postgres"), progress=print)
    with stack as info:
        admin = _session(info)
        admin.cursor().execute("ALTER SYSTEM SET wal_level = logical")
        admin.close()
    mariadb_port, rest_port = _free_port(), _free_port()
    mariadb = MariaDB(folder, mariadb_port)
    try:
        with stack as info:
            mariadb.run(MARIADB_FIRST)
            admin = _session(info)
            admin.cursor().execute(POSTGRES_FIRST)
            wanted = connectors(mariadb_port, info.postgres_port, info.postgres_password, folder)
            connect, topics = (
                Connect(folder / "connect", info.kafka_bootstrap, rest_port, wanted),
                Topics(info.kafka_bootstrap, [*wanted]),
            )
            try:
                connect.start()
                topics.await_all(_has(b"first"))
                connect.stop()
                connect.start()
                mariadb.run(MARIADB_THEN)
                admin.cursor().execute(POSTGRES_THEN)
                _interleave(lambda: _session(info))
                admin.cursor().execute(POSTGRES_LAST)
                topics.await_all(_has(b'"end"'))
                connect.kill()
                connect.start()  # it begins where it was stopped in peace
                topics.await_all(_has(b'"end"', 2))
            finally:
                connect.kill()
            MESSAGES.mkdir(exist_ok=True)
            for name in wanted:
                _write(name, topics.read(name))
    finally:
        mariadb.end()


def _write(name: str, found: list[tuple[bytes | None, bytes | None]]) -> None:
    kept = found[:WITH_SCHEMAS] if name.endswith("schema") else found
    rows = [
        {"key": None if key is None else key.decode(), "value": None if value is None else value.decode()}
        for key, value in kept
    ]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (MESSAGES / f"{name}.jsonl").write_text(text)
    print(f"{name}: {len(kept)} of {len(found)} messages")


if __name__ == "__main__":
    if sys.argv[1:] == ["lock"]:
        print(lock())
    else:
        with tempfile.TemporaryDirectory(prefix="recording-") as name:
            record(Path(name))
