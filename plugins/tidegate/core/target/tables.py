"""What every kind of table is told of a pipeline's tables: their columns, names and comments."""

from __future__ import annotations

from tidegate.core.files.overflow import OVERFLOW_COLUMN
from tidegate.core.files.receipt import DATA, DIRTY, LATE
from tidegate.core.spec.pipeline import DIRTY_COLUMNS, Pipeline, late_columns, table_columns


def columns_of(pipeline: Pipeline, kind: str) -> tuple[tuple[str, str], ...]:
    """(name, Hive type) of what files of that kind hold, in order; `kind`: data | late | dirty.

    Only files of an overflow partition have the last column of data."""
    own = _columns(pipeline, kind)
    return (*own, _overflow_column(pipeline)) if kind == DATA and pipeline.dynamic_partitions else own


def told_columns(pipeline: Pipeline, kind: str) -> tuple[tuple[str, str], ...] | None:
    """The columns that a reader of a file of that kind has to be told, where files do not say them themselves."""
    return _columns(pipeline, kind) if pipeline.sink.format == "text" else None


def table_name(pipeline: Pipeline, kind: str) -> str:
    """`<table>`, `<table>__late`, `<table>__dirty`."""
    return pipeline.sink.table if kind == DATA else f"{pipeline.sink.table}__{kind}"


def comment_of(pipeline: Pipeline, kind: str) -> str:
    """For people who look at the table."""
    if kind == DATA:
        return pipeline.description or f"Rows of topic {pipeline.source.topic}, written by pipeline {pipeline.name}"
    what = {
        LATE: f"Rows of pipeline {pipeline.name} that came after their window had closed",
        DIRTY: f"Records of pipeline {pipeline.name} that could not be decoded",
    }
    return what[kind]


def properties_of(pipeline: Pipeline, kind: str) -> tuple[tuple[str, str], ...]:
    """For programs: whose table it is, and what its rows are."""
    return (("tidegate.pipeline", pipeline.name), ("tidegate.rows", kind))


def _columns(pipeline: Pipeline, kind: str) -> tuple[tuple[str, str], ...]:
    return {DATA: table_columns(pipeline), LATE: late_columns(pipeline), DIRTY: DIRTY_COLUMNS}[kind]


def _overflow_column(pipeline: Pipeline) -> tuple[str, str]:
    """Text files hold it as JSON."""
    return (OVERFLOW_COLUMN[0], "string") if pipeline.sink.format == "text" else OVERFLOW_COLUMN
