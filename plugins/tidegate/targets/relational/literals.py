"""Rows as literals of MariaDB and MySQL, made column by column: value by value they cost most of a delivery's time."""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

STATEMENT_BYTES = 1_000_000
"""About as long is a statement; max_allowed_packet is 16 MB where nobody has set it."""


class NoLiteral(Exception):
    """A value that the databases have no literal for."""


def tuples(rows: pa.RecordBatch, most: int = STATEMENT_BYTES) -> Iterator[str]:
    """`(1,'a'),(2,NULL)` for statements of about `most` bytes, of at least one row each. For a session whose
    `sql_mode` has backslashes escape. Raises NoLiteral."""
    columns = [pc.fill_null(_literals(rows[name], name), "NULL") for name in rows.schema.names]
    lines = pc.binary_join_element_wise(*columns, ",")
    lengths, values = pc.binary_length(lines).to_pylist(), lines.to_pylist()
    first = size = 0
    for at, length in enumerate(lengths):
        if size and size + length > most:
            yield _statement(values[first:at])
            first, size = at, 0
        size += length
    if values:
        yield _statement(values[first:])


def _statement(values: list[str]) -> str:
    return f"({'),('.join(values)})"


def _literals(array: pa.Array, name: str) -> pa.Array:
    """Texts; null where the value is."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8()).cast(pa.string())
    if pa.types.is_integer(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        return _floats(array, name)
    if pa.types.is_binary(kind):
        found = [None if v is None else f"X'{binascii.hexlify(v).decode()}'" for v in array.to_pylist()]
        return pa.array(found, pa.string())
    if pa.types.is_timestamp(kind):
        return _quoted(array.cast(pa.timestamp(kind.unit)).cast(pa.string()))  # in UTC, without a zone
    if pa.types.is_string(kind):
        for old, new in (("\\", "\\\\"), ("'", "\\'"), ("\0", "\\0")):
            array = pc.replace_substring(array, old, new)
        return _quoted(array)
    return _quoted(array.cast(pa.string()))  # decimals too: a number with an exponent would be a double


def _floats(array: pa.Array, name: str) -> pa.Array:
    """With an exponent: else they are decimals to the server, which it rounds once more."""
    if not pc.all(pc.is_finite(array)).as_py() and array.null_count < len(array):
        wrong: Any = array.filter(pc.invert(pc.is_finite(array)))[0].as_py()
        raise NoLiteral(f"column {name}: {wrong} cannot be held by MariaDB or MySQL")
    text = array.cast(pa.string())
    return pc.if_else(pc.match_substring(text, "e"), text, pc.binary_join_element_wise(text, "e0", ""))


def _quoted(array: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("'", array, "'", "")
