"""Rows as a database writes them in CSV -> record batches in the wanted types. Nothing is cut, rounded or guessed.

An empty field is null, a quoted one is a text: as PostgreSQL's COPY has it, and as we have MariaDB write it."""

from __future__ import annotations

import binascii
import decimal
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tidegate.core.base.hivetypes import Decimal, HiveType
from tidegate.core.files.failure import JobError, refuse
from tidegate.databases.documents import as_in_events
from tidegate.databases.types import IN_EVENTS, Conversion

TIMESTAMP = pa.timestamp("us", "UTC")
_BOM = b"\xef\xbb\xbf"
_TYPES = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": TIMESTAMP,
}  # fmt: skip


def arrow_type(kind: HiveType) -> pa.DataType:
    """Of a primitive type or a decimal: no column of a database becomes another one."""
    return pa.decimal128(kind.precision, kind.scale) if isinstance(kind, Decimal) else _TYPES[kind.name]  # type: ignore[union-attr]


class Unfit(Exception):
    """A value of the column (its number) does not fit."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Parser:
    """Makes batches of rows. `key`: columns that a refusal names a row by. `quote`: what stands around texts."""

    def __init__(self, columns: Sequence[tuple[str, Conversion]], key: Sequence[str], quote: str = '"') -> None:
        self._quote = quote
        self._columns = [each for _, each in columns]
        self._key = [i for i, (name, _) in enumerate(columns) if name in key]
        self.schema = pa.schema([pa.field(name, arrow_type(each.wanted)) for name, each in columns])
        self._names = [str(i) for i in range(len(columns))]
        types = {name: _parsed(each) for name, each in zip(self._names, self._columns, strict=True)}
        self._convert = csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
            true_values=["t", "1"], false_values=["f", "0"], timestamp_parsers=[csv.ISO8601],
        )  # fmt: skip
        self._texts = csv.ConvertOptions(
            column_types=dict.fromkeys(self._names, pa.binary()), null_values=[""], strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )  # fmt: skip

    def batch(self, rows: list[bytes]) -> pa.RecordBatch:
        """`rows`: each one line of CSV with its end. Raises JobError, refused, which names the row and the column."""
        try:
            return self._made(rows)
        except (pa.ArrowInvalid, Unfit):
            raise self._refusal(rows) from None

    def _made(self, rows: list[bytes]) -> pa.RecordBatch:
        table = self._read(rows, self._convert)
        arrays = []
        for number, (field, each) in enumerate(zip(self.schema, self._columns, strict=True)):
            array = table.column(number).combine_chunks()
            try:
                arrays.append(_HOW[each.how](array, field.type) if each.how else array)
            except (pa.ArrowInvalid, ValueError, decimal.InvalidOperation):
                raise Unfit(number) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _read(self, rows: list[bytes], convert: csv.ConvertOptions) -> pa.Table:
        data = b"".join(rows)
        if data.startswith(_BOM):
            data = _BOM + data  # pyarrow drops one: here it is a value's first character
        options = csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names)
        parse = csv.ParseOptions(quote_char=self._quote, newlines_in_values=True, ignore_empty_lines=False)
        found = csv.read_csv(pa.BufferReader(data), options, parse, convert)
        if found.num_rows != len(rows):
            raise Unfit(-1)
        return found

    def _refusal(self, rows: list[bytes]) -> JobError:
        """Name the first row that cannot be converted, found by halves, and its first such column."""
        low, high = 0, len(rows)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fails(rows[low:middle]) else (middle, high)
        try:
            texts = [column[0].as_py() for column in self._read(rows[low:high], self._texts).columns]
        except (pa.ArrowInvalid, Unfit):
            return refuse("a row of the source is no line of CSV", advice="look for it in the source")
        key = ", ".join(f"{self.schema[i].name} {_shown(texts[i])}" for i in self._key) or "unknown"
        for number, (text, each) in enumerate(zip(texts, self._columns, strict=True)):
            if text is not None and self._column_fails(number, text):
                name = each.column.name
                return refuse(
                    f"the row with the key {key}: the value of {name} ({each.column.type}) does not fit {each.wanted}",
                    advice="correct the value in the source, or give the column here a type that holds it",
                    field=name,
                )
        return refuse(f"the row with the key {key} cannot be read", advice="look at it in the source")

    def _fails(self, rows: list[bytes]) -> bool:
        try:
            self._made(rows)
        except (pa.ArrowInvalid, Unfit):
            return True
        return False

    def _column_fails(self, number: int, text: bytes) -> bool:
        fields, quote = [b""] * len(self._columns), self._quote.encode()
        fields[number] = quote + text.replace(quote, quote * 2) + quote
        return self._fails([b",".join(fields) + b"\n"])


def _shown(text: bytes | None) -> str | None:
    return None if text is None else text.decode(errors="replace")


def _parsed(each: Conversion) -> pa.DataType:
    """What CSV is read as: exactly, or not at all."""
    if each.how in ("", "finite"):
        return arrow_type(each.wanted)
    return {"days": pa.date32(), "utc": pa.timestamp("us"), "ms": pa.timestamp("us"), "us": pa.timestamp("us")}.get(
        each.how, pa.string()
    )


def _finite(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pc.all(pc.is_finite(array)).as_py() and array.null_count < len(array):
        raise ValueError("not a number")
    return array


def _bytes(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Hex digits, all at once."""
    size = len(array)
    offsets = _offsets(array)
    data = array.buffers()[2]
    start, end = (offsets[0].as_py(), offsets[size].as_py()) if size else (0, 0)
    raw = binascii.unhexlify(memoryview(data)[start:end]) if data is not None else b""
    halves = pc.cast(pc.divide(pc.subtract(offsets, start), 2), pa.int32())
    valid = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.binary(), size, [valid, halves.buffers()[1], pa.py_buffer(raw)])


def _offsets(array: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(array) + 1, [None, array.buffers()[1]], offset=array.offset)


def _base64(array: pa.Array, kind: pa.DataType) -> pa.Array:
    found = [
        None if each is None else binascii.b2a_base64(each, newline=False) for each in _bytes(array, kind).to_pylist()
    ]
    return pa.array(found, pa.binary()).cast(kind)


def _exact(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimals whose type is wider than the wanted one: each has to fit."""
    return pa.array([_fitting(text, kind) for text in array.to_pylist()], kind)


def _fitting(text: str | None, kind: pa.DataType) -> decimal.Decimal | None:
    if text is None:
        return None
    found = decimal.Decimal(text)
    if not found.is_finite():
        raise ValueError(text)
    scaled = found.scaleb(kind.scale, _WIDE)
    if scaled != scaled.to_integral_value() or abs(scaled) >= 10**kind.precision:
        raise ValueError(text)
    return found


_WIDE = decimal.Context(prec=100_000, Emax=999_999, Emin=-999_999)


def _number(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A decimal's own text; PostgreSQL's NaN and infinities are no numbers."""
    if pc.any(pc.match_substring_regex(array, "[^0-9.-]")).as_py():
        raise ValueError("not a number")
    return array


def _iso(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pc.all(pc.match_substring_regex(array, _ISO)).as_py() and array.null_count < len(array):
        raise ValueError("no time of the years 1 to 9999")
    return array


_ISO = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}([.][0-9]{1,6})?Z$"


def _json(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.array([None if text is None else as_in_events(text) for text in array.to_pylist()], kind)


def _as_in_events(characters: str, other: str) -> Callable[[Any, Any], Any]:
    return lambda array, kind: pc.replace_substring_regex(array, f"[{characters}]", other)


def _ms(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array.cast(pa.timestamp("ms")).cast(pa.int64())


_HOW: dict[str, Callable[[Any, Any], Any]] = {
    "finite": _finite, "bytes": _bytes, "base64": _base64, "base64_bytes": _base64, "exact": _exact, "number": _number,
    "days": lambda array, kind: array.cast(pa.int32()).cast(kind), "utc": lambda array, kind: array.cast(kind),
    "iso": _iso, "json": _json,
    "ms": _ms, "us": lambda array, kind: array.cast(pa.int64()),
    **{charset: _as_in_events(*others) for charset, others in IN_EVENTS.items()},
}  # fmt: skip
