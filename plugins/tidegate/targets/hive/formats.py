"""What Hive has to be told of the files' format, and how it tells it back."""

from __future__ import annotations

import re
from collections.abc import Mapping

FORMATS = {"parquet": "parquet", "orc": "orc", "text": "textfile"}
SERDES = {"parquet": "ParquetHiveSerDe", "orc": "OrcSerde", "text": "LazySimpleSerDe"}
INPUTS = {"parquet": "ParquetInputFormat", "orc": "OrcInputFormat", "text": "TextInputFormat"}
_LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
TEXT = (
    ("field.delim", "\x01"),
    ("escape.delim", "\\"),
    ("serialization.escape.crlf", "true"),
    ("serialization.null.format", "\\N"),
)
"""What `spark_jobs.engine.sinks.text` writes."""
_SPARK_ENTRY = re.compile(r"(?:^\[|, )([\w.]+)=((?:(?!, [\w.]+=).)*)", re.DOTALL)


def row_format(file_format: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """SerDe and its properties, which CREATE TABLE has to spell out; empty where STORED AS says it all."""
    return (_LAZY, TEXT) if file_format == "text" else ("", ())


def read_properties(label: str, text: str, more: str) -> dict[str, str]:
    """Of one row of DESCRIBE FORMATTED: the SerDe's properties that it tells."""
    if label == "storage properties":  # Spark: all in one row, as they are
        return dict(_SPARK_ENTRY.findall(text.removesuffix("]")))
    if not label and text in dict(TEXT):  # Hive: a row for each, escaped as in Java
        return {text: _from_java(more)}
    return {}


def finds_by_name(serde: str) -> bool:
    """Whether readers find a file's columns by name. Hive finds ORC's by position, and text has no names."""
    return SERDES["parquet"] in serde


def differences(file_format: str, properties: Mapping[str, str]) -> list[str]:
    """In words: what the table would read otherwise than the files are written."""
    _, wanted = row_format(file_format)
    return [
        f"its {name} is {properties.get(name)!r}, not {value!r}"
        for name, value in wanted
        if properties.get(name) != value
    ]


def _from_java(text: str) -> str:
    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else m[1], text)
