"""Sources of a rewrite: found, read, compared with their manifest; their rows wait until they are worth a row group."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.engine.failures import JobError
from spark_jobs.engine.identity import file_checksum
from spark_jobs.engine.rewrite import sources
from spark_jobs.engine.rewrite.sources import Waiting, by_batch, located, opened, proved, spoilt
from spark_jobs.engine.sinks import finished
from tidegate.core.base.errors import PathMissing
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import DATA, BatchRows, FileEntry

ROWS = pa.table({
    "id": ["a", "b", "c"],
    "_partition": pa.array([0, 0, 1], pa.int32()),
    "_offset": pa.array([7, 9, 4], pa.int64()),
    "_batch_id": pa.array([1, 1, 1], pa.int64()),
})  # fmt: skip


def written(rows: pa.Table = ROWS) -> bytes:
    stream = io.BytesIO()
    pq.write_table(rows, stream)
    return stream.getvalue()


CONTENT = written()
ENTRY = FileEntry(
    path="f.parquet",
    kind=DATA,
    window_ms=0,
    values=(),
    rows=3,
    bytes=len(CONTENT),
    min_event_ms=None,
    max_event_ms=None,
    checksum=file_checksum(ROWS, DATA, ()),
    partitions=(),
)
SOURCE = Source(1, ENTRY, ("gone/f.parquet", "here/f.parquet"))


class Storage:
    def read(self, uri: str) -> bytes:
        if uri.startswith("gone"):
            raise PathMissing(uri)
        return CONTENT


def read(source: Source) -> list[pa.Table]:
    return list(proved(source, finished("f.parquet", pa.BufferReader(CONTENT)), "f.parquet"))


def test_rows_are_those_of_the_manifest() -> None:
    assert pa.concat_tables(read(SOURCE)).equals(ROWS)


@pytest.mark.parametrize("entry", [replace(ENTRY, checksum=ENTRY.checksum ^ 1), replace(ENTRY, rows=4)])
def test_other_rows_are_refused_at_their_end(entry: FileEntry) -> None:
    with pytest.raises(JobError, match="3 rows read, and they or their checksum are not the manifest's") as refused:
        read(replace(SOURCE, entry=entry))
    assert not refused.value.failure.retry
    assert "backup" in refused.value.failure.advice


def test_a_source_is_read_where_it_lies_now() -> None:
    content, file = opened(SOURCE, None, lambda uri: Storage())
    assert (content, file.rows) == (CONTENT, 3)
    with pytest.raises(JobError, match="f.parquet is not there any more, nor in 1 other place$") as refused:
        located(replace(SOURCE, uris=("gone/f.parquet", "gone/too")), Storage().read)
    assert refused.value.failure.retry


@pytest.mark.parametrize("entry", [replace(ENTRY, bytes=ENTRY.bytes + 1), replace(ENTRY, rows=4)])
def test_a_file_of_another_length_or_with_more_rows_is_not_read(entry: FileEntry) -> None:
    with pytest.raises(JobError, match="its manifest says"):
        opened(replace(SOURCE, entry=entry), None, lambda uri: Storage())


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        with spoilt("f"):
            raise error

    return fail


def test_what_the_filesystem_says_is_not_said_of_the_file() -> None:
    with pytest.raises(JobError, match="f cannot be read, its bytes are not what was written"):
        raising(OSError("Corrupt snappy data"))()
    with pytest.raises(TimeoutError):
        raising(TimeoutError(errno.ETIMEDOUT, "timed out"))()


def test_rows_by_the_coordinates_that_they_carry() -> None:
    assert sorted(by_batch(ROWS)) == [BatchRows(1, 0, 2, 7, 9), BatchRows(1, 1, 1, 4, 4)]
    assert by_batch(ROWS.select(["id"])) == []


def test_rows_wait_for_a_row_group_of_the_same_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "GROUP_ROWS", 5)
    groups: list[list[str]] = []
    waiting = Waiting(lambda rows: groups.append([*rows.column_names, str(len(rows))]))
    other = ROWS.select(["id"])
    for rows in (other, ROWS, ROWS):
        waiting.add(rows)
    waiting.add(other, whole=True)
    waiting.add(other, whole=True)
    waiting.flush()
    waiting.flush()
    assert groups == [["id", "3"], [*ROWS.column_names, "6"], ["id", "6"]]
