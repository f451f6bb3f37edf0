"""Rows in the form in which they are written to a relational database, and come back from it."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.core.base.hivetypes import Array, Decimal, HiveType, Map, Struct
from tidegate.databases.arrow import arrow_type
from tidegate.targets.relational.columns import Column


def as_sent(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Nested values as JSON, a narrow float as the double that holds it; all else as it is."""
    arrays = [_sent(array, each) for array, each in zip(batch.columns, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, [each.name for each in columns])


def _sent(array: pa.Array, column: Column) -> pa.Array:
    if not column.nested:
        return array.cast(arrow_type(column.sent))
    kind = column.hive
    return pa.array([None if v is None else text_of(v, kind) for v in array.to_pylist()], pa.string())


def text_of(value: Any, kind: HiveType) -> str:
    """A nested value as JSON."""
    if value is None:
        return "null"
    if isinstance(kind, Array):
        return f"[{','.join(text_of(v, kind.element) for v in value)}]"
    if isinstance(kind, Map):
        pairs = value.items() if isinstance(value, dict) else value
        return f"{{{','.join(f'{_key(k)}:{text_of(v, kind.value)}' for k, v in pairs)}}}"
    if isinstance(kind, Struct):
        return f"{{{','.join(f'{_quoted(n)}:{text_of(value[n], inner)}' for n, inner in kind.fields)}}}"
    if isinstance(kind, Decimal):
        return format(value, "f")
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else _quoted(str(value))
    if isinstance(value, int):
        return str(value)
    return _quoted(_text(value))


def _key(value: Any) -> str:
    return _quoted(_text(value) if not isinstance(value, bool) else str(value).lower())


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return format(value, "f") if isinstance(value, decimal.Decimal) else str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
