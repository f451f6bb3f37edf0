"""What a finished Parquet file's footer says of the values of its columns, as an Iceberg table keeps it of each file:
read here, where the footer is at hand, so that nobody has to open the files again."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.parquet as pq

from tidegate.core.target.stored import Bounds

MOST_COLUMNS = 100
"""Columns of a file that have bounds: as many as other writers keep by default."""
LENGTH = 16
"""Code points of a text and bytes of a binary value that are kept."""
_LAST, _BEFORE_SURROGATES, _AFTER_SURROGATES = 0x10FFFF, 0xD7FF, 0xE000
_FORMS = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}


def bounds_of(footer: pq.FileMetaData, ids: Sequence[int]) -> Bounds:
    """`ids`: of the columns without children, in the file's order. A column of which a row group does not say it has no
    entry, nor has one within a list or a map."""
    lower, upper, nulls = dict[int, str](), dict[int, str](), dict[int, int]()
    for at, number in list(enumerate(ids))[:MOST_COLUMNS]:
        column = footer.schema.column(at)
        found = [footer.row_group(g).column(at).statistics for g in range(footer.num_row_groups)]
        if column.max_repetition_level or not found or any(s is None for s in found):
            continue
        if all(s.has_null_count for s in found):
            nulls[number] = sum(s.null_count for s in found)
        with_values = [s for s in found if not (s.has_null_count and s.num_values == 0)]
        if not with_values or not all(s.has_min_max for s in with_values):
            continue
        low, high = _rules(column)
        least = low(min(_value(column, s.min_raw) for s in with_values))
        most = high(max(_value(column, s.max_raw) for s in with_values))
        lower[number] = _text(least)
        if most is not None:
            upper[number] = _text(most)
    return Bounds(lower, upper, nulls)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _value(column: pq.ColumnSchema, raw: Any) -> Any:
    """A value that compares as the column's values do."""
    return int.from_bytes(raw, "big", signed=True) if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else raw


def _rules(column: pq.ColumnSchema) -> tuple[Callable[[Any], bytes], Callable[[Any], bytes | None]]:
    """How the smallest and the largest value are spelled: Iceberg's form of single values."""
    kind = column.physical_type
    if kind == "BYTE_ARRAY":
        return (_text_below, _text_above) if column.logical_type.type == "STRING" else (_bytes_below, _bytes_above)
    if kind == "BOOLEAN":
        return _boolean, _boolean
    if kind == "FIXED_LEN_BYTE_ARRAY":
        return _unscaled, _unscaled
    packed = struct.Struct(_FORMS[kind]).pack
    return packed, packed


def _boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def _unscaled(value: int) -> bytes:
    """A decimal, in as few bytes as it needs."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


def _text_below(raw: bytes) -> bytes:
    return raw.decode()[:LENGTH].encode()


def _text_above(raw: bytes) -> bytes | None:
    """A short text that is not smaller; None if no text of that length is."""
    text = raw.decode()
    if len(text) <= LENGTH:
        return raw
    points = [ord(c) for c in text[:LENGTH]]
    while points and points[-1] == _LAST:
        points.pop()
    if not points:
        return None
    points[-1] = _AFTER_SURROGATES if points[-1] == _BEFORE_SURROGATES else points[-1] + 1
    return "".join(map(chr, points)).encode()


def _bytes_below(raw: bytes) -> bytes:
    return raw[:LENGTH]


def _bytes_above(raw: bytes) -> bytes | None:
    if len(raw) <= LENGTH:
        return raw
    kept = raw[:LENGTH].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
