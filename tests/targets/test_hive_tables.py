"""Hive's definitions of a pipeline's tables, and the steps of a swap (R4)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import PIPELINE

from tidegate.core.base.renames import Seen
from tidegate.core.spec.pipeline import DIRTY_COLUMNS, Pipeline
from tidegate.targets.hive import swap_steps as swap
from tidegate.targets.hive.ports import TableDef
from tidegate.targets.hive.tables import data_table, dirty_table, late_table

TIME = (("date", "string"), ("hour", "string"))


def test_data_is_partitioned_by_time_and_then_by_columns_with_their_types() -> None:
    table = data_table(PIPELINE)
    assert (table.name, table.location, table.format) == ("lake.flights", "file:///lake/flights", "parquet")
    assert table.partitions == (*TIME, ("carrier", "string"), ("leg", "int"))
    assert table.columns == (("fare", "double"), ("_overflow", "map<string,string>"))


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


def test_tables_as_a_whole() -> None:
    assert data_table(replace(PIPELINE, description="what they fly")) == TableDef(
        name="lake.flights",
        columns=(("fare", "double"), ("_overflow", "map<string,string>")),
        partitions=(*TIME, ("carrier", "string"), ("leg", "int")),
        location="file:///lake/flights",
        comment="what they fly",
        properties=(("tidegate.pipeline", "flights"), ("tidegate.rows", "data")),
        format="parquet",
    )
    assert data_table(PIPELINE).comment == "Rows of topic flights, written by pipeline flights"
    assert late_table(PIPELINE) == TableDef(
        name="lake.flights__late",
        columns=(("carrier", "string"), ("leg", "int"), ("fare", "double")),
        partitions=(("_batch", "string"), *TIME),
        location="file:///lake/flights/_tidegate/late",
        comment="Rows of pipeline flights that came after their window had closed",
        properties=(("tidegate.pipeline", "flights"), ("tidegate.rows", "late")),
        format="parquet",
    )
    assert dirty_table(PIPELINE) == TableDef(
        name="lake.flights__dirty",
        columns=DIRTY_COLUMNS,
        partitions=(("_batch", "string"),),
        location="file:///lake/flights/_tidegate/dirty",
        comment="Records of pipeline flights that could not be decoded",
        properties=(("tidegate.pipeline", "flights"), ("tidegate.rows", "dirty")),
        format="parquet",
    )


def of_format(file_format: str) -> Pipeline:
    return replace(PIPELINE, sink=replace(PIPELINE.sink, format=file_format))


@pytest.mark.parametrize(("file_format", "kind"), [("parquet", "map<string,string>"), ("orc", "map<string,string>"),
                                                   ("text", "string")])  # fmt: skip
def test_what_overflowed_is_a_map_but_in_text_files(file_format: str, kind: str) -> None:
    made = of_format(file_format)
    assert {table(made).format for table in (data_table, late_table, dirty_table)} == {file_format}
    assert data_table(made).columns == (("fare", "double"), ("_overflow", kind))
    assert data_table(replace(made, partition_by=("date", "hour"))).columns[-1] == ("fare", "double")


@pytest.mark.parametrize("taken", [True, False, None])
def test_the_swap_whole(taken: bool | None) -> None:
    do, hour = swap.Do, swap.Hour
    assert {swap.decide(b, taken, hour.NEW) for b in Seen} == {do.DONE}
    assert {swap.decide(b, taken, hour.DAMAGED) for b in Seen} == {do.ALARM_DAMAGED}
    for there in (hour.ABSENT, hour.OTHER):
        assert swap.decide(Seen.ABSENT, taken, there) is do.ALARM_LOST
        assert swap.decide(Seen.DIFFERS, taken, there) is do.ALARM_INCOMPLETE
    assert swap.decide(Seen.MATCHES, taken, hour.ABSENT) is (do.RESERVE if taken is False else do.PLACE)
    assert swap.decide(Seen.MATCHES, taken, hour.OTHER) is (do.RETIRE if taken is False else do.ALARM_FOREIGN)
    assert [d.name for d in do if not d.is_alarm] == ["DONE", "RETIRE", "RESERVE", "PLACE"]
