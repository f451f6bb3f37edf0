"""Dirty files as a source of records: every row of a range once, in order of its offsets, whatever the files are."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.engine import redrive
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.redrive import DirtyReader, Readers, clusters
from spark_jobs.engine.types import dirty_schema
from tests.world import make_pipeline
from tidegate.core.base.errors import PathMissing, StorageError
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import JobPart, ReadPlan, ReplayPlan
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import FileEntry, PartitionRows
from tidegate.core.window.lateness import Floor


class Files:
    """Files in memory, by URI."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.opened: list[str] = []

    def add(self, uri: str, rows: list[tuple[int, int]], batch_id: int = 1) -> Source:
        """`rows`: (Kafka partition, offset), in the file's order."""
        made = [
            {
                "reason": "odd", "field": "", "raw_key": None if o % 3 else b"%d" % o, "raw_value": b"v%d" % o,
                "_topic": "t", "_partition": p, "_offset": o, "_kafka_ts": o * 1_000_000,
            }
            for p, o in rows
        ]  # fmt: skip
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(made, schema=dirty_schema()), sink, row_group_size=7)
        self.content[uri] = sink.getvalue()
        return Source(batch_id, entry(uri, rows), (f"gone/{uri}", uri))

    def open(self, uri: str) -> io.BytesIO:
        if uri not in self.content:
            raise PathMissing(uri)
        self.opened.append(uri)
        return io.BytesIO(self.content[uri])


def entry(path: str, rows: list[tuple[int, int]]) -> FileEntry:
    parts = {p: [o for q, o in rows if q == p] for p, _ in rows}
    told = tuple(PartitionRows(p, len(o), min(o), max(o)) for p, o in sorted(parts.items()))
    return FileEntry(
        path=path,
        kind="dirty",
        window_ms=None,
        values=(),
        rows=len(rows),
        bytes=9,
        min_event_ms=None,
        max_event_ms=None,
        checksum=1,
        partitions=told,
    )


def read(files: Files, sources: list[Source], partition: int, start: int, end: int) -> list[int]:
    found: list[int] = []
    for chunk in DirtyReader(sources, files.open).read(OffsetRange("t", partition, start, end)):
        assert len(chunk)
        assert chunk.values == [b"v%d" % o for o in chunk.offsets]
        assert chunk.keys == [None if o % 3 else b"%d" % o for o in chunk.offsets]
        assert chunk.timestamps == [o * 1000 for o in chunk.offsets]
        assert chunk.headers is None
        found += chunk.offsets
    return found


def test_rows_come_in_order_from_files_that_interleave(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Against a model: many files, each with rows of several partitions in any order."""
    monkeypatch.setattr(redrive, "CHUNK_RECORDS", 5)
    for _ in range(25):
        files, sources = Files(), []
        rows = [(p, o) for p in range(3) for o in range(60) if rng.random() < 0.5]
        rng.shuffle(rows)
        cuts = sorted(rng.sample(range(1, len(rows)), rng.randrange(1, 6)))
        for n, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
            mine = rows[a:b] if rng.random() < 0.5 else sorted(rows[a:b])
            sources.append(files.add(f"f{n}", mine))
        for partition in range(3):
            start = rng.randrange(50)
            end = rng.randrange(start, 61)
            wanted = sorted(o for p, o in rows if p == partition and start <= o < end)
            assert read(files, sources, partition, start, end) == wanted


def test_only_files_with_rows_of_the_range_are_opened() -> None:
    files = Files()
    sources = [files.add(f"f{n}", [(0, n * 10 + i) for i in range(5)]) for n in range(6)]
    other = files.add("other", [(1, 22)])
    assert read(files, [*sources, other], 0, 21, 33) == [21, 22, 23, 24, 30, 31, 32]
    assert files.opened == ["f2", "f3"]
    alone = clusters([*sources, other], OffsetRange("t", 0, 0, 99))
    assert [[s.entry.path for s in c] for c in alone] == [[f"f{n}"] for n in range(6)]


def test_a_large_value_ends_its_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrive, "CHUNK_BYTES", 6)
    files = Files()
    source = files.add("f", [(0, o) for o in range(10, 20)])
    chunks = list(DirtyReader([source], files.open).read(OffsetRange("t", 0, 0, 99)))
    assert [len(c) for c in chunks] == [2] * 5


def spoilt(files: Files) -> None:
    files.content["f"] = files.content["f"][:-20]


def another(files: Files) -> None:
    files.add("f", [(0, 1)])


def lost(files: Files) -> None:
    del files.content["f"]


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (spoilt, "f cannot be read"),
        (another, "f has 1 rows, its manifest says 3"),
        (lost, "dirty file lost: it is not"),
    ],
)
def test_a_file_that_is_not_the_manifests_needs_a_human(harm: Callable[[Files], None], words: str) -> None:
    files = Files()
    source = files.add("f", [(0, 1), (0, 2), (0, 3)])
    harm(files)
    with pytest.raises(JobError, match=words) as failed:
        read(files, [source], 0, 0, 9)
    assert not failed.value.failure.retry
    assert "backup" in failed.value.failure.advice


def test_storage_that_is_away_is_tried_again() -> None:
    source = Files().add("f", [(0, 1)])

    def away(uri: str) -> Any:
        raise StorageError("the NameNode does not answer")

    with pytest.raises(StorageError):
        list(DirtyReader([source], away).read(OffsetRange("t", 0, 0, 9)))


def test_kafka_is_connected_to_only_if_a_part_needs_it() -> None:
    files = Files()
    source = files.add("f", [(0, 1)])
    floor = Floor(0, ())
    parts = (
        JobPart(batch_id=1, clock_ms=0, floor=floor, ranges=(), sources=(source,)),
        JobPart(batch_id=2, clock_ms=0, floor=floor, ranges=()),
    )
    pipeline = to_plain(make_pipeline("file:///lake/t"))
    plan = ReplayPlan(
        attempt="a", attempt_dir="file:///a", pipeline=pipeline, bootstrap={}, topic="t", topic_id="id", parts=parts,
        nonce="n",
    )  # fmt: skip
    connected: list[ReadPlan] = []

    class Kafka(redrive.Reader):
        def close(self) -> None:
            connected.clear()

    def connect(plan: ReadPlan) -> Kafka:
        connected.append(plan)
        return Kafka()

    readers = Readers(plan, connect, files.open)
    assert isinstance(readers.of_part(0), DirtyReader)
    assert connected == []
    assert readers.of_part(1) is readers.of_part(1)
    assert connected == [plan]
    readers.close()
    assert connected == []
