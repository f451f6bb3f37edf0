"""Compression and dictionaries are chosen by what a file holds, not by the rows that came first."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.engine.encodings import SAMPLE_ROWS, choose_encoding, fitting, sample_of
from spark_jobs.engine.sinks import Encoding, format_of


def words(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([f"{rng.randrange(2**40):x} and more of it, {i}" for i in range(rows)])


def table(**columns: pa.Array) -> pa.Table:
    return pa.table({"id": pa.array(range(len(next(iter(columns.values()))))), **columns})


def codecs(rows: pa.Table, encoding: Encoding) -> dict[str, str]:
    stream = io.BytesIO()
    writer = format_of("parquet").open(stream, rows.schema, encoding, "zstd")
    writer.write(rows)
    writer.close({})
    group = pq.read_metadata(stream).row_group(0)
    return {group.column(i).path_in_schema: group.column(i).compression for i in range(group.num_columns)}


def test_a_column_that_is_null_in_the_largest_directory_is_compressed_where_it_has_values(rng: random.Random) -> None:
    largest = table(note=pa.nulls(50_000, pa.string()), kind=pa.array(["a"] * 50_000))
    other = table(note=words(rng, 30_000), kind=pa.array(["b"] * 30_000))
    encoding = choose_encoding(sample_of(pa.concat_tables([largest, other])))
    assert codecs(other, fitting(encoding, other)) == {"id": "ZSTD", "note": "ZSTD", "kind": "UNCOMPRESSED"}


def test_a_directory_so_small_that_the_sample_misses_it_is_looked_at_when_its_file_begins(rng: random.Random) -> None:
    largest, other = table(note=pa.nulls(500_000, pa.string())), table(note=words(rng, 4_000))
    encoding = choose_encoding(sample_of(pa.concat_tables([largest, other])))
    assert encoding.small == ("note",)
    assert codecs(other, fitting(encoding, other))["note"] == "ZSTD"
    assert codecs(largest, fitting(encoding, largest))["note"] == "UNCOMPRESSED"


def test_a_column_of_few_values_stays_without_a_compressor(rng: random.Random) -> None:
    rows = table(kind=pa.array([rng.choice(["north", "south"]) for _ in range(20_000)]))
    encoding = choose_encoding(sample_of(rows))
    assert fitting(encoding, rows) is encoding
    assert encoding.small == ("kind",)


def test_a_sample_is_of_all_of_the_rows() -> None:
    rows = table(at=pa.array(range(100_000)))
    sample = sample_of(rows)["at"]
    assert len(sample) == SAMPLE_ROWS
    assert sample[0].as_py() == 0
    assert sample[-1].as_py() > 93_000
    assert sample_of(rows.slice(0, 10)) is not None
    assert len(sample_of(rows.slice(0, 10))) == 10
