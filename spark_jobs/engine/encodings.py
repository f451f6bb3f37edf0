"""Chooses which columns of a file get a dictionary, statistics, a compressor, from rows that it will hold."""

from __future__ import annotations

import functools
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.sinks import Encoding

SAMPLE_ROWS, _STRETCHES = 8_192, 16
FEW, FEW_BYTES = 256, 4_096
"""A column of so few values is its dictionary and some bits for each row: nothing that a compressor could shorten."""
DOUBT_BYTES = 4 * FEW_BYTES
"""Of a column in the rows that a file begins with: more than that is looked at before it stays without a compressor."""


def sample_of(rows: pa.Table) -> pa.Table:
    """About SAMPLE_ROWS rows from all over the table: one directory need not be like the others."""
    if len(rows) <= SAMPLE_ROWS:
        return rows
    length, step = SAMPLE_ROWS // _STRETCHES, len(rows) // _STRETCHES
    return pa.concat_tables(rows.slice(at * step, length) for at in range(_STRETCHES))


def choose_encoding(sample: pa.Table) -> Encoding:
    """Dictionaries pay only where values repeat; statistics where a reader can skip by them."""
    dictionary, statistics, small = [], [], []
    for name, column in zip(sample.column_names, sample.columns, strict=True):
        if pa.types.is_nested(column.type):
            continue
        distinct = pc.unique(column)
        repeats = (len(distinct) - (column.null_count > 0)) * 8 <= len(column)
        if repeats and not pa.types.is_boolean(column.type):
            dictionary.append(name)
        if repeats or not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            statistics.append(name)
        if pa.types.is_boolean(column.type) or (repeats and _few(distinct)):
            small.append(name)
    return Encoding(dictionary, statistics, tuple(small))


def fitting(encoding: Encoding, rows: pa.Table) -> Encoding:
    """The encoding for a file that begins with these rows: a column that is small elsewhere may be large here."""
    doubtful = _doubtful(rows.schema, encoding.small, len(rows))
    small = tuple(name for name in encoding.small if name not in doubtful or _small_here(rows[name]))
    return encoding if len(small) == len(encoding.small) else replace(encoding, small=small)


def _doubtful(schema: pa.Schema, small: tuple[str, ...], rows: int) -> set[str]:
    """Those of `small` that may be large in so many rows: what a type says already is not looked at in each file."""
    return {name for name, bits in _widths(schema, small) if bits is None or bits * rows > 8 * DOUBT_BYTES}


@functools.lru_cache(64)
def _widths(schema: pa.Schema, small: tuple[str, ...]) -> list[tuple[str, int | None]]:
    """Columns that are there, with their bits a value; None where values differ. Without those of one bit."""
    kinds = [(name, schema.field(name).type) for name in small if name in schema.names]
    return [
        (name, kind.bit_width if pa.types.is_primitive(kind) else None)
        for name, kind in kinds
        if not pa.types.is_boolean(kind)
    ]


def _small_here(column: pa.ChunkedArray) -> bool:
    if column.nbytes <= DOUBT_BYTES:
        return True
    return _few(pc.unique(column.slice(0, SAMPLE_ROWS)))


def _few(distinct: pa.Array) -> bool:
    return len(distinct) <= FEW and distinct.nbytes <= FEW_BYTES
