"""Records what Debezium makes of a column of each type, into `messages/`.

    python -m tests.databases.record          of MariaDB and PostgreSQL
    python -m tests.databases.record mysql    of MySQL

It needs Debian's apt, Maven Central, and some minutes. Rows are there before the connectors start (a snapshot reads
them), and come again while they stream.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from dev.demo.mirror.connect import Connect, Settings
from dev.demo.mirror.connect import mariadb as mariadb_connector
from dev.stack.ports import choose_ports
from dev.stack.processes import Identity, Launcher
from dev.stack.stack import Stack
from tests.databases import tables
from tests.databases.mysql_server import JARS, connector
from tests.databases.servers import Server, mariadb, mysql, postgresql

MESSAGES = Path(__file__).parent / "messages"
KINDS = ("mariadb", "postgresql")
STARTS = {"mariadb": mariadb, "mysql": mysql, "postgresql": postgresql}
STREAMED = 100
"""What is added to the numbers of rows that come while the connectors stream."""
_PATIENCE_S = 180.0
Message = tuple[str, str]
Enough = Callable[[Sequence[Message]], bool]


def connectors(servers: dict[str, Server], folder: Path) -> dict[str, Settings]:
    """One for each database, and one that sends schemas."""
    found: dict[str, Settings] = {}
    for n, (kind, form) in enumerate((kind, form) for kind in servers for form in ("plain", "schema")):
        name, at = f"{kind}-{form}", servers[kind].connection
        if kind != "postgresql":
            made = mariadb_connector(at.port or 0, name, folder / name, server_id=100 + n)
            made = connector(made) if kind == "mysql" else made
        else:
            made = {
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "database.hostname": "127.0.0.1", "database.port": str(at.port), "database.user": at.login or "",
                "database.password": at.password or "", "database.dbname": at.schema or "", "topic.prefix": name,
                "schema.include.list": "shop", "plugin.name": "pgoutput", "slot.name": f"slot_{form}",
                "publication.name": f"publication_{form}", "decimal.handling.mode": "string",
            }  # fmt: skip
        made["value.converter"] = made["key.converter"] = "org.apache.kafka.connect.json.JsonConverter"
        made["key.converter.schemas.enable"] = "false"
        made["value.converter.schemas.enable"] = str(form == "schema").lower()
        made["value.converter.replace.null.with.default"] = "false"  # else a null comes as the column's default
        found[name] = made
    return found


def record(folder: Path, kinds: Sequence[str] = KINDS) -> None:
    """Run all, and write what comes."""
    ports = choose_ports(("connect",), {})
    launcher = Launcher(
        run_id="recording", logs=folder / "logs", owner=Identity.of(os.getpid()), on_start=lambda _running: None
    )
    with Stack(folder / "kafka", ("kafka",), progress=print) as info, ExitStack() as started:
        servers = {kind: started.enter_context(STARTS[kind](folder / kind[:2])) for kind in kinds}
        for kind, server in servers.items():
            server.run(*_first(kind))
        wanted = connectors(servers, folder)
        jars = JARS if "mysql" in servers else "connect"
        connect = Connect(folder / "connect", info.kafka_bootstrap, ports["connect"], wanted, launcher, jars=jars)
        connect.start()
        try:
            counts = {kind: 5 if kind == "postgresql" else 6 for kind in servers}
            for name in wanted:
                messages(info.kafka_bootstrap, f"{name}.shop.kinds", _so_many(counts[name.split("-")[0]]))
            for kind, server in servers.items():
                server.run(*_then(kind))
            found = {
                name: messages(
                    info.kafka_bootstrap,
                    f"{name}.shop.kinds",
                    _so_many(2 * counts[name.split("-")[0]] + (name[0] == "m")),
                )
                for name in wanted
            }
        finally:
            connect.stop()
    MESSAGES.mkdir(exist_ok=True)
    for kind in kinds:
        lines = [json.dumps({"key": k, "value": v}, ensure_ascii=False) for k, v in found[f"{kind}-plain"]]
        (MESSAGES / f"{kind}.jsonl").write_text("".join(line + "\n" for line in lines))
        after = json.loads(found[f"{kind}-schema"][0][1])["schema"]["fields"][1]["fields"]
        (MESSAGES / f"{kind}.schema.json").write_text(json.dumps(after, indent=1, ensure_ascii=False) + "\n")


def _first(kind: str) -> Sequence[str]:
    if kind == "postgresql":
        return (*tables.POSTGRESQL_TABLE, *tables.postgresql_rows(1))
    return (tables.MARIADB_TABLE, *tables.mariadb_rows(1), tables.mariadb_zero_dates(11)[0])


def _then(kind: str) -> Sequence[str]:
    if kind == "postgresql":
        return tables.postgresql_rows(1 + STREAMED)
    return (*tables.mariadb_rows(1 + STREAMED), *tables.mariadb_zero_dates(11 + STREAMED))


def _so_many(count: int) -> Enough:
    return lambda found: len(found) >= count


def messages(bootstrap: str, topic: str, enough: Enough) -> list[Message]:
    """The topic's messages from its beginning, once there are enough."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "recording", "log_level": "2"})
    deadline = time.monotonic() + _PATIENCE_S
    while topic not in consumer.list_topics(timeout=10).topics:
        if time.monotonic() > deadline:
            raise TimeoutError(f"there is no topic {topic}")
        time.sleep(0.5)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    while not enough(found):
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append((message.key().decode(), message.value().decode()))
        elif time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: {len(found)} messages")
    consumer.close()
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="recording-") as made:
        record(Path(made), tuple(sys.argv[1:]) or KINDS)
