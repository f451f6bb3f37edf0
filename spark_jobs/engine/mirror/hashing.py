"""The bucket of a key. docs/row-identity.md states it: tables are cut by it for as long as they live.

Keys are widened before they are hashed, so that a column that grows leaves each key where it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spark_jobs.engine.identity import row_hashes
from spark_jobs.engine.mirror.numbers import Numbers, numbers

_WIDEST_DECIMAL = 38


def buckets_of(key: Sequence[pa.ChunkedArray], buckets: int) -> Numbers:
    """Number of the bucket of each row, int32. `key`: columns in the key's order."""
    widened = pa.table([_widened(column) for column in key], [str(i) for i in range(len(key))])
    return (numbers(row_hashes(widened, {})) % buckets).astype("int32")


def _widened(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_signed_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_decimal128(kind):
        return column.cast(pa.decimal128(_WIDEST_DECIMAL, kind.scale))
    return column
