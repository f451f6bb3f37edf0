"""The tables of a pipeline."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.pipeline import (
    ArchiveRun,
    Column,
    EventTime,
    Format,
    IngestRun,
    Pipeline,
    Sink,
    Source,
    Windows,
)
from tidegate.core.tables import data_table, dirty_table, late_table

PIPELINE = Pipeline(
    name="flights",
    owner="data",
    tags=(),
    source=Source("kafka_default", "flights"),
    format=Format(),
    columns=(Column("carrier", "string", "$.carrier"), Column("leg", "int", "$.leg"), Column("fare", "double", "$.f")),
    event_time=EventTime("$.at"),
    windows=Windows(3_600_000, "UTC", 0, 0),
    partition_by=("date", "hour", "carrier", "leg"),
    sink=Sink("hive", "lake.flights", "file:///lake/flights", "file:///lake/flights/_tidegate"),
    ingest=IngestRun(None, 1, "spark", {}),
    archive=ArchiveRun(0),
    kafka_columns=False,
)
TIME = (("date", "string"), ("hour", "string"))


def test_data_is_partitioned_by_time_and_then_by_columns_with_their_types() -> None:
    table = data_table(PIPELINE)
    assert (table.name, table.location, table.format) == ("lake.flights", "file:///lake/flights", "parquet")
    assert table.partitions == (*TIME, ("carrier", "string"), ("leg", "int"))
    assert table.columns == (("fare", "double"),)


def test_late_keeps_the_dynamic_columns_in_its_files() -> None:
    table = late_table(PIPELINE)
    assert (table.name, table.location) == ("lake.flights__late", "file:///lake/flights/_tidegate/late")
    assert table.partitions == (("_batch", "string"), *TIME)
    assert table.columns == (("carrier", "string"), ("leg", "int"), ("fare", "double"))


def test_dirty_is_partitioned_by_batch_only() -> None:
    table = dirty_table(PIPELINE)
    assert (table.name, table.location) == ("lake.flights__dirty", "file:///lake/flights/_tidegate/dirty")
    assert table.partitions == (("_batch", "string"),)
    assert dict(table.columns)["raw_value"] == "binary"


def test_side_tables_do_not_depend_on_how_data_is_partitioned() -> None:
    other = replace(PIPELINE, partition_by=("date", "hour"))
    assert late_table(other).partitions == late_table(PIPELINE).partitions
    assert data_table(other).partitions == TIME
