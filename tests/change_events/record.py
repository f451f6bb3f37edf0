"""Records change events of a real MariaDB and a real PostgreSQL through Debezium into `messages/`.

    python -m tests.change_events.record          needs Debian's apt, Maven Central, and some minutes
    python -m tests.change_events.record avro     the same events in JSON and in Avro, side by side
    python -m tests.change_events.record mysql    of a real MySQL, in JSON

Each line of a recording is `{"key": text or null, "value": text or null}`, in the order of the topic. One in Avro has
Base64 there, and beside it what a connector for JSON has made of the same event; `avro.schemas.json` has the schemas by
their ids.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg2
from confluent_kafka import Consumer, TopicPartition

from dev.demo.mirror.connect import FLATTEN, Connect, Settings, mariadb
from dev.demo.mirror.mariadb import MariaDB
from dev.stack.info import StackInfo
from dev.stack.ports import choose_ports
from dev.stack.postgres import USER
from dev.stack.processes import Identity, Launcher, end_all
from dev.stack.stack import Stack
from tests.change_events.recordings import MESSAGES
from tests.change_events.registry import Registry, serving
from tests.databases import servers
from tests.databases.mysql_server import JARS, connector

PATIENCE_S = 180.0
FORMS = ("plain", "schema", "flat")
PAIRS = {"avro": "plain", "avroflat": "flat"}
"""Form in Avro -> the one in JSON that stands beside it."""
Message = tuple[bytes | None, bytes | None]
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


def avro(url: str) -> Settings:
    """Keys and values in Avro, in Confluent's wire format, their schemas in Apicurio's registry at `url`."""
    found: Settings = {"schema.name.adjustment.mode": "avro"}
    for what in ("key", "value"):
        found[f"{what}.converter"] = "io.apicurio.registry.utils.converter.AvroConverter"
        settings = {"url": url, "auto-register": "true", "as-confluent": "true", "use-id": "contentId"}
        settings["headers.enabled"] = "false"
        found |= {f"{what}.converter.apicurio.registry.{name}": each for name, each in settings.items()}
    return found


def connectors(port: int, info: StackInfo, folder: Path, forms: Sequence[str], registry: str) -> dict[str, Settings]:
    """A connector for each database and form; MariaDB listens on `port`."""
    found: dict[str, Settings] = {}
    for n, form in enumerate(forms):
        shared = {
            "decimal.handling.mode": "string", "skipped.operations": "none",
            "key.converter.schemas.enable": str(form == "schema").lower(),
            "value.converter.schemas.enable": str(form == "schema").lower(),
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            **(FLATTEN if form.endswith("flat") else {}),
            **({**avro(registry), "decimal.handling.mode": "precise"} if form in PAIRS else {}),
        }  # fmt: skip
        history = folder / f"history-{form}"
        found[f"mariadb-{form}"] = mariadb(port, f"mariadb-{form}", history, server_id=100 + n) | shared
        if form.endswith("flat"):
            found[f"mariadb-{form}"]["transforms.flat.add.fields"] = BINLOG
        found[f"postgres-{form}"] = shared | {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "database.hostname": "127.0.0.1",
            "database.port": str(info.postgres_port), "database.user": USER,
            "database.password": info.postgres_password, "database.dbname": "tidegate",
            "topic.prefix": f"postgres-{form}", "schema.include.list": "shop", "plugin.name": "pgoutput",
            "slot.name": f"slot_{form}", "publication.name": f"publication_{form}",
            **({"transforms.flat.add.fields": WAL} if form.endswith("flat") else {}),
        }  # fmt: skip
    return found


class Topics:
    """What is in the connectors' topics."""

    def __init__(self, bootstrap: str, names: list[str]) -> None:
        self._names = names
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "recording", "log_level": "2"})

    def read(self, name: str) -> list[Message]:
        """All messages of a connector's topic; none while there is no such topic."""
        topic = f"{name}.shop.orders"
        if topic not in self._consumer.list_topics(timeout=10).topics:
            return []
        _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        while len(found) < end:
            message = self._consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append((message.key(), message.value()))
        return found

    def await_all(self, enough: Callable[[list[Message]], bool]) -> None:
        """Return when every topic holds enough."""
        deadline = time.monotonic() + PATIENCE_S
        for name in self._names:
            while not enough(self.read(name)):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{name}: {len(self.read(name))} messages after {PATIENCE_S:.0f} s")
                time.sleep(0.5)


END = (b'"end"', b"\x06end")
"""The last note, in JSON and in Avro."""


def _has(words: tuple[bytes, ...], times: int = 1) -> Callable[[list[Message]], bool]:
    return lambda found: sum(any(word in (value or b"") for word in words) for _, value in found) >= times


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


def record(folder: Path, forms: Sequence[str], registry: str = "") -> None:
    """Run the databases and Connect in `folder`, and write what comes."""
    stack = Stack(folder / "stack", ("kafka", "postgres"), progress=print)
    with stack as info:
        admin = _session(info)
        admin.cursor().execute("ALTER SYSTEM SET wal_level = logical")
        admin.close()
    ports = choose_ports(("mariadb", "connect"), {})
    launcher = Launcher(
        run_id="recording", logs=folder / "logs", owner=Identity.of(os.getpid()), on_start=lambda _running: None
    )
    with stack as info:
        source = MariaDB(folder / "mariadb", ports["mariadb"], launcher)
        running = source.start()
        try:
            source.run(MARIADB_FIRST)
            admin = _session(info)
            admin.cursor().execute(POSTGRES_FIRST)
            wanted = connectors(source.port, info, folder, forms, registry)
            connect = Connect(folder / "connect", info.kafka_bootstrap, ports["connect"], wanted, launcher)
            topics = Topics(info.kafka_bootstrap, [*wanted])
            connect.start()
            try:
                topics.await_all(_has((b"first",)))
                connect.stop()
                connect.start()
                source.run(MARIADB_THEN)
                admin.cursor().execute(POSTGRES_THEN)
                _interleave(lambda: _session(info))
                admin.cursor().execute(POSTGRES_LAST)
                topics.await_all(_has(END))
                connect.kill()
                connect.start()  # it begins where it was stopped in peace
                topics.await_all(_has(END, 2))
            finally:
                connect.kill()
            MESSAGES.mkdir(exist_ok=True)
            found = {name: topics.read(name) for name in wanted}
            for name, messages in found.items():
                database, form = name.split("-")
                if form in PAIRS:
                    _write_pairs(name, messages, found[f"{database}-{PAIRS[form]}"])
                elif not registry:
                    _write(name, messages)
        finally:
            end_all([running.keeper], 10)


def _write(name: str, found: list[Message]) -> None:
    kept = found[:WITH_SCHEMAS] if name.endswith("schema") else found
    rows = [{"key": _text(key), "value": _text(value)} for key, value in kept]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (MESSAGES / f"{name}.jsonl").write_text(text)
    print(f"{name}: {len(kept)} of {len(found)} messages")


def _write_pairs(name: str, found: list[Message], json_: list[Message]) -> None:
    rows = [
        {"key": _base64(key), "value": _base64(value), "json": {"key": _text(its_key), "value": _text(its_value)}}
        for (key, value), (its_key, its_value) in zip(found, json_, strict=True)
    ]
    (MESSAGES / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    print(f"{name}: {len(rows)} messages")


def _base64(part: bytes | None) -> str | None:
    return None if part is None else base64.b64encode(part).decode()


def _text(part: bytes | None) -> str | None:
    return None if part is None else part.decode()


def record_avro(folder: Path) -> None:
    """The same with a registry: events in Avro, each beside its twin in JSON."""
    with serving(Registry()) as registry:
        record(folder, [*PAIRS.values(), *PAIRS], registry.url)
    text = json.dumps(registry.schemas, indent=1, ensure_ascii=False)
    (MESSAGES / "avro.schemas.json").write_text(text + "\n")


def record_mysql(folder: Path) -> None:
    """MariaDB's statements, on MySQL."""
    port = choose_ports(("connect",), {})["connect"]
    launcher = Launcher(
        run_id="recording", logs=folder / "logs", owner=Identity.of(os.getpid()), on_start=lambda _running: None
    )
    with Stack(folder / "stack", ("kafka",), progress=print) as info, servers.mysql(folder / "my") as source:
        source.run(*_statements(MARIADB_FIRST)[1:])
        found = connectors(source.connection.port or 0, info, folder, FORMS, "")
        made = {n.replace("mariadb", "mysql"): connector(each) for n, each in found.items() if n.startswith("mariadb")}
        for name in made:
            made[name]["topic.prefix"] = name
        connect = Connect(folder / "connect", info.kafka_bootstrap, port, made, launcher, jars=JARS)
        topics = Topics(info.kafka_bootstrap, [*made])
        connect.start()
        try:
            topics.await_all(_has((b"first",)))
            connect.stop()
            connect.start()
            source.run(*_statements(MARIADB_THEN))
            topics.await_all(_has(END))
            connect.kill()
            connect.start()  # it begins where it was stopped in peace
            topics.await_all(_has(END, 2))
        finally:
            connect.kill()
        for name in made:
            _write(name, topics.read(name))


def _statements(text: str) -> list[str]:
    return [each for each in text.split(";\n") if each.strip()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="recording-") as name:
        if sys.argv[1:] == ["mysql"]:
            record_mysql(Path(name))
        else:
            record_avro(Path(name)) if sys.argv[1:] == ["avro"] else record(Path(name), FORMS)
