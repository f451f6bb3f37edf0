"""Row groups that are copied under a new footer: the same rows for every reader, or nothing is copied."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.engine.sinks import Encoding, format_of, parquet_join
from spark_jobs.engine.sinks.parquet_join import footer_of
from spark_jobs.engine.sinks.thrift import decode, encode
from tests.file_values import COLUMNS, rows_of
from tests.worker.test_merge import ROWS, assert_whole, hour, merging, three_batches
from tests.worker.test_sinks import plain
from tests.world import World, make_pipeline

PARQUET = format_of("parquet")
PLAIN = Encoding([], [])


def file_of(table: pa.Table, groups: int = 1, codec: str = "zstd", encoding: Encoding = PLAIN) -> bytes:
    stream = io.BytesIO()
    writer = PARQUET.open(stream, table.schema, encoding, codec)
    for at in range(groups):
        writer.write(table.slice(at * len(table) // groups, len(table) // groups))
    writer.close({"tidegate.rows": "[]"})
    return stream.getvalue()


@pytest.fixture
def table(rng: random.Random) -> pa.Table:
    return rows_of(COLUMNS, rng, 600)


def test_copied_and_written_row_groups_make_one_file(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "joined.parquet"
    first, second = file_of(table, 3, encoding=Encoding(["words", "flag"], ["number", "moment"])), file_of(table)
    with path.open("wb") as stream:
        writer = PARQUET.join(stream, table.schema, Encoding(["words"], ["number"]), "zstd")
        assert writer.takes(first)
        writer.write(table.slice(17, 100))
        assert writer.takes(second)
        assert (writer.size(), writer.held()) == (stream.tell(), 0)
        assert writer.close({"tidegate.checksum": "5"}) == 1_300
    wanted = pa.concat_tables([table, table.slice(17, 100), table])
    with path.open("rb") as stream:
        file = PARQUET.read(stream, path.name, None)
        assert (file.rows, file.labels, file.groups()) == (1_300, {"tidegate.checksum": "5"}, 5)
        assert plain(pa.Table.from_batches(file.batches(1_000))) == plain(wanted)
        parts = [file.group(g, ["words", "number"]) for g in range(5)]
        assert plain(pa.concat_tables(parts)) == plain(wanted.select(["words", "number"]))
        assert {"number", "moment"} <= file.spans(0).keys()
    metadata = pq.read_metadata(path)
    assert sum(metadata.row_group(g).total_byte_size for g in range(5)) > 0
    assert [metadata.row_group(g).num_rows for g in range(5)] == [200, 200, 200, 100, 600]
    connection = duckdb.connect()
    found = connection.sql(f"select words, number, list from read_parquet('{path}')").to_arrow_table()
    assert plain(found) == plain(wanted.select(["words", "number", "list"]))
    span = connection.sql(f"select min(number), max(number) from '{path}'").fetchall()
    assert span == [(-(2**31), 2**31 - 1)]


def test_what_is_written_before_anything_is_copied_stays(table: pa.Table) -> None:
    stream = io.BytesIO()
    writer = PARQUET.join(stream, table.schema, Encoding(["words"], ["number"]), "zstd")
    writer.write(table.slice(0, 50))
    writer.write(table.slice(50, 50))
    assert not writer.takes(file_of(table, codec="snappy"))
    assert writer.takes(file_of(table, 2))
    writer.write(table.slice(0, 5))
    assert writer.size() == stream.tell()
    assert writer.close({"tidegate.checksum": "5"}) == 705
    content = stream.getvalue()
    file = PARQUET.read(io.BytesIO(content), "x.parquet", None)
    wanted = pa.concat_tables([table.slice(0, 100), table, table.slice(0, 5)])
    assert plain(pa.Table.from_batches(file.batches(1_000))) == plain(wanted)
    assert (file.groups(), file.labels) == (5, {"tidegate.checksum": "5"})
    assert content.count(b"PAR1") == 2, "one footer"


def test_nothing_copied_is_a_file_of_pyarrows_own(table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking footers apart in Python is for row groups that are copied."""
    monkeypatch.setattr(parquet_join, "decode", None)
    stream = io.BytesIO()
    writer = PARQUET.join(stream, table.schema, PLAIN, "zstd")
    writer.write(table)
    assert writer.size() == stream.tell()
    assert writer.close({"tidegate.checksum": "5"}) == 600
    file = PARQUET.read(io.BytesIO(stream.getvalue()), "x.parquet", None)
    assert (file.rows, file.labels) == (600, {"tidegate.checksum": "5"})


def test_what_is_of_another_kind_is_not_taken(table: pa.Table) -> None:
    def taken(*contents: bytes) -> list[bool]:
        writer = PARQUET.join(io.BytesIO(), table.schema, PLAIN, "zstd")
        return [writer.takes(content) for content in contents]

    renamed = table.rename_columns([f"{n}_" for n in table.column_names])
    others = [file_of(table, codec="snappy"), file_of(renamed), file_of(table.select(["words"]))]
    assert taken(*others) == [False, False, False]
    assert taken(file_of(table), *others) == [True, False, False, False]


def test_files_with_columns_too_small_for_a_compressor_are_taken(table: pa.Table) -> None:
    """Most files of a worker have some."""
    small = Encoding(["words", "flag"], ["number"], ("words", "flag"))
    for codec, others in (("zstd", "snappy"), ("none", "zstd")):
        content = file_of(table, encoding=small, codec=codec)
        assert PARQUET.join(io.BytesIO(), table.schema, PLAIN, codec).takes(content)
        assert not PARQUET.join(io.BytesIO(), table.schema, PLAIN, others).takes(content)


def large(content: bytes) -> bool:
    return PARQUET.worth_taking(len(content), PARQUET.read(io.BytesIO(content), "x.parquet", None))


def test_only_large_row_groups_are_worth_it(monkeypatch: pytest.MonkeyPatch, table: pa.Table) -> None:
    assert not large(file_of(table))
    monkeypatch.setattr(parquet_join, "COPIED_ROWS", 600)
    assert large(file_of(table))
    assert not large(file_of(table, 2))
    assert not large(file_of(table.slice(0, 0), 0))
    monkeypatch.setattr(parquet_join, "COPIED_BYTES", 100)
    assert large(file_of(table, 2))


def test_a_footer_is_spelled_as_it_was(table: pa.Table) -> None:
    for codec in ("zstd", "none"):
        content = file_of(table, 20, codec, Encoding(["words"], ["number"]))
        spelled = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
        assert encode(decode(spelled)) == spelled
    with pytest.raises(ValueError, match="ends too early"):
        decode(spelled[:-5])
    with pytest.raises(ValueError, match="after a Thrift struct"):
        decode(spelled + b"x")
    for spoilt in (b"", b"PAR1", b"PAR1" + b"\xff" * 8 + b"PAR1", content[:-1]):
        with pytest.raises(ValueError, match="not a Parquet file"):
            footer_of(spoilt)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, merging(make_pipeline(f"file://{tmp_path}/lake/readings")))
    yield made
    made.close()


@pytest.mark.parametrize(("rows", "groups"), [(1, [1, 1, 2]), (2, [2, 2]), (50_000, [4])])
def test_a_merge_copies_what_is_large(
    world: World, monkeypatch: pytest.MonkeyPatch, rows: int, groups: list[int]
) -> None:
    """Files of site a have 1, 2 and 1 rows."""
    monkeypatch.setattr(parquet_join, "COPIED_ROWS", rows)
    three_batches(world)
    world.archive(0)
    assert_whole(world, files=2)
    merged = next(Path(hour(world).location.removeprefix("file://")).glob("site=a/m*.parquet"))
    metadata = pq.read_metadata(merged)
    assert sorted(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)) == groups
    assert world.by_window()["00"] == ROWS
