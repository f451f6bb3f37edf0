"""Plans, fake topics and file readers for the engine's tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import IngestPlan, JobPart, ReadPlan, ReplayPlan
from tidegate.core.files.receipt import FileEntry, Receipt
from tidegate.core.source.records import Chunk, Reader
from tidegate.core.spec.pipeline import (
    ArchiveRun,
    Column,
    DirtyLimits,
    EventTime,
    Format,
    IngestRun,
    Pipeline,
    Sink,
    Source,
    Windows,
)
from tidegate.core.window.lateness import Floor

TOPIC = "readings"
HOUR = 3_600_000
DAY_ONE = 1_357_344_000_000  # 2013-01-05T00:00:00Z
CLOCK = DAY_ONE + 40 * HOUR


def pipeline(location: Path | str, **changes: object) -> Pipeline:
    base = Pipeline(
        name="readings",
        owner="tests",
        tags=(),
        source=Source(conn_id="kafka_default", topic=TOPIC),
        format=Format(),
        columns=(
            Column(name="site", type="string", path="$.site"),
            Column(name="value", type="double", path="$.reading.value"),
            Column(name="count", type="int", path="$.count"),
        ),
        event_time=EventTime("$.at"),
        windows=Windows(size_ms=HOUR, timezone="UTC", start_ms=DAY_ONE, watermark_delay_ms=6 * HOUR),
        partition_by=("date", "hour", "site"),
        sink=Sink(
            conn_id="hive", table="lake.readings", location=f"file://{location}", workdir=f"file://{location}/_tidegate"
        ),
        ingest=IngestRun(schedule=None, max_records=1_000_000, spark_conn_id="spark_default", spark_conf={}),
        archive=ArchiveRun(sla_ms=1_800_000),
        dirty=DirtyLimits(None, None),
    )
    return replace(base, **changes)


def job_plan(spec: Pipeline, ranges: list[tuple[int, int, int]], **changes: object) -> IngestPlan:
    """A plan over (partition, start, end) ranges."""
    batch = int(changes.pop("batch_id", 7))  # type: ignore[call-overload]
    floor = changes.pop("floor", Floor(DAY_ONE))
    clock = changes.pop("clock_ms", CLOCK)
    attempt = f"{batch}.1-abc"
    plan = IngestPlan(
        attempt=attempt,
        attempt_dir=f"{spec.sink.workdir}/tmp/{attempt}",
        pipeline=to_plain(spec),
        bootstrap={"bootstrap.servers": "127.0.0.1:1"},
        topic=TOPIC,
        topic_id="topic-one",
        parts=(
            JobPart(batch_id=batch, clock_ms=clock, floor=floor, ranges=tuple(OffsetRange(TOPIC, *r) for r in ranges)),
        ),  # type: ignore[arg-type]
        nonce="abc",
        batch_id=batch,
        epoch=1,
        spec_version=3,
    )
    return replace(plan, **changes)


def replay_plan_of(plan: IngestPlan, **changes: Any) -> ReplayPlan:
    """A replay by the spec of that plan."""
    return ReplayPlan(**{f.name: getattr(plan, f.name) for f in fields(plan)} | changes)


Record = tuple[int, bytes | None]
"""(offset, value); the Kafka timestamp is DAY_ONE + offset seconds."""


class FakeReader(Reader):
    """A topic in memory: partition -> records. Serves chunks of `size` records."""

    def __init__(self, records: dict[int, list[Record]], size: int = 3, topic_id: str | None = "topic-one") -> None:
        self._records, self._size, self._topic_id = records, size, topic_id

    def topic_id(self) -> str | None:
        return self._topic_id

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        found = [r for r in self._records.get(wanted.partition, []) if wanted.start <= r[0] < wanted.end]
        for i in range(0, len(found), self._size):
            part = found[i : i + self._size]
            yield Chunk(
                [o for o, _ in part],
                [DAY_ONE + o * 1000 for o, _ in part],
                [str(o).encode() for o, _ in part],
                [v for _, v in part],
            )


def chunk_of(values: list[bytes | None]) -> Chunk:
    """Records at offsets 0, 1, ... of one partition."""
    count = len(values)
    return Chunk(list(range(count)), [DAY_ONE + i * 1000 for i in range(count)], [None] * count, values)


def serving(records: dict[int, list[Record]], **options: object) -> Callable[[ReadPlan], Reader]:
    return lambda plan: FakeReader(records, **options)  # type: ignore[arg-type]


def event(at: int = DAY_ONE, **fields: object) -> bytes:
    return json.dumps({"at": at, "site": "a", **fields}).encode()


def records(values: list[bytes | None], first: int = 0) -> list[Record]:
    return list(enumerate(values, first))


def attempt_path(plan: ReadPlan) -> Path:
    return Path(plan.attempt_dir.removeprefix("file://"))


def rows_of(plan: ReadPlan, file: FileEntry) -> list[dict]:
    return pq.ParquetFile(attempt_path(plan) / file.path).read().to_pylist()


def all_rows(plan: ReadPlan, receipt: Receipt, kind: str) -> list[dict]:
    """Rows of every file of a kind, by Kafka coordinates; dynamic partition values are put back in."""
    found = [
        {**row, **(dict(file.values))} for file in receipt.files if file.kind == kind for row in rows_of(plan, file)
    ]
    return sorted(found, key=lambda r: (r["_partition"], r["_offset"]))
