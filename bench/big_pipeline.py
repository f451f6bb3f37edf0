"""A pipeline with a long past, made without running it: ledger rows, and Parquet files with Kafka's columns only.

Every batch reads `offsets` offsets over all Kafka partitions, interleaved over the windows that are open then: the
rows of each file are scattered as far as they can be. The older half of the windows is published, the rest waits.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import create_engine, insert
from sqlalchemy.engine import Connection

from tidegate.core.base.plain import dumps
from tidegate.core.files.receipt import DATA, FileEntry, PartitionRows, content_digest, manifest_digest
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import Layout
from tidegate.core.window.cut import time_values, window_end
from tidegate.core.window.lateness import Floor
from tidegate.ledger import schema
from tidegate.ledger.migrate import migrate
from tidegate.ledger.rows import file_values
from tidegate.spec import fingerprint, load_file

HOUR = 3_600_000
T0 = 1_357_344_000_000  # 2013-01-05T00:00:00Z
TOPIC_ID = "made"
YAML = """\
version: 1
name: big
owner: bench
source: {{conn_id: kafka, topic: events, start: earliest}}
format: {{type: json}}
columns: [{{name: id, type: string, nullable: false}}]
event_time: {{from: $.at, format: epoch_ms}}
windows: {{size: 1h, timezone: UTC, start: 2013-01-05T00:00:00Z, watermark_delay: 1h, idle: follow}}
partition_by: [date, hour]
sink: {{conn_id: hive, table: lake.big, location: "file://{folder}/lake/big"}}
ingest: {{schedule: null, spark: {{conn_id: spark}}}}
"""


@dataclass(frozen=True)
class Shape:
    """`windows` are open at once, `advance` of them close after each batch."""

    batches: int
    offsets: int
    windows: int
    partitions: int = 4
    advance: float = 0.0


class Big:
    """`files`: whether Parquet files are written; without, the ledger names files that are not there."""

    def __init__(self, folder: Path, shape: Shape, files: bool = True) -> None:
        self.folder, self.shape, self._files = folder, shape, files
        (folder / "pipelines").mkdir(parents=True)
        (folder / "pipelines/big.yaml").write_text(YAML.format(folder=folder))
        self.spec: Pipeline = load_file(folder / "pipelines/big.yaml")
        self.layout = Layout.of(self.spec)
        self.url = f"sqlite:///{folder}/ledger.db"
        self._published: dict[int, list[FileEntry]] = defaultdict(list)
        self._batches: dict[int, list[int]] = defaultdict(list)
        newest = int((shape.batches - 1) * shape.advance) + shape.windows
        self._first_waiting = newest // 2

    def environment(self, url: str | None = None) -> dict[str, str]:
        """For `tidegate` commands; `url`: another database that holds the same ledger."""
        connection = {"conn_type": "sqlite", "host": f"{self.folder}/ledger.db"}
        values = {
            "AIRFLOW_HOME": f"{self.folder}/airflow",
            "AIRFLOW__TIDEGATE__PIPELINES_FOLDER": f"{self.folder}/pipelines",
            "AIRFLOW_CONN_TIDEGATE_LEDGER": url or json.dumps(connection),
            "AIRFLOW_CONN_KAFKA": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}}),
            "AIRFLOW_CONN_HIVE": json.dumps({"conn_type": "hiveserver2", "host": "127.0.0.1", "port": 9}),
        }
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "TIDEGATE"))}
        return kept | values

    def make(self, url: str | None = None) -> None:
        migrate(url or self.url)
        engine = create_engine(url or self.url)
        with engine.begin() as c:
            self._pipeline(c)
            batches = self._entries()
            while chunk := list(islice(batches, 500)):
                self._write_batches(c, chunk)
            self._write_windows(c)
        engine.dispose()

    # ------------------------------------------------------------ files

    def _entries(self) -> Iterator[tuple[int, tuple[FileEntry, ...]]]:
        per_partition = self.shape.offsets // self.shape.partitions
        for batch_id in range(1, self.shape.batches + 1):
            first_window = int((batch_id - 1) * self.shape.advance)
            start = (batch_id - 1) * per_partition
            yield (
                batch_id,
                tuple(
                    self._entry(batch_id, first_window, at, start, per_partition) for at in range(self.shape.windows)
                ),
            )

    def _entry(self, batch_id: int, first_window: int, at: int, start: int, count: int) -> FileEntry:
        window = first_window + at
        window_ms, step = T0 + window * HOUR, self.shape.windows
        rows = len(range(at, count, step))
        last = start + at + (rows - 1) * step
        parts = tuple(PartitionRows(p, rows, start + at, last) for p in range(self.shape.partitions))
        values = time_values(window_ms, ("date", "hour"), "UTC")
        folder = "/".join(f"{k}={v}" for k, v in values)
        name = f"part-00000-0-{at:04d}.parquet"
        checksum = batch_id * 1000 + at
        published = window < self._first_waiting
        moved = Path(f"{self.folder}/lake/big/{folder}/b{batch_id}-{name}")
        landed = Path(f"{self.folder}/lake/big/_tidegate/landed/{batch_id}/data/{folder}/{name}")
        size = self._write(moved if published else landed, parts, batch_id, checksum) if self._files else 1
        total = sum(p.rows for p in parts)
        entry = FileEntry(
            path=f"data/{folder}/{name}",
            kind=DATA,
            window_ms=window_ms,
            values=(),
            rows=total,
            bytes=size,
            min_event_ms=window_ms,
            max_event_ms=window_ms + 1,
            checksum=checksum,
            partitions=parts,
        )
        self._batches[window_ms].append(batch_id)
        if published:
            self._published[window_ms].append(
                FileEntry(
                    path=moved.name,
                    kind=DATA,
                    window_ms=window_ms,
                    values=(),
                    rows=total,
                    bytes=size,
                    min_event_ms=window_ms,
                    max_event_ms=window_ms + 1,
                    checksum=checksum,
                    partitions=parts,
                )
            )
        return entry

    def _write(self, path: Path, parts: tuple[PartitionRows, ...], batch_id: int, checksum: int) -> int:
        path.parent.mkdir(parents=True, exist_ok=True)
        step = self.shape.windows
        offsets = [np.arange(p.min_offset, p.max_offset + 1, step, dtype=np.int64) for p in parts]
        table = pa.table(
            {
                "_partition": np.concatenate(
                    [np.full(len(o), p.partition, np.int32) for p, o in zip(parts, offsets, strict=True)]
                ),
                "_offset": np.concatenate(offsets),
                "_batch_id": np.full(sum(map(len, offsets)), batch_id, np.int64),
            }
        )
        with pq.ParquetWriter(
            path, table.schema, compression="zstd", use_dictionary=["_partition", "_batch_id"]
        ) as writer:
            writer.write_table(table)
            footer = {"tidegate.rows": dumps(parts), "tidegate.kind": DATA, "tidegate.checksum": str(checksum)}
            writer.add_key_value_metadata(footer)
        return path.stat().st_size

    # ------------------------------------------------------------ ledger

    def _pipeline(self, c: Connection) -> None:
        shape = self.shape
        c.execute(
            insert(schema.pipelines).values(
                name="big", version=1, next_batch_id=shape.batches + 1, topic_id=TOPIC_ID, created_ms=T0
            )
        )
        values = {"fingerprint": fingerprint(self.spec), "compiled": dumps(self.spec), "created_ms": T0}
        c.execute(insert(schema.spec_versions).values(pipeline="big", version=1, **values))

    def _write_batches(self, c: Connection, chunk: Iterable[tuple[int, tuple[FileEntry, ...]]]) -> None:
        per_partition = self.shape.offsets // self.shape.partitions
        found: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for batch_id, files in chunk:
            key = {"pipeline": "big", "batch_id": batch_id}
            found[schema.batches].append(key | self._batch(batch_id, files))
            start, end = (batch_id - 1) * per_partition, batch_id * per_partition
            for p in range(self.shape.partitions):
                rows = {"read": per_partition, "data": per_partition, "late": 0, "dirty": 0, "filtered": 0}
                place = {"partition": p, "start": start, "end": end, "dropped": 0, "gaps": "[]"}
                found[schema.batch_ranges].append(key | place | rows)
                ends = {"planned_end": end, "log_start": 0, "last_stable_offset": end, "high_watermark": end}
                facts = {"drained": True, "max_event_ms": T0, "advanced_ms": T0, "open_transaction_since_ms": None}
                found[schema.batch_partitions].append(key | {"partition": p} | ends | facts)
            for f in files:
                found[schema.batch_files].append(key | {"window_ms": f.window_ms} | file_values(f))
                for part in f.partitions:
                    total = {"window_ms": f.window_ms, "kind": DATA, "partition": part.partition, "rows": part.rows}
                    span = {"min_offset": part.min_offset, "max_offset": part.max_offset}
                    found[schema.batch_window_totals].append(key | total | span)
            for what in ("planned", "writing", "sealed", "landed"):
                event = {"at_ms": T0, "pipeline": "big", "actor": "bench", "detail": "{}"}
                found[schema.events].append(event | {"what": what, "subject": f"batch {batch_id}"})
        for table, rows in found.items():
            c.execute(insert(table), rows)

    def _batch(self, batch_id: int, files: tuple[FileEntry, ...]) -> dict[str, Any]:
        return {
            "state": "LANDED",
            "epoch": 1,
            "nonce": "bench",
            "revision": 1,
            "spec_version": 1,
            "rules_version": 1,
            "topic": "events",
            "topic_id": TOPIC_ID,
            "clock_ms": T0,
            "floor": dumps(Floor(T0)),
            "records": self.shape.offsets,
            "manifest_digest": manifest_digest(files),
            "receipt": "{}",
            "side_moved": True,
            "side_registered": True,
            "planned_ms": T0 + batch_id,
            "sealed_ms": T0 + batch_id,
            "landed_ms": T0 + batch_id,
        }

    def _write_windows(self, c: Connection) -> None:
        for window_ms, files in self._published.items():
            key = {"pipeline": "big", "window_ms": window_ms}
            place = self.layout.window(time_values(window_ms, ("date", "hour"), "UTC"))
            if self._files:
                Path(place.removeprefix("file://"), "_SUCCESS").touch()
            row = {"start_ms": window_ms, "end_ms": window_end(window_ms, self.spec.windows), "state": "CLOSED"}
            closing = {"closing_batch": self.shape.batches + 1, "closed_ms": T0}
            c.execute(insert(schema.windows).values(pipeline="big", **row, **closing))
            made = {"number": 1, "state": "CURRENT", "epoch": 1, "nonce": "bench", "kind": "archive"}
            content = {"rows": sum(f.rows for f in files), "digest": content_digest(files), "location": place}
            c.execute(insert(schema.generations).values(**key, **made, **content, published_ms=T0))
            batches = [key | {"number": 1, "batch_id": i} for i in self._batches[window_ms]]
            c.execute(insert(schema.generation_batches), batches)
            c.execute(insert(schema.generation_files), [key | {"number": 1} | file_values(f) for f in files])
