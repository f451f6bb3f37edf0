"""Kafka Connect, one standalone worker with Apache Iceberg's sink, until the table has ROWS rows.

As somebody runs it who knows it: as many tasks as cores, a Kafka client that takes more at once, the parallel
collector. What its converter cannot read is skipped (`errors.tolerance`). The sink commits every INTERVAL_MS, not by
hours. Only the standard library is imported here: this process is measured too.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

LOOK_S, PATIENCE_S = 0.5, 300.0
_FAILED = "Task threw an uncaught and unrecoverable exception"
"""The worker goes on without a task that has failed."""
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


def worker(work: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"],
        "key.converter": _BYTES,
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": str(work / "offsets"),
        "listeners": "http://127.0.0.1:0",
        "plugin.path": os.environ["PLUGINS"],
        "plugin.discovery": "service_load",  # a scan of all classes would be most of the start
        # A task without records asks for a commit's begin this often; by default each minute, which a topic that
        # flows never shows and one that ends does.
        "offset.flush.interval.ms": "1000",
        "consumer.max.poll.records": "20000",
        "consumer.max.partition.fetch.bytes": "8388608",
        "consumer.fetch.max.bytes": "104857600",
        "consumer.receive.buffer.bytes": "1048576",
    }


def sink() -> dict[str, str]:
    return {
        "name": f"lake-{os.getpid()}",
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": os.environ["CORES"],
        "topics": os.environ["TOPIC"],
        "errors.tolerance": "all",
        "transforms": "kafka",
        "transforms.kafka.type": "org.apache.iceberg.connect.transforms.KafkaMetadataTransform",
        "transforms.kafka.field_name": "_kafka",
        "iceberg.catalog": os.environ["CATALOG"],
        "iceberg.catalog.type": "jdbc",
        "iceberg.catalog.uri": f"jdbc:sqlite:{os.environ['CATALOGUE']}",
        "iceberg.catalog.warehouse": os.environ["OUT_DIR"],
        "iceberg.tables": os.environ["TABLE"],
        "iceberg.control.topic": os.environ["CONTROL"],
        "iceberg.control.commit.interval-ms": os.environ["INTERVAL_MS"],
        "iceberg.kafka.auto.offset.reset": "earliest",  # its default, the latest, may pass by an answer of a task
    }


def committed() -> int:
    """Rows of the table's newest snapshot."""
    with sqlite3.connect(f"file:{os.environ['CATALOGUE']}?mode=ro", uri=True, timeout=60) as database:
        (location,) = database.execute("select metadata_location from iceberg_tables").fetchone()
    metadata = json.loads(Path(str(location).removeprefix("file:").replace("//", "/")).read_text())
    now = metadata.get("current-snapshot-id")
    found = [s["summary"]["total-records"] for s in metadata.get("snapshots", ()) if s["snapshot-id"] == now]
    return int(found[0]) if found else 0


def main() -> None:
    work = Path(os.environ["WORK_DIR"])
    files = []
    for name, settings in (("worker", worker(work)), ("sink", sink())):
        files.append(str(work / f"{name}.properties"))
        Path(files[-1]).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    java = [str(Path(os.environ["JAVA_HOME"], "bin", "java")), "-Xmx3g", "-XX:+UseParallelGC"]
    command = [*java, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{os.environ['WORKER_JARS']}/*"]
    process = subprocess.Popen([*command, "org.apache.kafka.connect.cli.ConnectStandalone", *files], cwd=work)
    wanted, until = int(os.environ["ROWS"]), time.monotonic() + PATIENCE_S
    try:
        while committed() < wanted:
            failed = _FAILED in (work / "log").read_text(errors="replace")
            if failed or process.poll() is not None or time.monotonic() > until:
                sys.exit(f"{committed():,} of {wanted:,} rows are committed; the worker: {process.poll()}")
            time.sleep(LOOK_S)
    finally:
        process.terminate()
        process.wait(120)


if __name__ == "__main__":
    main()
