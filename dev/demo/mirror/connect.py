"""Kafka Connect, one standalone worker with Debezium's connectors."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from dev.stack import keeper
from dev.stack.errors import StackError
from dev.stack.jars import ensure_jars
from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.ports import LOOPBACK, told
from dev.stack.processes import Identity, Launcher, Program, Running, end_all

Settings = dict[str, str]
JSON = "org.apache.kafka.connect.json.JsonConverter"
FLATTEN = {
    "transforms": "flat",
    "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.flat.delete.tombstone.handling.mode": "rewrite",
}
_START_S, _END_S = 120.0, 60.0


def mariadb(port: int, prefix: str, history: Path, server_id: int = 100, snapshot: str = "initial") -> Settings:
    """A connector's settings for MariaDB's database `shop`, as docs/mirrors.md wants them. `snapshot`: `no_data` leaves
    the rows that are there to a copy."""
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector", "database.hostname": LOOPBACK,
        "database.port": str(port), "database.user": "root", "database.password": "",
        "database.server.id": str(server_id), "database.ssl.mode": "disable", "topic.prefix": prefix,
        "database.include.list": "shop", "include.schema.changes": "false", "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "precise", "snapshot.mode": snapshot,
        "heartbeat.interval.ms": "5000",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(history),
    }  # fmt: skip


def to_one_topic(topic: str, tables: Sequence[str]) -> Settings:
    """Settings of a connector that sends the events of these tables, shards of one, to one topic."""
    return {
        "table.include.list": ",".join(tables), "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": f".*({'|'.join(tables)})", "transforms.route.replacement": topic,
    }  # fmt: skip


class Connect:
    """One worker with several connectors; their offsets lie in `folder`, which outlives it."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        port: int,
        connectors: Mapping[str, Settings],
        launcher: Launcher,
        partitions: int = 1,
        flush_ms: int = 3_600_000,
        jars: str = "connect",
    ) -> None:
        """`partitions`: of the topics that it makes; every `flush_ms` it notes how far it is; `jars`: a set of them."""
        self._folder, self._launcher, self._jars = folder, launcher, jars
        self._port = port
        self._names = tuple(connectors)
        self._made = {
            name: {
                "name": name, "tasks.max": "1", "topic.creation.default.replication.factor": "1",
                "topic.creation.default.partitions": str(partitions), **settings,
            }
            for name, settings in connectors.items()
        }  # fmt: skip
        self._running: Running | None = None
        folder.mkdir(parents=True, exist_ok=True)
        worker = {
            "bootstrap.servers": bootstrap, "key.converter": JSON, "value.converter": JSON,
            "key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(folder / "offsets"), "offset.flush.interval.ms": str(flush_ms),
            "listeners": f"http://{LOOPBACK}:{port}", "plugin.path": "", "plugin.discovery": "service_load",
        }  # fmt: skip
        self._files = [self._write("worker", worker), *(self._write(*made) for made in self._made.items())]

    def send_schemas(self, name: str) -> None:
        """From its next start on, the connector sends the schema of each value along."""
        self._made[name] |= {"value.converter": JSON, "value.converter.schemas.enable": "true"}
        self._write(name, self._made[name])

    def _write(self, name: str, settings: Settings) -> str:
        path = self._folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def start(self) -> None:
        """Return when its connectors have tasks that run; events come when they come. Raises StackError."""
        jars = ensure_jars(self._jars, Places.of_checkout())
        java = [str(find_java().binary), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        main = ["-cp", f"{jars}/*", "org.apache.kafka.connect.cli.ConnectStandalone", *self._files]
        self._running = self._launcher.start("connect", Program([*java, *main], cwd=self._folder, grace_s=_END_S))
        self._running.wait_ready(self._runs, _START_S)

    def stop(self) -> None:
        """End it in peace: it notes how far it has come."""
        if self._running is not None:
            end_all([self._running.keeper], _END_S)

    def kill(self) -> int:
        """End it by SIGKILL: it will send events again. Returns the number of its process."""
        if self._running is None:
            raise StackError("Kafka Connect does not run")
        (pid, *_) = keeper.descendants(self._running.keeper.pid)
        Identity.of(pid).signal(signal.SIGKILL)
        end_all([self._running.keeper], _END_S)
        return pid

    def _runs(self) -> bool:
        for name in self._names:
            tasks = told(self._port, f"connectors/{name}/status").get("tasks", [])
            if failed := [task["trace"].splitlines()[0] for task in tasks if task["state"] == "FAILED"]:
                raise StackError(f"the connector {name} has failed: {failed[0]}")
            if not tasks:
                return False
        return True
