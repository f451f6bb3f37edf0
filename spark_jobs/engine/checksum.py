"""A 64-bit hash of each row, whose sum is a file's order-free checksum."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.receipt import CHECKSUM_MODULUS


def connect() -> duckdb.DuckDBPyConnection:
    """One in-memory DuckDB for a task: a single thread, no files, no extensions, UTC."""
    connection = duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False})
    connection.execute("set TimeZone='UTC'")
    return connection


def row_hashes(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> pa.Array:
    """uint64 per row over all columns of `rows` in their order. Depends on the row alone, not on its neighbours."""
    names = [f"c{i}" for i in range(rows.num_columns)]
    connection.register("hash_input", rows.rename_columns(names))
    try:
        found = connection.sql(f"select hash({', '.join(names)}) as h from hash_input").to_arrow_table()["h"]
    finally:
        connection.unregister("hash_input")
    if len(found) != len(rows):
        raise AssertionError(f"{len(found)} hashes for {len(rows)} rows")
    return found.combine_chunks()


def total(hashes: pa.Array) -> int:
    return (pc.sum(hashes).as_py() or 0) % CHECKSUM_MODULUS
