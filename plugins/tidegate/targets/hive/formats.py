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
_ENCODING = "serialization.encoding"  # UTF-8 if it is not said
SAFE_PROPERTIES = (("external.table.purge", "false"), ("discover.partitions", "false"))
"""A dropped partition must leave its files alone, and nobody but us may add one."""
_HARM = {
    "external.table.purge": "dropping a partition would delete files",
    "discover.partitions": "Hive would add partitions that no manifest names",
    "parquet.column.index.access": "Hive would find a file's columns by their place, not by their names",
    "skip.header.line.count": "Hive would leave out the first lines of each file",
    "skip.footer.line.count": "Hive would leave out the last lines of each file",
}
_SPARK_ENTRY = re.compile(r"(?:^\[|, )([\w.]+)=((?:(?!, [\w.]+=).)*)", re.DOTALL)


def row_format(file_format: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """SerDe and its properties, which CREATE TABLE has to spell out; empty where STORED AS says it all."""
    return (_LAZY, TEXT) if file_format == "text" else ("", ())


def read_properties(label: str, text: str, more: str) -> dict[str, str]:
    """Of one row of DESCRIBE FORMATTED: the SerDe's properties that it tells."""
    if label == "storage properties":  # Spark: all in one row, as they are
        return dict(_SPARK_ENTRY.findall(text.removesuffix("]")))
    if not label and (text in dict(TEXT) or text == _ENCODING):  # Hive: a row for each, escaped as in Java
        return {text: _from_java(more)}
    return {}


def read_settings(label: str, text: str, more: str) -> dict[str, str]:
    """Of one row of DESCRIBE FORMATTED: the table's properties that can do harm."""
    told = {text: more} if not label else {}
    if label == "table properties":  # Spark
        told = dict(_SPARK_ENTRY.findall(text.removesuffix("]")))
    return {name: value for name, value in told.items() if name in _HARM}


def harm(settings: Mapping[str, str]) -> list[str]:
    """In words: what the table's properties would do to its files, or hide from its readers."""
    told = {name: value.lower() for name, value in settings.items()}
    return [f"{name} is {value}: {_HARM[name]}" for name, value in told.items() if value not in ("", "0", "false")]


def finds_by_name(serde: str) -> bool:
    """Whether readers find a file's columns by name. Hive finds ORC's by position, and text has no names."""
    return SERDES["parquet"] in serde


def differences(file_format: str, properties: Mapping[str, str]) -> list[str]:
    """In words: what the table would read otherwise than the files are written."""
    return text_differences(properties, dict(TEXT)) if file_format == "text" else []


def text_differences(there: Mapping[str, str], due: Mapping[str, str]) -> list[str]:
    """In words, where two SerDes of text files differ by their properties."""
    pairs = [(name, _said(there, name), _said(due, name)) for name in (*dict(TEXT), _ENCODING)]
    return [f"its {name} is {value!r}, not {other!r}" for name, value, other in pairs if value != other]


def _said(properties: Mapping[str, str], name: str) -> str | None:
    return properties.get(name, "UTF-8").upper() if name == _ENCODING else properties.get(name)


def _from_java(text: str) -> str:
    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else m[1], text)
