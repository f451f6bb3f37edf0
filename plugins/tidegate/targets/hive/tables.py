"""The Hive tables of a pipeline, as definitions: data, and beside it late and dirty rows."""

from __future__ import annotations

from tidegate.core.files.receipt import DATA, DIRTY, LATE
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import Layout
from tidegate.core.target.port import BATCH
from tidegate.core.target.tables import columns_of, comment_of, properties_of, table_name
from tidegate.targets.hive.ports import TableDef

BATCH_PARTITION = (BATCH, "string")
"""Text, although batch ids are numbers: every endpoint spells a string partition the same way."""


def data_table(pipeline: Pipeline) -> TableDef:
    """Partitioned by time, as text, then by the dynamic columns in types of their own."""
    dynamic = tuple((name, pipeline.column(name).type) for name in pipeline.dynamic_partitions)
    return _table(pipeline, DATA, Layout.of(pipeline).location, (*_time_partitions(pipeline), *dynamic))


def late_table(pipeline: Pipeline) -> TableDef:
    """`<table>__late`, partitioned by batch and time; the dynamic partition columns are ordinary ones here."""
    return _side_table(pipeline, LATE, (BATCH_PARTITION, *_time_partitions(pipeline)))


def dirty_table(pipeline: Pipeline) -> TableDef:
    """`<table>__dirty`, partitioned by batch: what could not be decoded, why, and the raw bytes."""
    return _side_table(pipeline, DIRTY, (BATCH_PARTITION,))


def _side_table(pipeline: Pipeline, kind: str, partitions: tuple[tuple[str, str], ...]) -> TableDef:
    return _table(pipeline, kind, Layout.of(pipeline).side_table(kind), partitions)


def _table(pipeline: Pipeline, kind: str, location: str, partitions: tuple[tuple[str, str], ...]) -> TableDef:
    return TableDef(
        name=table_name(pipeline, kind),
        columns=columns_of(pipeline, kind),
        partitions=partitions,
        location=location,
        format=pipeline.sink.format,
        comment=comment_of(pipeline, kind),
        properties=properties_of(pipeline, kind),
    )


def _time_partitions(pipeline: Pipeline) -> tuple[tuple[str, str], ...]:
    return tuple((name, "string") for name in pipeline.time_partitions)
