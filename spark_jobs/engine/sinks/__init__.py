"""The files' formats, by the value of `sink.format`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.sinks.base import Encoding, FileFormat, Finished, Joiner, Unreadable, Writer
from spark_jobs.engine.sinks.orc import ORC
from spark_jobs.engine.sinks.parquet import Parquet
from spark_jobs.engine.sinks.stored import LABEL, Logical, Stored
from spark_jobs.engine.sinks.text import Text
from spark_jobs.engine.types import schema_of
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.spec.pipeline import Pipeline

Columns = Sequence[Sequence[str]]
"""(name, Hive type) of each."""
_FORMATS: dict[str, FileFormat] = {"parquet": Parquet(), "orc": ORC, "text": Text()}
_BY_NAME = {
    ".parquet": _FORMATS["parquet"],
    ".orc": _FORMATS["orc"],
    ".txt": _FORMATS["text"],
    ".txt.gz": _FORMATS["text"],
}


def format_of(name: str) -> FileFormat:
    """Raises JobError for a name that is no format."""
    if name not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise refuse(f"sink.format {name!r} does not exist", advice=f"set it to one of {known}", field="sink.format")
    return _FORMATS[name]


def format_at(
    pipeline: Pipeline, kind: str, window_ms: int | None, values: PartitionValues, batch_id: int = 0
) -> FileFormat:
    """The format of files of one place, as the pipeline's kind of table has them."""
    from tidegate.kinds import target_kind  # not in a process that only reads

    plain, stored = format_of(pipeline.sink.format), target_kind(pipeline.sink.kind).stored
    return plain if stored is None else Stored(plain, stored(), pipeline, kind, window_ms, values, batch_id)


def format_of_file(name: str) -> FileFormat:
    """Of a finished file, by its name or URI."""
    return next((f for end, f in _BY_NAME.items() if name.endswith(end)), _FORMATS["parquet"])


def finished(name: str, stream: BinaryIO, columns: Columns | None = None) -> Finished:
    """A file of that name or URI, to be read: its logical columns. `columns`: what it holds, for formats that do not
    say it."""
    schema = None if columns is None else schema_of(tuple((n, kind) for n, kind in columns))
    file = format_of_file(name).read(stream, name, schema)
    return Logical(file) if LABEL in file.labels else file


__all__ = [
    "Encoding",
    "FileFormat",
    "Finished",
    "Joiner",
    "Unreadable",
    "Writer",
    "finished",
    "format_at",
    "format_of",
    "format_of_file",
]
