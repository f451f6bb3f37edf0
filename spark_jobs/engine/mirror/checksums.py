"""Checksums of a mirror's rows by ranges or groups of its key, as the source's database computes its own.

`docs/mirrors.md` has the texts of values; the databases' side is `tidegate.databases.forms`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.mirror.numbers import Numbers, column_of, numbers
from spark_jobs.engine.mirror.shape import Shape
from tidegate.core.copy.checksums import EVERYTHING, Sums, TableKeys
from tidegate.core.copy.port import Form, KeyGroups, KeyRange

OUTSIDE = -1
_AT_ONCE = 20_000
"""Rows whose texts are in memory."""
_PLAIN_TEXT = 6
"""Up to this scale Arrow writes decimals without an exponent."""
_LEAST, _MOST = -(2**63), 2**63 - 1
_BITS = 60
"""Of a row's number."""


# ---------------------------------------------------------------- tables, and parts of the key


def inside(shape: Shape, rows: pa.Table, keys: Sequence[TableKeys]) -> Numbers:
    """Which of the rows are of these keys."""
    found = np.zeros(len(rows), np.bool_)
    for one, places in zip(keys, of_tables(shape, rows, keys), strict=True):
        found[places] = of_keys(shape, _taken(rows, places), one) != OUTSIDE
    return found


def of_tables(shape: Shape, rows: pa.Table, keys: Sequence[TableKeys]) -> Iterator[Numbers]:
    """Places of the rows that are of each table."""
    if not keys[0].said:
        yield np.arange(len(rows))
        return
    names = [shape.named(column) for column, _ in keys[0].said]
    known = {_NUL.join(value for _, value in one.said): n for n, one in enumerate(keys)}
    said = pc.binary_join_element_wise(*[rows[name].cast(pa.string()) for name in names], _NUL)
    encoded = pc.fill_null(said, _NUL).combine_chunks().dictionary_encode()
    place = np.array([known.get(value, OUTSIDE) for value in encoded.dictionary.to_pylist()], np.int64)
    table = place[numbers(encoded.indices)]
    order = np.argsort(table, kind="stable")
    ends = np.searchsorted(table[order], np.arange(len(keys) + 1))
    for n in range(len(keys)):
        yield order[ends[n] : ends[n + 1]]


def _taken(rows: pa.Table, places: Numbers) -> pa.Table:
    """Rows at these places, which are in order."""
    return rows if len(places) == len(rows) else rows.take(column_of(places))


_NUL = "\0"
"""No name of a table has it."""


def of_keys(shape: Shape, rows: pa.Table, keys: TableKeys) -> Numbers:
    """Which of the parts each row's key lies in; OUTSIDE: in none."""
    if keys.groups is not None:
        texts = [(shape.named(name), form) for name, form in zip(keys.columns, keys.forms, strict=True)]
        return grouped(row_numbers(rows, texts), keys.groups)
    if keys.ranges == EVERYTHING:
        return np.zeros(len(rows), np.int64)
    values = shape.key_numbers(rows, keys.columns)
    return located([values[name] for name in keys.columns], keys.ranges)


def grouped(keys: Numbers, groups: KeyGroups) -> Numbers:
    """Which of the groups each key is of, by its number; OUTSIDE: of none."""
    places = np.full(2**groups.bits, OUTSIDE, np.int64)
    places[list(groups.numbers)] = np.arange(len(groups.numbers))
    return places[(keys >> np.uint64(_BITS - groups.bits)).astype(np.int64)]


def located(keys: Sequence[Numbers], ranges: Sequence[KeyRange]) -> Numbers:
    """Which of the ranges each key lies in, OUTSIDE: in none. `keys`: an array for each of its columns. `ranges`: of
    whole numbers, apart from each other and in order; only the first and the last may have no end."""
    begun = int(bool(ranges) and ranges[0].lower is None)
    cuts = [bound for one in ranges for bound in (one.lower, one.upper) if bound is not None]
    below = begun + _cuts_below(keys, [tuple(min(max(int(v), _LEAST), _MOST) for v in cut) for cut in cuts])
    return np.where(below % 2 == 1, below // 2, OUTSIDE)


def _cuts_below(keys: Sequence[Numbers], cuts: Sequence[tuple[int, ...]]) -> Numbers:
    """How many of the cuts, which are in order, are less than each key: one is sorted behind the keys that equal it."""
    count = len(keys[0])
    columns = [np.concatenate([mine, np.array([c[i] for c in cuts], np.int64)]) for i, mine in enumerate(keys)]
    is_cut = np.arange(count + len(cuts)) >= count
    order = np.lexsort((is_cut, *reversed(columns)))
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(is_cut[order])
    return found[:count]


def summed(shape: Shape, held: pa.Table, keys: Sequence[TableKeys]) -> Sums:
    """Of the rows of a bucket, without its tombstones."""
    rows = held.filter(pc.invert(shape.deleted(held)))
    found = [
        _of_table(shape, _taken(rows, places), one)
        for one, places in zip(keys, of_tables(shape, rows, keys), strict=True)
    ]
    counts = tuple(count for one in found for count in one.rows)
    return Sums(counts, tuple(total for one in found for total in one.totals), len(rows) - sum(counts))


def _of_table(shape: Shape, rows: pa.Table, keys: TableKeys) -> Sums:
    texts = [(shape.named(name), form) for name, form in keys.summed]
    return sums_of(of_keys(shape, rows, keys), row_numbers(rows, texts), keys.parts)


def sums_of(at: Numbers, rows: Numbers, parts: int) -> Sums:
    """How many rows, and the sum of their numbers modulo 2^64, each part has. `at`: the part of each row."""
    within = at != OUTSIDE
    totals = np.zeros(parts, np.uint64)
    np.add.at(totals, at[within], rows[within])
    return Sums(tuple(np.bincount(at[within], minlength=parts).tolist()), tuple(totals.tolist()))


# ---------------------------------------------------------------- numbers of rows


def row_numbers(rows: pa.Table, columns: Sequence[tuple[str, Form]]) -> Numbers:
    """The first 60 bits of the SHA-256 of the texts of these columns."""
    parts = [_numbers(rows.slice(at, _AT_ONCE), columns) for at in range(0, len(rows), _AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def _numbers(rows: pa.Table, columns: Sequence[tuple[str, Form]]) -> Numbers:
    fields = [text(rows[name].combine_chunks(), form) for name, form in columns]
    joined = pc.binary_join_element_wise(*fields, pa.scalar(b",", pa.large_binary()))
    digests = b"".join(hashlib.sha256(one).digest()[:8] for one in joined.to_pylist())
    return np.frombuffer(digests, ">u8").astype(np.uint64) >> np.uint64(4)


def text(array: pa.Array, form: Form) -> pa.Array:
    """The text of each value in this form, empty of a null. What has none in the database's form has one of its own,
    which differs from all of them."""
    try:
        found = _HOW[form.name](array, form)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError):
        found = pa.array([None if value is None else f"odd {value!r}" for value in array.to_pylist()], pa.string())
    return pc.fill_null(found.cast(pa.large_binary()), b"")


def _sized(array: pa.Array, form: Form) -> pa.Array:
    value = array.cast(pa.large_binary())
    size = pc.binary_length(value).cast(pa.string()).cast(pa.large_binary())
    return pc.binary_join_element_wise(size, value, pa.scalar(b":", pa.large_binary()))


def _integer(array: pa.Array, form: Form) -> pa.Array:
    return (array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array).cast(pa.string())


def _decimal(array: pa.Array, form: Form) -> pa.Array:
    if array.type.scale > _PLAIN_TEXT:
        plain = pa.array([None if each is None else f"{each:f}" for each in array.to_pylist()], pa.string())
    else:
        plain = array.cast(pa.string())
    return pc.utf8_rtrim(pc.utf8_rtrim(plain, "0"), ".") if array.type.scale else plain


def _bits(array: pa.Array, form: Form) -> pa.Array:
    digits, whole = (16, pa.int64()) if pa.types.is_float64(array.type) else (8, pa.int32())
    mask = (1 << 4 * digits) - 1
    return pa.array([None if v is None else f"{v & mask:0{digits}x}" for v in array.view(whole).to_pylist()])


def _hex(array: pa.Array, form: Form) -> pa.Array:
    return pa.array([None if value is None else f"x{value.hex()}" for value in array.to_pylist()], pa.string())


def _days(array: pa.Array, form: Form) -> pa.Array:
    return array.cast(pa.int32()).cast(pa.date32()).cast(pa.string())


def _time(array: pa.Array, form: Form) -> pa.Array:
    whole = array.cast(pa.timestamp("us")).cast(pa.string())  # with six digits
    if form.digits is None:
        return pc.utf8_rtrim(pc.utf8_rtrim(whole, "0"), ".")
    if form.digits == _SIX:
        return whole
    zeros = f"0{{{_SIX - form.digits}}}$"  # a value with more digits keeps them, and differs
    return pc.replace_substring_regex(whole, zeros if form.digits else rf"\.{zeros}", "")


_SIX = 6


def _since_1970(unit: str) -> Callable[[Any, Form], Any]:
    return lambda array, form: _time(array.cast(pa.int64()).cast(pa.timestamp(unit)), form)


_HOW: dict[str, Callable[[Any, Form], Any]] = {
    "text": _sized, "integer": _integer, "decimal": _decimal, "bits": _bits, "hex": _hex, "days": _days,
    "date": lambda array, form: array.cast(pa.string()), "time": _time, "ms": _since_1970("ms"),
    "us": _since_1970("us"),
}  # fmt: skip
