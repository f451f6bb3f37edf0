"""Rows in the form in which they are written to a relational database, and come back from it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.core.deliver.nested import text_of
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
