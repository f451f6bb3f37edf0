"""Bounds of a file's columns, in Iceberg's form of single values, from footers alone."""

from __future__ import annotations

import base64
import datetime
import io
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.engine.sinks.bounds import bounds_of
from tidegate.core.base.plain import dumps, loads
from tidegate.core.target.stored import Bounds

I32, I64 = struct.Struct("<i").pack, struct.Struct("<q").pack


def told(groups: list[pa.Array], **options: Any) -> tuple[bytes | None, bytes | None, int | None]:
    """Bounds and nulls of a column with these row groups."""
    stream = io.BytesIO()
    with pq.ParquetWriter(stream, pa.schema([("c", groups[0].type)]), **options) as writer:
        for values in groups:
            writer.write_table(pa.table({"c": values}))
    found = bounds_of(pq.read_metadata(stream), [7])
    low, high = (None if 7 not in side else base64.b64decode(side[7]) for side in (found.lower, found.upper))
    return low, high, found.nulls.get(7)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (pa.array([True, False]), b"\x00", b"\x01"),
        (pa.array([-1, 2], pa.int32()), I32(-1), I32(2)),
        (pa.array([-1, 2**62], pa.int64()), I64(-1), I64(2**62)),
        (pa.array([0.5, -2], pa.float32()), struct.pack("<f", -2), struct.pack("<f", 0.5)),
        (pa.array([0.1, -2]), struct.pack("<d", -2), struct.pack("<d", 0.1)),
        (pa.array([datetime.date(1969, 12, 31), datetime.date(2013, 1, 5)]), I32(-1), I32(15_710)),
        (pa.array([-1, 7], pa.timestamp("us", "UTC")), I64(-1), I64(7)),
        (pa.array([Decimal("-1.28"), Decimal("1.28")], pa.decimal128(9, 2)), b"\x80", b"\x00\x80"),
        (pa.array([Decimal(0), Decimal(10**37)], pa.decimal128(38, 0)), b"\x00", (10**37).to_bytes(16, "big")),
        (pa.array(["é", "a"]), b"a", "é".encode()),
        (pa.array(["é" * 16, "é" * 17]), ("é" * 16).encode(), ("é" * 15 + "ê").encode()),
        (pa.array(["a" * 15 + "\ud7ff" + "z"]), ("a" * 15 + "\ud7ff").encode(), ("a" * 15 + "\ue000").encode()),
        (pa.array(["a" + "\U0010ffff" * 16]), ("a" + "\U0010ffff" * 15).encode(), b"b"),
        (pa.array(["\U0010ffff" * 17]), ("\U0010ffff" * 16).encode(), None),
        (pa.array([b"a" * 17]), b"a" * 16, b"a" * 15 + b"b"),
        (pa.array([b"a" + b"\xff" * 16]), b"a" + b"\xff" * 15, b"b"),
        (pa.array([b"\xff" * 17]), b"\xff" * 16, None),
        (pa.array([b"\xff" * 16]), b"\xff" * 16, b"\xff" * 16),
    ],
)
def test_values_of_each_type(values: pa.Array, low: bytes, high: bytes | None) -> None:
    assert told([values]) == (low, high, 0)


def test_of_several_row_groups() -> None:
    some, none = pa.array([3, None, 5], pa.int32()), pa.nulls(2, pa.int32())
    assert told([some, none, pa.array([4], pa.int32())]) == (I32(3), I32(5), 3)
    assert told([none]) == (None, None, 2)
    assert told([some], write_statistics=False) == (None, None, None)


def test_decimals_compare_as_numbers_over_row_groups() -> None:
    groups = [pa.array([Decimal("-1")], pa.decimal128(9, 0)), pa.array([Decimal("1")], pa.decimal128(9, 0))]
    assert told(groups) == (b"\xff", b"\x01", 0)


@pytest.mark.parametrize("hidden", [pa.array(["x" * 5_000, "y"]), pa.array([float("nan")])])
def test_what_a_footer_does_not_say_is_left_open(hidden: pa.Array) -> None:
    assert told([hidden])[:2] == (None, None)


def test_nested_values_have_no_bounds_and_shift_no_ids() -> None:
    table = pa.table({"l": [[1]], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), "c": [5]})
    stream = io.BytesIO()
    pq.write_table(table, stream)
    found = bounds_of(pq.read_metadata(stream), [1, 2, 3, 4])
    text = base64.b64encode(I64(5)).decode()
    assert found == Bounds({4: text}, {4: text}, {4: 0})
    assert loads(Bounds, dumps(found)) == found
