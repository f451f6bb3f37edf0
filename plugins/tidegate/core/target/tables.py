"""The Hive tables of a pipeline, as definitions: data, and beside it late and dirty rows."""

from __future__ import annotations

from tidegate.core.files.overflow import OVERFLOW_COLUMN
from tidegate.core.files.receipt import DATA, DIRTY, LATE
from tidegate.core.spec.pipeline import DIRTY_COLUMNS, Pipeline, late_columns, table_columns
from tidegate.core.target.catalogue import TableDef
from tidegate.core.target.paths import Layout

BATCH_PARTITION = ("_batch", "string")
"""Text, although batch ids are numbers: every endpoint spells a string partition the same way."""


def data_table(pipeline: Pipeline) -> TableDef:
    """Partitioned by time, as text, then by the dynamic columns in types of their own."""
    dynamic = tuple((name, pipeline.column(name).type) for name in pipeline.dynamic_partitions)
    return TableDef(
        name=pipeline.sink.table,
        columns=table_columns(pipeline) + ((_overflow_column(pipeline),) if dynamic else ()),
        partitions=(*_time_partitions(pipeline), *dynamic),
        location=Layout.of(pipeline).location,
        format=pipeline.sink.format,
        comment=pipeline.description or f"Rows of topic {pipeline.source.topic}, written by pipeline {pipeline.name}",
        properties=_properties(pipeline, "data"),
    )


def late_table(pipeline: Pipeline) -> TableDef:
    """`<table>__late`, partitioned by batch and time; the dynamic partition columns are ordinary ones here."""
    return TableDef(
        name=side_name(pipeline, "late"),
        columns=late_columns(pipeline),
        partitions=(BATCH_PARTITION, *_time_partitions(pipeline)),
        location=Layout.of(pipeline).side_table("late"),
        format=pipeline.sink.format,
        comment=f"Rows of pipeline {pipeline.name} that came after their window had closed",
        properties=_properties(pipeline, "late"),
    )


def dirty_table(pipeline: Pipeline) -> TableDef:
    """`<table>__dirty`, partitioned by batch: what could not be decoded, why, and the raw bytes."""
    return TableDef(
        name=side_name(pipeline, "dirty"),
        columns=DIRTY_COLUMNS,
        partitions=(BATCH_PARTITION,),
        location=Layout.of(pipeline).side_table("dirty"),
        format=pipeline.sink.format,
        comment=f"Records of pipeline {pipeline.name} that could not be decoded",
        properties=_properties(pipeline, "dirty"),
    )


def _overflow_column(pipeline: Pipeline) -> tuple[str, str]:
    """Text files hold it as JSON."""
    return (OVERFLOW_COLUMN[0], "string") if pipeline.sink.format == "text" else OVERFLOW_COLUMN


def told_columns(pipeline: Pipeline, kind: str) -> tuple[tuple[str, str], ...] | None:
    """What somebody who reads a file of that kind has to be told: the columns, where files do not say it themselves."""
    if pipeline.sink.format != "text":
        return None
    return {DATA: table_columns(pipeline), LATE: late_columns(pipeline), DIRTY: DIRTY_COLUMNS}[kind]


def side_name(pipeline: Pipeline, kind: str) -> str:
    """`kind`: late | dirty."""
    return f"{pipeline.sink.table}__{kind}"


def _time_partitions(pipeline: Pipeline) -> tuple[tuple[str, str], ...]:
    return tuple((name, "string") for name in pipeline.time_partitions)


def _properties(pipeline: Pipeline, kind: str) -> tuple[tuple[str, str], ...]:
    return (("tidegate.pipeline", pipeline.name), ("tidegate.rows", kind))
