"""Files in Iceberg's stored form: logical rows come back as they were, and Iceberg finds what it needs."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.engine.encodings import choose_encoding
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.identity import file_checksum
from spark_jobs.engine.sinks import finished, format_at, format_of
from spark_jobs.engine.types import data_schema, hive_type, late_schema, schema_of
from tests.targets.iceberg.stored_files import ids_in, install, pinned
from tests.world import T0, make_pipeline
from tidegate.core.base.hivetypes import parse
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.files.overflow import OVERFLOW_COLUMN, OVERFLOW_VALUE
from tidegate.core.spec.pipeline import DIRTY_COLUMNS, Column, Pipeline

TYPES = {
    "tiny": ("tinyint", [-128, None]),
    "small": ("smallint", [32_767, None]),
    "whole": ("int", [1, None]),
    "big": ("bigint", [2**62, None]),
    "yes": ("boolean", [True, None]),
    "single": ("float", [0.5, None]),
    "precise": ("double", [0.1, None]),
    "words": ("string", ["é", None]),
    "bits": ("binary", [b"\xff\x00", None]),
    "day": ("date", [datetime.date(1500, 1, 1), None]),
    "at": ("timestamp", [datetime.datetime(2013, 1, 5, 0, 0, 0, 7, datetime.UTC), None]),
    "price": ("decimal(9,2)", [Decimal("-1234567.89"), None]),
    "tags": ("array<tinyint>", [[1, None], None]),
    "sizes": ("map<string,smallint>", [[("a", 1), ("b", None)], None]),
    "deep": (
        "array<struct<name:string,parts:map<tinyint,array<struct<n:smallint>>>>>",
        [[{"name": "x", "parts": [(1, [{"n": 2}, None])]}, None], None],
    ),
}
VALUES = (("site", "a"), ("floor", "-3"))


@pytest.fixture(autouse=True)
def _ice(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def wide(first: int = 1) -> Pipeline:
    made = make_pipeline("file:///lake/readings")
    columns = (
        *(Column(name=n, type=kind, path=f"$.{n}") for n, (kind, _) in TYPES.items()),
        Column(name="site", type="string", path="$.site"),
        Column(name="floor", type="tinyint", path="$.floor"),
    )
    return pinned(replace(made, columns=columns, partition_by=("date", "hour", "site", "floor")), first)


def rows_of(schema: pa.Schema, count: int = 2) -> pa.Table:
    kafka = {"_topic": "t", "_partition": 1, "_offset": 5, "_kafka_ts": T0 * 1000, "_batch_id": 3}
    rows = [
        {name: values[i % 2] for name, (_, values) in TYPES.items()}
        | {"site": "a", "floor": -3}
        | kafka
        | {"_offset": 5 + i}
        for i in range(count)
    ]
    return pa.Table.from_pylist([{n: row[n] for n in schema.names if n in row} for row in rows], schema)


def written(pipeline: Pipeline, kind: str, rows: pa.Table, values: PartitionValues = VALUES, window: int = T0) -> bytes:
    stream = io.BytesIO()
    at = format_at(pipeline, kind, None if kind == "dirty" else window, values if kind == "data" else (), 9)
    writer = at.open(stream, rows.schema, choose_encoding(rows), "zstd")
    writer.write(rows)
    assert writer.close({"tidegate.kind": kind}) == len(rows)
    return stream.getvalue()


def read(content: bytes) -> pa.Table:
    return pa.Table.from_batches(finished("x.parquet", io.BytesIO(content)).batches(100))


def test_hives_files_are_what_they_were() -> None:
    assert format_at(make_pipeline("file:///x"), "data", T0, ()) is format_of("parquet")


def test_rows_of_every_type_come_back_and_every_field_has_its_id(tmp_path: Path) -> None:
    spec = wide()
    rows = rows_of(data_schema(spec))
    content = written(spec, "data", rows)
    back = read(content)
    assert back.schema.equals(rows.schema)
    assert back.to_pylist() == rows.to_pylist()
    assert file_checksum(back, "data", VALUES) == file_checksum(rows, "data", VALUES)

    stored = pq.read_schema(io.BytesIO(content))
    ids = {path: n for kind, path, n in spec.sink.fields if kind == "data"}
    ids = {path: n for path, n in ids.items() if not path.startswith("_overflow")}
    assert ids_in(stored) == ids
    assert {"deep.element.parts.value.element.n", "sizes.key", "_kafka_partition", "_window", "floor"} <= ids.keys()
    assert not stored.field("_window").nullable
    assert stored.field("words").nullable
    first = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    assert (first.path_in_schema, first.statistics.has_min_max) == ("_window", True), "readers skip files by it"
    assert "(Timestamp(isAdjustedToUTC=true, timeUnit=microseconds" in str(pq.ParquetFile(io.BytesIO(content)).schema)

    (tmp_path / "x.parquet").write_bytes(content)
    asked = "SELECT epoch_ms(_window), site, floor, tiny, _kafka_partition, deep[1].parts FROM '{}'"
    found = duckdb.sql(asked.format(tmp_path / "x.parquet")).fetchall()
    assert found[0] == (T0, "a", -3, -128, 1, {1: [{"n": 2}, None]})
    assert found[1][:5] == (T0, "a", -3, None, 1)


@pytest.mark.parametrize("kind", ["late", "dirty"])
def test_files_beside_the_table_carry_their_batch(kind: str) -> None:
    spec = wide()
    rows = rows_of(late_schema(spec) if kind == "late" else schema_of(DIRTY_COLUMNS))
    content = written(spec, kind, rows)
    stored = pq.read_table(io.BytesIO(content))
    assert stored["_batch"].to_pylist() == [9, 9]
    assert ids_in(stored.schema) == {path: n for of, path, n in spec.sink.fields if of == kind}
    assert read(content).equals(rows)
    if kind == "late":
        assert stored["_window"].cast(pa.int64()).to_pylist() == [T0 * 1000] * 2
        assert stored.schema.field("floor").type == pa.int32()


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ((("site", None), ("floor", "7")), (None, 7)),
        ((("site", OVERFLOW_VALUE), ("floor", None)), (OVERFLOW_VALUE, None)),
    ],
)
def test_null_and_overflow_partitions(values: PartitionValues, stored: tuple[object, ...]) -> None:
    spec = wide()
    rows = rows_of(data_schema(spec))
    original = schema_of((OVERFLOW_COLUMN,)).field(0)
    rows = rows.append_column(original, pa.array([[("site", "b")], None], original.type))
    content = written(spec, "data", rows, values)
    table = pq.read_table(io.BytesIO(content))
    assert list(zip(table["site"].to_pylist(), table["floor"].to_pylist(), strict=True)) == [stored] * 2
    back = read(content)
    assert back.equals(rows)
    assert file_checksum(back, "data", values) == file_checksum(rows, "data", values)


def test_no_file_is_written_without_ids() -> None:
    spec = wide()
    without = tuple(f for f in spec.sink.fields if f[1] != "deep.element.name")
    broken = replace(spec, sink=replace(spec.sink, fields=without))
    with pytest.raises(JobError, match=r"no field id for deep\.element\.name of the data table") as refused:
        written(broken, "data", rows_of(data_schema(spec)))
    assert refused.value.failure.retry


def test_parts_of_a_file_are_found_by_their_logical_names() -> None:
    spec = wide()
    file = finished("x.parquet", io.BytesIO(written(spec, "data", rows_of(data_schema(spec)))))
    assert file.spans(0)["_partition"] == (1, 1)
    assert file.spans(0)["_offset"] == (5, 6)
    assert not {"_window", "_kafka_partition", "site"} & file.spans(0).keys()
    assert file.group(0, ["_partition", "_offset"]).to_pylist() == [
        {"_partition": 1, "_offset": 5},
        {"_partition": 1, "_offset": 6},
    ]
    (batch,) = file.batches(10, ["tiny", "_partition"])
    assert batch.schema.equals(pa.schema([("tiny", pa.int8()), ("_partition", pa.int32())]))


def test_every_type_has_a_way_back() -> None:
    for kind, _ in TYPES.values():
        assert str(hive_type(schema_of((("c", kind),)).field(0).type)) == str(parse(kind))
    with pytest.raises(ValueError, match="uint8"):
        hive_type(pa.uint8())


@pytest.mark.parametrize(
    ("other", "taken"),
    [
        (lambda spec, rows: written(spec, "data", rows), True),
        (lambda spec, rows: written(wide(100), "data", rows), False),
        (lambda spec, rows: written(spec, "data", rows, window=T0 + 1), False),
        (lambda spec, rows: written(spec, "data", rows, (("site", "b"), ("floor", "-3"))), False),
        (lambda spec, rows: written(spec, "data", rows.drop_columns(["tiny"])), False),
        (lambda spec, rows: written(replace(spec, sink=replace(spec.sink, kind="hive")), "data", rows), False),
    ],
    ids=["alike", "other ids", "another window", "another value", "fewer columns", "no stored form"],
)
@pytest.mark.parametrize("begun", [False, True], ids=["first", "after rows"])
def test_row_groups_are_taken_from_files_of_the_same_ids_and_place_alone(
    other: Callable[[Pipeline, pa.Table], bytes], taken: bool, begun: bool
) -> None:
    spec = wide()
    rows = rows_of(data_schema(spec), 300)
    stream = io.BytesIO()
    joiner = format_at(spec, "data", T0, VALUES).join(stream, rows.schema, choose_encoding(rows), "zstd")
    if begun:
        joiner.write(rows)
    assert joiner.takes(other(spec, rows)) is taken
    joiner.write(rows)
    joiner.close({"tidegate.kind": "data"})
    assert read(stream.getvalue()).equals(pa.concat_tables([rows] * (1 + begun + taken)).combine_chunks())
    schema = pq.read_schema(io.BytesIO(stream.getvalue()))
    assert ids_in(schema) == ids_in(pq.read_schema(io.BytesIO(written(spec, "data", rows))))


def test_ids_and_narrow_types_are_compared_where_names_are_alike() -> None:
    """A tinyint and a smallint are both 32 bits in the file; rows of one are not rows of the other."""
    spec = wide()
    rows = rows_of(data_schema(spec))
    joiner = format_at(spec, "data", T0, VALUES).join(io.BytesIO(), rows.schema, choose_encoding(rows), "zstd")
    at = rows.schema.get_field_index("small")
    other = rows.set_column(at, "small", pa.array([1, None], pa.int8()))
    assert joiner.takes(written(spec, "data", other)) is False
