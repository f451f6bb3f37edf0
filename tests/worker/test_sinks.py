"""Files of each format and codec: values at the edges come back as they were, from our readers and from DuckDB."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from spark_jobs.engine.failures import JobError
from spark_jobs.engine.identity import checksum
from spark_jobs.engine.sinks import Encoding, finished, format_of
from spark_jobs.engine.sinks.orc_tail import with_labels
from spark_jobs.engine.types import schema_of
from tests.file_values import COLUMNS, FLAT, LONE_ESCAPES, NUMBERS, duckdb_text, rows_of

LABELS = {"tidegate.rows": "[]", "tidegate.kind": "data", "ü": "x" * 70_000}
ALL = [(f, c) for f in ("parquet", "orc") for c in ("zstd", "snappy", "gzip", "none")] + [
    ("text", "gzip"),
    ("text", "none"),
]


def columns_of(name: str) -> tuple[tuple[str, str], ...]:
    return FLAT if name == "text" else COLUMNS


def written(name: str, codec: str, *tables: pa.Table) -> tuple[io.BytesIO, int | None]:
    stream, encoding = io.BytesIO(), Encoding(["flag"], ["number"])
    writer = format_of(name).open(stream, tables[0].schema, encoding, codec)
    for table in tables:
        writer.write(table)
    told = writer.close(LABELS)
    stream.seek(0)
    return stream, told


def opened(name: str, codec: str, stream: io.BytesIO) -> Any:
    return finished(f"file:///x/part-1{format_of(name).extension(codec)}", stream, columns_of(name))


def plain(table: pa.Table) -> list[tuple]:
    """Values that can be compared: NaN equals itself, times are microseconds."""
    columns = [
        table[n].cast(pa.int64()).to_pylist() if pa.types.is_timestamp(table[n].type) else table[n].to_pylist()
        for n in table.column_names
    ]
    return [tuple(map(repr, row)) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize(("name", "codec"), ALL)
def test_values_come_back_as_they_were(name: str, codec: str, rng: random.Random) -> None:
    table = rows_of(columns_of(name), rng, 3_000, far=name != "orc")
    stream, told = written(name, codec, table, table.slice(7, 100), table.slice(0, 0))
    wanted = pa.concat_tables([table, table.slice(7, 100)])
    file = opened(name, codec, stream)
    got = pa.Table.from_batches(file.batches(500), file.schema)
    assert plain(got) == plain(wanted)
    assert got.schema == table.schema
    some = ["number", "words"]
    assert plain(pa.concat_tables([file.group(g, some) for g in range(file.groups())])) == plain(wanted.select(some))
    assert checksum(got, {}) == checksum(wanted, {})
    if name == "text":
        assert (told, file.rows, file.labels) == (None, None, {})
    else:
        assert (told, file.rows, dict(file.labels)) == (3_100, 3_100, LABELS)


def test_parquet_and_text_by_duckdb(tmp_path: Path, rng: random.Random) -> None:
    """ORC it cannot read."""
    table = rows_of(FLAT, rng, 2_000, without=LONE_ESCAPES)
    connection = duckdb.connect()
    connection.execute("set TimeZone='UTC'")
    for name, codec in (("parquet", "zstd"), ("parquet", "gzip"), ("text", "gzip"), ("text", "none")):
        path = tmp_path / f"part{format_of(name).extension(codec)}"
        path.write_bytes(written(name, codec, table)[0].getvalue())
        found = duckdb_text(path) if name == "text" else f"select * from read_parquet('{path}')"
        got = connection.sql(found).to_arrow_table()
        assert plain(got.cast(table.schema)) == plain(table), (name, codec)


def test_text_is_what_the_serde_reads(rng: random.Random) -> None:
    table = pa.table({"words": ["a\\b\x01c\nd\re", None, "", "\\N", "\ufeff"], "n": pa.array([1, 2, None, 4, 5])})
    stream, _ = written("text", "none", table)
    assert stream.getvalue() == (
        b"a\\\\b\\\x01c\\nd\\re\x011\n" + b"\\N\x012\n" + b"\x01\\N\n" + b"\\\\N\x014\n" + b"\xef\xbb\xbf\x015\n"
    )
    stream, _ = written("text", "none", table.slice(4))
    assert stream.getvalue() == b"\\\xef\xbb\xbf\x015\n", "Hadoop drops a byte order mark at the start of a file"


def test_numbers_in_text_are_spelled_for_java() -> None:
    table = pa.table({"f": pa.array([float("nan"), float("inf"), -float("inf"), 1e300, None, -0.0])})
    assert written("text", "none", table)[0].getvalue().split() == [
        b"NaN", b"Infinity", b"-Infinity", b"1e+300", b"\\N", b"-0",
    ]  # fmt: skip
    table = pa.table({"d": pa.array([Decimal("1E-10"), Decimal("0"), None], pa.decimal128(38, 10))})
    assert written("text", "none", table)[0].getvalue().split() == [b"0.0000000001", b"0.0000000000", b"\\N"]


def test_lines_are_found_again_wherever_blocks_end(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    table = rows_of(FLAT, rng, 300)
    for codec in ("gzip", "none"):
        stream, _ = written("text", codec, table)
        for size in (1, 7, 64, 1_000):
            monkeypatch.setattr("spark_jobs.engine.sinks.text.BLOCK_BYTES", size)
            got = opened("text", codec, stream)
            assert plain(pa.Table.from_batches(got.batches(100), got.schema)) == plain(table)


def spoilt() -> Iterator[Any]:
    table = pa.table({"number": pa.array([1, 2], pa.int64())})
    for codec in ("gzip", "none"):
        content = written("text", codec, table)[0].getvalue()
        yield pytest.param(codec, content[:-1], "ends too early|not ended", id=f"{codec}, cut off")
    packed = written("text", "gzip", table)[0].getvalue()
    yield pytest.param("gzip", packed + b"more", "after the end", id="gzip, more")
    yield pytest.param("gzip", packed[:12] + b"\xff\xff" + packed[14:], "spoilt", id="gzip, spoilt")
    yield pytest.param("none", b"1\n2\x013\n", "not the columns number", id="another number of columns")
    yield pytest.param("none", b"1\nx\n", "not the columns number", id="no number")


@pytest.mark.parametrize(("codec", "content", "said"), list(spoilt()))
def test_spoilt_text_is_told(codec: str, content: bytes, said: str) -> None:
    name = f"x{format_of('text').extension(codec)}"
    with pytest.raises(ValueError, match=said):
        list(finished(name, io.BytesIO(content), (("number", "bigint"),)).batches(10))


def test_what_text_cannot_hold_is_refused() -> None:
    with pytest.raises(JobError, match="text has no way to write list"):
        written("text", "none", pa.table({"a": [[1]]}))
    for codec in ("zstd", "snappy"):
        with pytest.raises(JobError, match=f"cannot be compressed with {codec}") as refused:
            format_of("text").extension(codec)
        assert "set sink.compression to one of gzip, none" in refused.value.failure.advice


def test_rows_of_an_overflow_partition_keep_what_they_said() -> None:
    schema = pa.schema([("words", pa.string()), ("_overflow", pa.map_(pa.string(), pa.string()))])
    rows = [
        {"words": "\\\x01\\", "_overflow": [("site", 'x\n"\x01'), ("app", None)]},
        {"words": None, "_overflow": None},
    ]
    table = pa.Table.from_pylist(rows, schema)
    for codec in ("gzip", "none"):
        stream, _ = written("text", codec, table)
        file = finished(f"x{format_of('text').extension(codec)}", stream, (("words", "string"),))
        assert pa.Table.from_batches(file.batches(10), file.schema).equals(table)


# ---------------------------------------------------------------- ORC


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "none"])
def test_an_orc_footer_tells_labels_and_calendar(codec: str) -> None:
    table = pa.table({"n": pa.array(range(50_000), pa.int64())})
    stream, told = written("orc", codec, table)
    assert told == 50_000
    file = po.ORCFile(stream)
    assert {k.decode(): v.decode() for k, v in file.metadata.items()} == LABELS
    assert file.read()["n"].to_pylist() == list(range(50_000))
    assert b"\x58\x02\x2a" in stream.getvalue(), "calendar (field 11): 2, then the first label (field 5)"
    assert file.compression == {"gzip": "ZLIB", "none": "UNCOMPRESSED"}.get(codec, codec.upper())


@pytest.mark.parametrize("end", [b"", b"x", b"PAR1", bytes(300), b"\x08\xff\x01\x82\xf4\x03\x03ORC\x0a"])
def test_what_is_no_end_of_an_orc_file(end: bytes) -> None:
    with pytest.raises(ValueError, match="not the end of an ORC file"):
        with_labels(end, {})


def test_times_that_orc_cannot_keep_are_found() -> None:
    columns = (("t", "timestamp"), ("m", "map<string,timestamp>"), ("s", "struct<x:array<timestamp>,y:int>"))
    fine = {"t": -1_000_000, "m": [("k", 0)], "s": {"x": [5, None, -2_000_000], "y": -1}}
    rows = [
        fine, {**fine, "t": -1}, {**fine, "m": [("a", 0), ("b", -1)]}, {**fine, "s": {"x": [1, -7], "y": 1}},
        {"t": None, "m": None, "s": None}, {**fine, "t": 1},
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=schema_of(columns))
    orc = format_of("orc")
    reason = "ORC cannot keep a time before 1970 that has a fraction of a second"
    assert orc.unfit(table) == {1: ("t", reason), 2: ("m", reason), 3: ("s", reason)}
    assert orc.unfit(table.slice(2, 2)) == {0: ("m", reason), 1: ("s", reason)}
    with pytest.raises(JobError, match="before 1970"):
        written("orc", "zstd", table)
    assert format_of("parquet").unfit(table) == {}
    assert [orc.stamp(ms) for ms in (-1, -1000, 0, 5)] == [None, -1000, 0, 5]


def test_orc_says_what_it_keeps_in_memory(rng: random.Random) -> None:
    table = rows_of(NUMBERS, rng, 50_000)
    writer = format_of("orc").open(io.BytesIO(), table.schema, Encoding([], []), "zstd")
    seen = [(writer.held(), writer.size())]
    for _ in range(30):
        writer.write(table)
        seen.append((writer.held(), writer.size()))
    assert seen[0] == (0, 0)
    assert seen[1][0] >= table.nbytes
    assert max(held for held, _ in seen) < 64 * 1024 * 1024
    assert [size for _, size in seen] == sorted(size for _, size in seen)
    assert writer.close({}) == 30 * 50_000


def test_parquet_is_written_at_once(rng: random.Random) -> None:
    stream = io.BytesIO()
    table = rows_of(NUMBERS, rng, 1_000)
    writer = format_of("parquet").open(stream, table.schema, Encoding([], []), "zstd")
    writer.write(table)
    assert (writer.held(), writer.size()) == (0, stream.tell())
    writer.close({})
    metadata = pq.read_metadata(stream)
    assert metadata.num_rows == 1_000
    assert metadata.metadata == {b"org.apache.spark.version": b"3.5.0", b"writer.date.proleptic": b"true"}


def test_the_query_of_the_page_reads_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (("name", "string"), ("raw", "binary"), ("moment", "timestamp"), ("number", "bigint"))
    rows = [{"name": "a\n\\n\r\\", "raw": b"\x00", "moment": 1, "number": 5}, dict.fromkeys(dict(columns))]
    table = pa.Table.from_pylist(rows, schema_of(columns))
    path = tmp_path / "date=2013-01-05/hour=00/part.txt.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(written("text", "gzip", table)[0].getvalue())
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/types.md").read_text()
    (query,) = re.findall(r"```sql\n(SELECT array_to_string.*?)```", page, re.DOTALL)
    connection = duckdb.connect()
    connection.execute("set TimeZone='UTC'")
    assert plain(connection.sql(query).to_arrow_table().cast(table.schema)) == plain(table)


def test_rows_that_wait_for_orc_hold_no_more_memory_than_they_are() -> None:
    """A slice would keep the whole table that it was cut from."""
    schema = pa.schema([("text", pa.string()), ("number", pa.int64())])
    before = pa.total_allocated_bytes()
    writer = format_of("orc").open(io.BytesIO(), schema, Encoding([], []), "zstd")
    rows = pa.table({"text": pa.array(["x" * 100] * 100_000), "number": pa.array(range(100_000))}, schema)
    writer.write(rows.slice(50_000, 10))
    del rows
    assert 0 < writer.held() <= 2_000
    assert pa.total_allocated_bytes() - before < 100_000
