"""Kafka Connect, standalone, with Debezium's connectors, for a recording."""

from __future__ import annotations

import subprocess
from pathlib import Path

from dev.stack.jars import ensure_jars, write_lock
from dev.stack.java import find_java
from dev.stack.places import Places

HERE = Path(__file__).parent
Settings = dict[str, str]
JSON = "org.apache.kafka.connect.json.JsonConverter"
FLATTEN = {
    "transforms": "flat",
    "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.flat.delete.tombstone.handling.mode": "rewrite",
}


def lock() -> Path:
    """Resolve connect.toml again and write connect.lock."""
    return write_lock("connect", Places.of_checkout(), locks=HERE)


class Connect:
    """One worker with several connectors; their offsets lie in `folder`, which outlives it."""

    def __init__(self, folder: Path, bootstrap: str, port: int, connectors: dict[str, Settings]) -> None:
        self._folder, self._connectors = folder, connectors
        folder.mkdir(parents=True, exist_ok=True)
        worker = {
            "bootstrap.servers": bootstrap, "key.converter": JSON, "value.converter": JSON,
            "offset.storage.file.filename": str(folder / "offsets"), "offset.flush.interval.ms": "3600000",
            "listeners": f"http://127.0.0.1:{port}", "plugin.path": "", "plugin.discovery": "only_scan",
        }  # fmt: skip
        self._files = [self._write("worker", worker)]
        for name, settings in connectors.items():
            made = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}
            self._files.append(self._write(name, {"name": name, "tasks.max": "1", **made, **settings}))
        self._jars = ensure_jars("connect", Places.of_checkout(), locks=HERE)
        self.process: subprocess.Popen[bytes] | None = None

    def _write(self, name: str, settings: Settings) -> str:
        path = self._folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def start(self) -> None:
        """Start the worker; it is ready when events come."""
        java = [str(find_java().binary), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        main = ["-cp", f"{self._jars}/*", "org.apache.kafka.connect.cli.ConnectStandalone", *self._files]
        with open(self._folder / "connect.log", "ab") as log:
            self.process = subprocess.Popen([*java, *main], stdout=log, stderr=log, cwd=self._folder)

    def stop(self) -> None:
        """End it in peace: it notes how far it has come."""
        self._end(kill=False)

    def kill(self) -> None:
        """End it by SIGKILL: it will send events again."""
        self._end(kill=True)

    def _end(self, kill: bool) -> None:
        if self.process is not None:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait(timeout=120)
