"""Rows of every type, as record batches of a delivered table, and tries to send them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_jobs.engine.delivered import checksum
from spark_jobs.engine.types import schema_of
from tidegate.core.deliver.port import WINDOW_COLUMN, Attempt, Content, Table
from tidegate.core.files.receipt import CHECKSUM_MODULUS
from tidegate.core.target.port import Token

HOUR, T0 = 3_600_000, 1_357_344_000_000
TYPES = (
    ("b", "boolean"), ("i8", "tinyint"), ("i16", "smallint"), ("i32", "int"), ("i64", "bigint"), ("f32", "float"),
    ("f64", "double"), ("dec", "decimal(38,10)"), ("small", "decimal(5,2)"), ("s", "string"), ("bin", "binary"),
    ("d", "date"), ("ts", "timestamp"), ("tags", "array<string>"), ("m", "map<string,int>"),
    ("st", "struct<a:int,t:timestamp,n:array<decimal(5,2)>>"),
)  # fmt: skip
COLUMNS = (WINDOW_COLUMN, *TYPES)
_UTC = datetime.UTC
FULL: dict[str, Any] = {
    "b": True, "i8": -128, "i16": 32767, "i32": -(2**31), "i64": 2**63 - 1, "f32": 0.1, "f64": 1e300,
    "dec": Decimal("-1234567890123456789012345678.0123456789"), "small": Decimal("-0.10"),
    "s": "a 'quoted', \"text\"\\ with\nlines, € and 😀 ", "bin": b"\x00\xff,\"'\\\n", "d": datetime.date(2013, 1, 5),
    "ts": datetime.datetime(2013, 1, 5, 4, 5, 6, 789012, _UTC), "tags": ["x", None, "y'"], "m": [("k", 1), ("l", None)],
    "st": {"a": 1, "t": datetime.datetime(2013, 1, 5, tzinfo=_UTC), "n": [Decimal("1.50"), None]},
}  # fmt: skip
NULLS: dict[str, Any] = dict.fromkeys(FULL)
ZERO: dict[str, Any] = {
    "b": False, "i8": 0, "i16": 0, "i32": 0, "i64": 0, "f32": 0.0, "f64": -1.5e-300, "dec": Decimal(0),
    "small": Decimal("999.99"), "s": "", "bin": b"", "d": datetime.date(1970, 1, 1),
    "ts": datetime.datetime(1970, 1, 1, tzinfo=_UTC), "tags": [], "m": [], "st": {"a": None, "t": None, "n": None},
}  # fmt: skip


def table(name: str, columns: tuple[tuple[str, str], ...] = COLUMNS, pipeline: str = "readings") -> Table:
    return Table(pipeline=pipeline, delivery="shop", name=name, columns=columns)


class Made:
    """Implements `core.deliver.port.Rows`. `breaks`: an error in place of the batch of this number."""

    def __init__(
        self,
        rows: list[dict[str, Any]],
        window_ms: int = T0,
        columns: tuple[tuple[str, str], ...] = COLUMNS,
        breaks: Exception | None = None,
    ) -> None:
        at = datetime.datetime.fromtimestamp(window_ms / 1000, _UTC)
        self.schema, self.breaks = schema_of(columns), breaks
        self.rows = [{WINDOW_COLUMN[0]: at, **dict.fromkeys(n for n, _ in columns[1:]), **row} for row in rows]

    def batches(self) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(self.rows), 2):
            yield pa.RecordBatch.from_pylist(self.rows[at : at + 2], self.schema)
        if self.breaks is not None:
            raise self.breaks

    @property
    def content(self) -> Content:
        total = sum(checksum(batch) for batch in self.batches())
        return Content(rows=len(self.rows), checksum=total % CHECKSUM_MODULUS)


def attempt(generation: int, epoch: int, rows: Made, window_ms: int = T0, pipeline: str = "readings") -> Attempt:
    token = Token(pipeline=pipeline, unit=window_ms, generation=generation, epoch=epoch, digest=f"d{generation}")
    return Attempt(token=token, nonce=f"{generation:02x}{epoch:02x}", rows=len(rows.rows))
