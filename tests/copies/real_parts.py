"""Parts of a mirror of real tables: its YAML, its connector, who starts Kafka Connect."""

from __future__ import annotations

import os
import random
from pathlib import Path

from dev.demo.mirror.connect import Settings
from dev.demo.mirror.connect import mariadb as mariadb_connector
from dev.stack.processes import Identity, Launcher
from tests.copies.writer import Table
from tests.databases.mysql_server import connector as mysql_connector
from tests.databases.servers import Server
from tests.real_kafka import eventually

LANES = 3
FLUSH_MS = 1_000
QUICK = {"heartbeat.interval.ms": "1000", "connect.keep.alive.interval.ms": "2000"}
"""It notes the end of a log that is quiet after a moment, not after a minute (docs/mirrors.md)."""
_YAML = """\
version: 1
name: readings
owner: shop
source: {{topic: @topic@}}
format: {{type: debezium, unknown_fields: fail}}
columns:
@key@
  - {{name: ver, type: bigint}}
  - {{name: name, type: string}}
  - {{name: amount, type: "decimal(12,2)", convert: text}}
  - {{name: changed, type: bigint}}
  - {{name: at, type: timestamp}}
  - {{name: due_days, type: int, from: $.due, hidden: true}}
  - {{name: due, type: date, expr: "date '1970-01-01' + due_days"}}
  - {{name: note, type: string}}
sink: {{kind: mirror, table: lake.readings, location: "{location}", key: [@names@], buckets: 5}}
ingest: {{max_records: @records@}}
copy: {{conn_id: shop, table: @table@, chunk_rows: @rows@, tasks: 2}}
"""


def yaml_of(topic: str, table: Table, rng: random.Random) -> str:
    """With a place for the location, as `tests.mirror.worlds.mirror` takes it."""
    types = {"id": "bigint", "city": "string"}
    said = {
        "topic": topic, "table": table.name, "names": ", ".join(table.key),
        "key": "\n".join(f"  - {{{{name: {n}, type: {types[n]}, nullable: false}}}}" for n in table.key),
        "rows": str(rng.choice((150, 400, 1_100))), "records": str(rng.choice((300, 1_000, 3_000))),
    }  # fmt: skip
    found = _YAML
    for word, value in said.items():
        found = found.replace(f"@{word}@", value)
    return found


def settings_of(server: Server, table: Table, prefix: str, folder: Path, number: int) -> Settings:
    """Of a connector for the table."""
    at = server.connection
    if server.kind == "mariadb":
        made = mariadb_connector(at.port or 0, prefix, folder / "history", 100 + number, "no_data")
        made = (mysql_connector(made) if server.mysql else made) | QUICK
    else:
        made = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "database.hostname": "127.0.0.1",
            "database.port": str(at.port), "database.user": at.login or "", "database.password": at.password or "",
            "database.dbname": at.schema or "", "topic.prefix": prefix, "plugin.name": "pgoutput",
            "slot.name": prefix, "publication.name": prefix, "publication.autocreate.mode": "filtered",
            "decimal.handling.mode": "string", "snapshot.mode": "no_data",
            "heartbeat.interval.ms": QUICK["heartbeat.interval.ms"],
        }  # fmt: skip
    return made | {"table.include.list": table.name}


def launcher_of(run_id: str, folder: Path) -> Launcher:
    """Its processes end with this one."""
    return Launcher(run_id=run_id, logs=folder / "logs", owner=Identity.of(os.getpid()), on_start=lambda _running: None)


def drop_slot(server: Server, name: str) -> None:
    """PostgreSQL keeps the log for it."""
    mine = f"FROM pg_replication_slots WHERE slot_name = '{name}'"
    eventually(lambda: not server.run(f"SELECT 1 {mine} AND active"))
    server.run(f"SELECT pg_drop_replication_slot(slot_name) {mine}", f"DROP PUBLICATION IF EXISTS {name}")
