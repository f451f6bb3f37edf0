"""The row identity: what of a row counts, its 64-bit hash, and the order-free sum that is a file's checksum.

A row is its partition values as text and all columns of its file but the batch, in their order. A file's checksum is
the sum of its rows' hashes modulo 2**64: it depends neither on the order of rows nor on how they are cut into files.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.types import schema_of
from tidegate.core.layout import PartitionValues
from tidegate.core.overflow import OVERFLOW_COLUMN
from tidegate.core.pipeline import KAFKA_COLUMNS
from tidegate.core.receipt import CHECKSUM_MODULUS, DATA, LATE

OVERFLOW = schema_of((OVERFLOW_COLUMN,)).field(0)
_BATCH = KAFKA_COLUMNS[-1][0]
_local = threading.local()


def file_checksum(rows: pa.Table, kind: str, values: PartitionValues, dynamic: Sequence[str] = ()) -> int:
    """The checksum that the manifest has of a file with these rows; those of its parts add up modulo 2**64.

    `rows`: as the file holds them; `kind` and `values` as in its manifest entry; `dynamic`: the names of the dynamic
    partition columns that a late file holds as columns."""
    if kind == DATA:
        return sum(checksum(part, dict(values)) for part in by_kind(rows)) % CHECKSUM_MODULUS
    return checksum(*without_values(rows, dynamic)) if kind == LATE else checksum(rows, {})


def checksum(rows: pa.Table, texts: Mapping[str, pa.Array | str | None]) -> int:
    """Of rows that all have the same columns; `texts` as for `row_hashes`."""
    return total(row_hashes(rows, texts))


def row_hashes(rows: pa.Table, texts: Mapping[str, pa.Array | str | None]) -> pa.Array:
    """uint64 for each row. Depends on the row alone, not on its neighbours.

    `texts`: the dynamic partition values, of each row or one for all of them."""
    columns = {
        f"*{name}": pa.repeat(pa.scalar(text, pa.string()), len(rows))
        if text is None or isinstance(text, str)
        else text
        for name, text in texts.items()
    }
    return _hashes(pa.table(columns | {n: rows[n] for n in rows.column_names if n != _BATCH}))


def total(hashes: pa.Array) -> int:
    """The checksum of rows with these hashes."""
    return (pc.sum(hashes).as_py() or 0) % CHECKSUM_MODULUS


def by_kind(rows: pa.Table) -> list[pa.Table]:
    """Rows of the overflow partition, and those that were written without its column."""
    if OVERFLOW.name not in rows.column_names or not rows[OVERFLOW.name].null_count:
        return [rows]
    own = rows[OVERFLOW.name].is_null()
    return [rows.filter(pc.invert(own)), rows.filter(own).drop_columns([OVERFLOW.name])]


def without_values(rows: pa.Table, dynamic: Sequence[str]) -> tuple[pa.Table, dict[str, pa.Array]]:
    """Late rows as a data file would hold them, and their dynamic partition values as text."""
    from spark_jobs.engine.route import partition_text  # not in a process that has no late rows

    texts = {name: partition_text(rows[name]) for name in dynamic}
    return rows.drop_columns(list(dynamic)) if dynamic else rows, texts


def _hashes(content: pa.Table) -> pa.Array:
    if not hasattr(_local, "connection"):
        _local.connection = duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False})
    names = [f"c{i}" for i in range(content.num_columns)]
    _local.connection.register("hash_input", content.rename_columns(names))
    try:
        found = _local.connection.sql(f"select hash({', '.join(names)}) as h from hash_input").to_arrow_table()["h"]
    finally:
        _local.connection.unregister("hash_input")
    return found.combine_chunks()
