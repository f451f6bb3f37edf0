"""Columns as numpy arrays and back, by their buffers: PyArrow's own way is closed where it was imported without numpy
(`lean.pyarrow_without_numpy`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Numbers = Any
"""np.ndarray of one dimension."""
_KINDS = {
    pa.int8(): np.int8,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint64(): np.uint64,
}
_ARROW = {np.dtype(kind): arrow for arrow, kind in _KINDS.items()}


def numbers(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Integers, or booleans, as they are in memory. None of them may be null."""
    assert not column.null_count, "a null has no number"
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_boolean(found.type):
        return numbers(found.cast(pa.int8())).view(np.bool_)
    kind = np.dtype(_KINDS[found.type])
    if not len(found):
        return np.zeros(0, kind)
    return np.frombuffer(found.buffers()[1], kind, len(found), found.offset * kind.itemsize)


def column_of(values: Numbers) -> pa.Array:
    """The inverse, for integers."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(_ARROW[values.dtype], len(values), [None, pa.py_buffer(values)])


def mask_of(truth: Numbers) -> pa.Array:
    """Booleans as Arrow has them, a bit each."""
    packed = np.packbits(truth, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(truth), [None, pa.py_buffer(packed)])
