"""Rows as records: a JSON object of each, whose values the JSON decoder takes exactly (docs/types.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_ODD = r'[\x00-\x1f"\\]'


def records_of(batch: pa.RecordBatch, names: Sequence[str]) -> list[bytes]:
    """`names`: of the fields, in the order of the batch's columns."""
    if not len(batch):
        return []
    parts: list[pa.Array | pa.Scalar] = []
    for number, (name, column) in enumerate(zip(names, batch.columns, strict=True)):
        parts.append(pa.scalar(("," if number else "{") + json.dumps(name, ensure_ascii=False) + ":"))
        parts.append(pc.fill_null(_text(column), "null"))
    joined = pc.binary_join_element_wise(*parts, pa.scalar("}"), "")
    found: list[bytes] = joined.cast(pa.binary()).to_pylist()
    return found


def _text(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind):
        return _quoted_text(column)
    if pa.types.is_floating(kind):
        return column.cast(pa.float64()).cast(pa.string())  # of a float the digits of its double: exact
    if pa.types.is_date(kind):
        return _quoted(column.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        plain = column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        return _quoted(pc.binary_replace_slice(plain.cast(pa.string()), 10, 11, "T"), 'Z"')
    return column.cast(pa.string())


def _quoted(texts: pa.Array, end: str = '"') -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar('"'), texts, pa.scalar(end), "")


def _quoted_text(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, _ODD)).as_py():
        return _quoted(texts)
    plain = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    if not pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        return _quoted(plain)
    return pa.array([None if t is None else json.dumps(t, ensure_ascii=False) for t in texts.to_pylist()], pa.string())
