"""Hive types -> ClickHouse types, values and hashes. `docs/clickhouse.md` states the table.

A row's hash is made of what the server stores, by functions that every version has, so that both sides compute it:
`intHash64(sum of intHash64(word ^ K) over its values that are not null)`, modulo 2**64. K is a column's own, by its
name: a column that comes later changes no sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.base import hivetypes
from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.deliver.nested import text_of
from tidegate.targets.clickhouse.client import Client, quoted
from tidegate.targets.clickhouse.native import fixed

Words = npt.NDArray[np.uint64]
WINDOW_TYPE = "DateTime('UTC')"
_US = 1_000_000
_SECONDS = (-2_208_988_800, 10_413_792_000)
"""1900 and 2300: what lies outside is not shown as it is by DateTime64 and Date32."""
_NUMBERS = {
    "boolean": "UInt8", "tinyint": "Int8", "smallint": "Int16", "int": "Int32", "bigint": "Int64",
    "float": "Float32", "double": "Float64", "string": "String", "binary": "String",
}  # fmt: skip
_BEFORE = {"Bool": "UInt8", "Date32": "Int32", "DateTime64(6, 'UTC')": "Int64"}
"""What a table has that an older version made: the same values, with the same hashes. No ALTER may make an Int64 of
microseconds a DateTime64: the server takes them for seconds."""
_WIDER = ("Int8", "Int16", "Int32", "Int64")


@dataclass(frozen=True)
class Column:
    """`type`: there, without Nullable. The window's start is the only column that is never null."""

    name: str
    kind: hivetypes.HiveType
    type: str
    nullable: bool = True

    @property
    def full_type(self) -> str:
        return f"Nullable({self.type})" if self.nullable else self.type

    def as_made(self, there: str) -> Column:
        """With the type that an older version gave it, if the table has that."""
        older = _BEFORE.get(self.type)
        return self if older is None or there != f"Nullable({older})" else replace(self, type=older)

    def fits(self, there: str) -> int:
        """0: a column of this type there takes our values; 1: it does once it is made ours, which keeps its own and
        their hashes; -1: neither."""
        if there == self.full_type:
            return 0
        other = there.removeprefix("Nullable(").removesuffix(")")
        if self.type not in _WIDER or other not in _WIDER or there == other:
            return -1
        return int(_WIDER.index(other) < _WIDER.index(self.type))

    def stored(self, values: pa.Array) -> pa.Array:
        """The values as the server keeps them. Raises DeliveryRefused for one that it cannot."""
        if not hivetypes.is_primitive(self.kind):
            texts = [None if value is None else text_of(value, self.kind) for value in values.to_pylist()]
            return pa.array(texts, pa.large_string()).cast(pa.large_binary())
        if self.type == "String":
            return values.cast(pa.large_binary())
        if self.type in ("UInt8", "Bool"):
            return values.cast(pa.uint8())
        if pa.types.is_timestamp(values.type):
            return self._timestamps(values.cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
        if pa.types.is_date(values.type):
            days = values.cast(pa.int32())
            self._refuse_outside(days, _SECONDS[0] // 86400, _SECONDS[1] // 86400 - 1)
            return days
        return values

    def _timestamps(self, micros: pa.Array) -> pa.Array:
        if self.type == WINDOW_TYPE:
            self._refuse_window(micros)
            return pc.divide(micros, _US).cast(pa.uint32())
        self._refuse_outside(micros, _SECONDS[0] * _US, _SECONDS[1] * _US - 1)
        return micros

    def _refuse_window(self, micros: pa.Array) -> None:
        ends = pc.min_max(micros).as_py()
        if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < _US << 32:
            raise DeliveryRefused(
                f"a window that begins before 1970 or after 2106 has no partition there: {self.name} is {WINDOW_TYPE}",
                advice="skip the window here with a reason",
                retry=False,
            )

    def _refuse_outside(self, numbers: pa.Array, first: int, last: int) -> None:
        if self.type.startswith("Int"):  # stored as a number
            return
        ends = pc.min_max(numbers).as_py()
        if ends["min"] is not None and (ends["min"] < first or ends["max"] > last):
            raise DeliveryRefused(
                f"column {self.name} has a value outside of 1900 to 2299, which {self.type} does not show",
                advice="make it a string or bigint in the pipeline, or skip the window here with a reason",
                retry=False,
            )

    def sql_hash(self) -> str:
        """The server's words for the value's part of the row's hash."""
        name = quoted(self.name)
        keys = _keys(self.name)
        parts = [
            f"intHash64(bitXor({word}, toUInt64({key})))"
            for word, key in zip(self._sql_words(name), keys, strict=False)
        ]
        return f"ifNull({' + '.join(parts)}, toUInt64(0))" if self.nullable else " + ".join(parts)

    def _sql_words(self, name: str) -> list[str]:
        if self.type == "String":
            return [f"halfMD5({name})"]
        bits = f"reinterpretAsString({name})"
        if isinstance(self.kind, hivetypes.Decimal) and self.kind.precision > 18:
            return [f"reinterpretAsUInt64(substring({bits}, {at}, 8))" for at in (1, 9)]
        if self.type.startswith(("Float", "Decimal")):
            return [f"reinterpretAsUInt64({bits})"]
        inside = {"DateTime64(6, 'UTC')": f"toUnixTimestamp64Micro({name})", "Date32": f"toInt32({name})"}
        return [f"toUInt64({inside.get(self.type, name)})"]

    def hashes(self, stored: pa.Array) -> Words:
        """The same of stored values."""
        out = np.zeros(len(stored), dtype=np.uint64)
        for word, key in zip(self._words(stored), _keys(self.name), strict=False):
            out += mixed(word ^ np.uint64(key))
        out[np.asarray(stored.is_null())] = 0
        return out

    def _words(self, stored: pa.Array) -> list[Words]:
        if self.type == "String":
            distinct = pc.fill_null(stored, b"").dictionary_encode()
            words = [_half_md5(value) for value in distinct.dictionary.to_pylist()]
            return [np.array(words, dtype=np.uint64)[distinct.indices.to_numpy()]]
        numbers: Any = fixed(stored)
        if isinstance(self.kind, hivetypes.Decimal):
            if self.kind.precision > 18:
                return [numbers[:, 0], numbers[:, 1]]
            bits = 32 if self.kind.precision <= 9 else 64
            return [numbers[:, 0] & np.uint64(2**bits - 1)]
        if self.type.startswith("Float"):
            return [numbers.view(np.uint32 if self.type == "Float32" else np.uint64).astype(np.uint64)]
        return [numbers.astype(np.int64).view(np.uint64)]


def columns(table: Sequence[tuple[str, str]], client: Client) -> list[Column]:
    """The table's columns, the window's start first, in types that this version has."""
    first, *others = table
    window = Column(first[0], hivetypes.parse(first[1]), WINDOW_TYPE, nullable=False)
    return [window, *(_column(name, hivetypes.parse(kind), client) for name, kind in others)]


def _column(name: str, kind: hivetypes.HiveType, client: Client) -> Column:
    if isinstance(kind, hivetypes.Decimal):
        return Column(name, kind, f"Decimal({kind.precision}, {kind.scale})")
    if not isinstance(kind, hivetypes.Primitive):
        return Column(name, kind, "String")
    if kind.name == "timestamp":
        return Column(name, kind, "DateTime64(6, 'UTC')" if client.knows("DateTime64") else "Int64")
    if kind.name == "date":
        return Column(name, kind, "Date32" if client.knows("Date32") else "Int32")
    if kind.name == "boolean" and client.knows("Bool"):
        return Column(name, kind, "Bool")
    return Column(name, kind, _NUMBERS[kind.name])


def row_hashes(columns: Sequence[Column], stored: Sequence[pa.Array]) -> Words:
    """Of each row, as `sql_row_hash` has them."""
    total = np.zeros(len(stored[0]), dtype=np.uint64)
    for column, values in zip(columns, stored, strict=True):
        total += column.hashes(values)
    return mixed(total)


def sql_row_hash(columns: Sequence[Column]) -> str:
    """The server's words for a row's hash."""
    return f"intHash64({' + '.join(column.sql_hash() for column in columns)})"


def mixed(words: Words) -> Words:
    """ClickHouse's intHash64."""
    x = words ^ np.uint64(0x4CF2D2BAAE6DA887)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ x >> np.uint64(33)) * np.uint64(factor)
    return np.asarray(x ^ x >> np.uint64(33))


def _keys(name: str) -> tuple[int, int]:
    digest = hashlib.md5(name.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


def _half_md5(value: bytes) -> int:
    return int.from_bytes(hashlib.md5(value, usedforsecurity=False).digest()[:8], "big")
