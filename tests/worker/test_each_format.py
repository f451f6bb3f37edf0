"""The whole life of a pipeline whose files are ORC or text: what holds for Parquet holds for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.engine import write
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.job import run_plan
from spark_jobs.engine.redrive import DirtyReader
from spark_jobs.engine.sinks import Encoding, finished
from spark_jobs.engine.write import Files, Place, Run
from tests.audit.audits import InProcess
from tests.engine_fixtures import DAY_ONE, FakeReader, attempt_path, event, job_plan, pipeline, records
from tests.look.row_readers import InProcessRows
from tests.world import World, make_pipeline, record, window
from tidegate.adapters.footers import FooterProcess
from tidegate.adapters.rows import RowProcess
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import FileEntry, PartitionRows
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.core.target.tables import told_columns
from tidegate.storage.local import LocalStorage
from tidegate.workflow.audit.audit import Depth, Report, audit
from tidegate.workflow.look.where import where

FORMATS = {"orc": ("zstd", ".orc"), "text": ("gzip", ".txt.gz")}
HOUR_0 = "lake/readings/date=2013-01-05/hour=00"
SAID = 'a line\nand \\ another\x01\r"'


def pipeline_of(location: str, name: str) -> Pipeline:
    made = make_pipeline(location)
    run = made.archive
    return replace(
        made,
        columns=(
            *made.columns,
            Column(name="said", type="string", path="$.said"),
            Column(name="moment", type="timestamp", path="$.at"),
        ),
        sink=replace(made.sink, format=name, compression=FORMATS[name][0]),
        archive=replace(run, merge=replace(run.merge, min_files=2)),
    )


def built(folder: Path, name: str) -> World:
    """Hour 0 is published, its three files of site a merged; a late and a dirty row; hours 1 and 2 wait."""
    made = World(folder, pipeline_of(f"file://{folder}/lake/readings", name))
    made.produce(record("a0", 0.1) | {"said": SAID}, record("b0", 0.2, "b"), b'{"not": \n json')
    made.ingest("r1")
    made.produce(record("a1", 0.3), record("a2", 0.4), partition=1)
    made.ingest("r2")
    made.produce(record("a3", 0.5), record("wait", 2.5))
    made.produce(record("wait", 2.5), partition=1)
    made.ingest("r3")
    made.archive(0)
    made.produce(record("late", 0.7), record("fine", 2.9))
    made.ingest("r4")
    return made


@pytest.fixture(params=FORMATS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = built(tmp_path, request.param)
    yield made
    made.close()


@pytest.fixture(scope="module", params=FORMATS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Only looked at."""
    made = built(tmp_path_factory.mktemp(request.param), request.param)
    yield made
    made.close()


def look(world: World, reader: Any = None, **depth: bool) -> Report:
    ctx = world.context()
    try:
        return audit(ctx, ctx.ledger.reads, reader or InProcess(), Depth(**depth))
    finally:
        world.close()


def files_of(world: World, folder: str) -> list[Path]:
    root = world.folder / folder
    return sorted(p for p in root.rglob("*") if p.is_file() and not p.name.startswith(("_", ".")))


def rows_of(world: World, path: Path, kind: str = "data") -> list[dict[str, Any]]:
    with path.open("rb") as stream:
        batches = finished(path.name, stream, told_columns(world.pipeline, kind)).batches(100)
        return [row for batch in batches for row in batch.to_pylist()]


def test_a_merged_hour(shared: World) -> None:
    assert shared.by_window()["00"] == [(0, 0), (0, 1), (0, 3), (1, 0), (1, 1)]
    end = FORMATS[shared.pipeline.sink.format][1]
    merged, alone = (p.relative_to(shared.folder / HOUR_0).as_posix() for p in files_of(shared, HOUR_0))
    assert merged == f"site=a/m1-0000-0{end}"
    assert alone.startswith("site=b/b1-part-")
    assert alone.endswith(end)
    rows = {row["id"]: row for path in files_of(shared, HOUR_0) for row in rows_of(shared, path)}
    assert rows["a0"]["said"] == SAID
    assert rows["a0"]["moment"].isoformat() == "2013-01-05T00:06:00+00:00"
    assert sorted(rows) == ["a0", "a1", "a2", "a3", "b0"]


def test_the_deep_audit_counts_every_row(shared: World) -> None:
    report = look(shared)
    assert report.problems == ()
    assert (report.rows_in_files, report.coordinates) == (10, 10)
    if shared.pipeline.sink.format == "text":
        with_child = look(shared, FooterProcess())
        assert replace(with_child, seconds=0) == replace(report, seconds=0)


def test_an_audit_of_footers_alone(shared: World) -> None:
    report = look(shared, coordinates=False)
    assert report.balanced
    if shared.pipeline.sink.format == "text":
        assert report.notes == ("the files were not looked into: text has no footers, a deep audit counts the rows",)
    else:
        assert (report.rows_in_files, report.notes) == (10, ())


def test_a_file_with_other_rows_is_found(world: World) -> None:
    merged, other = files_of(world, HOUR_0)
    content = other.read_bytes()
    merged.write_bytes(content + b"\x00" * (merged.stat().st_size - len(content)))  # as long as it was
    said = [p.what for p in look(world).problems]
    assert any(f"{merged.name} cannot be read" in what for what in said), said


def test_where_each_row_is(shared: World) -> None:
    def fates(rows: Any) -> list[Any]:
        ctx = shared.context()
        try:
            asked = [(0, o) for o in range(7)] + [(1, o) for o in range(3)]
            return [where(ctx, ctx.ledger.reads, rows, *one).fates[0] for one in asked]
        finally:
            shared.close()

    found = fates(InProcessRows())
    end = FORMATS[shared.pipeline.sink.format][1]
    assert found[0].file.endswith(f"site=a/m1-0000-0{end}")
    assert "event time 2013-01-05T00:06Z" in found[0].words
    assert (found[2].table, found[2].raw) == ("lake.readings__dirty", '{"not": \\n json')
    assert found[5].table == "lake.readings__late"
    assert [f.settled for f in found] == [True] * 4 + [False, True, False] + [True, True, False]
    if shared.pipeline.sink.format == "text":
        with RowProcess() as rows:
            assert fates(rows) == found


def test_clear_heals_and_a_replay_changes_nothing(world: World) -> None:
    before = world.table()
    digest = world.context().ledger.windows.generation("readings", window(0), 1).digest
    files_of(world, HOUR_0)[0].unlink()
    healed = world.archive(0)
    assert healed.generation == 2
    assert world.context().ledger.windows.generation("readings", window(0), 2).digest == digest
    assert world.table() == before
    again = world.replay(0)
    assert (again.generation, again.new) == (2, False)
    assert look(world).problems == ()


def test_a_time_that_orc_cannot_keep_is_dirty(world: World) -> None:
    """Kafka's own missing timestamp is null there, and the row is read like any other."""
    early = record("early", 2.6) | {"when": "1969-12-31T23:59:59.5Z"}
    columns = (*world.pipeline.columns[:-1], Column(name="moment", type="timestamp", path="$.when"))
    world.change_spec(columns=columns)
    world.produce(early, record("fine", 2.7) | {"when": "1969-12-31T23:59:59Z"})
    world.ingest("r5")
    dirty = [row for path in files_of(world, "lake/readings/_tidegate/dirty") for row in rows_of(world, path, "dirty")]
    late = [row["reason"] for row in dirty if row["field"] == "moment"]
    if world.pipeline.sink.format == "orc":
        assert late == ["ORC cannot keep a time before 1970 that has a fraction of a second"]
    else:
        assert late == []
    assert look(world).problems == ()


def test_a_redrive_reads_the_dirty_records_again(shared: World) -> None:
    """Bytes, coordinates and Kafka's timestamp, which may be missing."""
    (path,) = files_of(shared, "lake/readings/_tidegate/dirty")
    (row,) = rows_of(shared, path, "dirty")
    parts = (PartitionRows(row["_partition"], 1, row["_offset"], row["_offset"]),)
    entry = FileEntry(
        path=path.name,
        kind="dirty",
        window_ms=None,
        values=(),
        rows=1,
        bytes=path.stat().st_size,
        min_event_ms=None,
        max_event_ms=None,
        checksum=0,
        partitions=parts,
    )
    reader = DirtyReader([Source(1, entry, (f"file://{path}",))], lambda uri: LocalStorage().open_existing(uri))
    (chunk,) = reader.read(OffsetRange("readings", 0, 0, 100))
    assert (chunk.offsets, chunk.values) == ([2], [b'{"not": \n json'])
    wrong = replace(entry, rows=2)
    reader = DirtyReader([Source(1, wrong, (f"file://{path}",))], lambda uri: LocalStorage().open_existing(uri))
    with pytest.raises(JobError, match="has 1 rows, its manifest says 2"):
        list(reader.read(OffsetRange("readings", 0, 0, 100)))


@pytest.mark.parametrize("name", ["parquet", *FORMATS])
def test_records_without_a_timestamp(name: str, tmp_path: Path) -> None:
    """Kafka says -1. ORC cannot keep it: null there, which a redrive reads as -1 again."""
    spec = pipeline(tmp_path)
    spec = replace(spec, sink=replace(spec.sink, format=name, compression="gzip"))
    plan = job_plan(spec, [(0, 0, 3)])
    reader = Stampless({0: records([event(), b"not json", event()])})
    receipt = run_plan(plan, LocalStorage(), open_reader=lambda _: reader)
    assert (receipt.read_rows, len(receipt.files)) == (3, 2)
    missing = None if name == "orc" else datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)
    for file in receipt.files:
        path = attempt_path(plan) / file.path
        with path.open("rb") as stream:
            batches = finished(path.name, stream, told_columns(spec, file.kind)).batches(10)
            assert {row["_kafka_ts"] for batch in batches for row in batch.to_pylist()} == {missing}
        if file.kind == "dirty":
            again = DirtyReader([Source(7, file, (f"file://{path}",))], lambda uri: LocalStorage().open_existing(uri))
            (chunk,) = again.read(OffsetRange("readings", 0, 0, 3))
            assert (chunk.timestamps, chunk.values) == ([-1], [b"not json"])


class Stampless(FakeReader):
    stamp = -1

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        for chunk in super().read(wanted):
            yield replace(chunk, timestamps=[self.stamp] * len(chunk))


@pytest.mark.parametrize("stamp", [1_600_000_000_000_000, 1_600_000_000_000_000_000, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("name", ["parquet", *FORMATS])
def test_a_timestamp_that_a_producer_counted_in_other_units(name: str, stamp: int, tmp_path: Path) -> None:
    """No calendar has it: null, in data and dirty rows, and both can be read again."""
    spec = pipeline(tmp_path)
    spec = replace(spec, sink=replace(spec.sink, format=name, compression="gzip"))
    plan = job_plan(spec, [(0, 0, 2)])
    reader = Stampless({0: records([event(), b"not json"])})
    reader.stamp = stamp
    receipt = run_plan(plan, LocalStorage(), open_reader=lambda _: reader)
    assert sorted(file.kind for file in receipt.files) == ["data", "dirty"]
    for file in receipt.files:
        path = attempt_path(plan) / file.path
        with path.open("rb") as stream:
            (batch,) = finished(path.name, stream, told_columns(spec, file.kind)).batches(10)
            assert batch.column("_kafka_ts").to_pylist() == [None]


@pytest.mark.parametrize("name", FORMATS)
def test_the_overflow_partition(name: str, tmp_path: Path) -> None:
    """What the rows said is in a column that only these files have."""
    spec = pipeline(tmp_path)
    spec = replace(spec, sink=replace(spec.sink, format=name, compression="none", max_partitions=1))
    plan = job_plan(spec, [(0, 0, 4)])
    topic = records([event(site=site, count=n) for n, site in enumerate(("a", "b\n", "a", 'c"\x01'))])
    receipt = run_plan(plan, LocalStorage(), open_reader=lambda _: FakeReader({0: topic}))
    seen = {}
    for file in receipt.files:
        path = attempt_path(plan) / file.path
        with path.open("rb") as stream:
            opened = finished(path.name, stream, told_columns(spec, file.kind))
            seen |= {
                row["count"]: (dict(file.values)["site"], dict(row.get("_overflow") or {}))
                for batch in opened.batches(10)
                for row in batch.to_pylist()
            }
    beyond = "__tidegate_overflow__"
    assert seen == {0: ("a", {}), 1: (beyond, {"site": "b\n"}), 2: ("a", {}), 3: (beyond, {"site": 'c"\x01'})}


@pytest.mark.parametrize("name", FORMATS)
def test_what_open_files_keep_in_memory_is_bounded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are closed before their time: more of them, the same rows."""
    spec = pipeline(tmp_path)
    spec = replace(spec, sink=replace(spec.sink, format=name, compression="gzip"))
    rows = pa.table({"number": pa.array(range(20), pa.int64())})
    for limit, count in ((write.HELD_BYTES, 3), (1, 9)):
        monkeypatch.setattr(write, "HELD_BYTES", limit)
        files = Files(spec, f"file://{tmp_path}/{limit}", "1", {}, LocalStorage().open_new)
        for at in range(9):
            place, runs = Place("data", DAY_ONE, (("site", str(at % 3)),)), [Run(0, 0, 20, at * 20, at * 20 + 19)]
            files.append(place, rows, Encoding([], []), 0, None, runs)
        entries = files.close()
        assert (len(entries), sum(entry.rows for entry in entries)) == (count, 180)
