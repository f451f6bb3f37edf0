"""The files' formats, by the value of `sink.format`."""

from __future__ import annotations

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.sinks.base import Encoding, FileFormat, Finished, Writer
from spark_jobs.engine.sinks.orc import ORC
from spark_jobs.engine.sinks.parquet import Parquet
from spark_jobs.engine.sinks.text import Text

_FORMATS: dict[str, FileFormat] = {"parquet": Parquet(), "orc": ORC, "text": Text()}


def format_of(name: str) -> FileFormat:
    """Raises JobError for a name that is no format."""
    if name not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise refuse(f"sink.format {name!r} does not exist", advice=f"set it to one of {known}", field="sink.format")
    return _FORMATS[name]


__all__ = ["Encoding", "FileFormat", "Finished", "Writer", "format_of"]
