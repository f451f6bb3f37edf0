"""The row identity without the C library: the same numbers, by numpy. docs/row-identity.md is what both go by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

NULL_HASH, MULTIPLIER = 0xBF58476D1CE4E5B9, 0xD6E8FEB86659FD93
_SEED, _LENGTH = 0xE17A1465, 0xC6A4A7935BD1E995
_MASK = 2**64 - 1
_WORDS = 64
"""Values of more words are hashed one by one."""

Hashes = Any  # np.ndarray of uint64
_HALF, _K = np.uint64(32), np.uint64(MULTIPLIER)


def row_hashes(columns: list[pa.Array]) -> Hashes:
    """At least one column; of types that `identity` hashes as they are."""
    state = None
    for column in columns:
        # copies of slices: so that nothing has an offset, and fields of structs are no longer than they
        whole = column.take(pa.array(np.arange(len(column)))) if pa.types.is_nested(column.type) else column
        state = _fold(whole, state, None)
    return state


def _fold(values: pa.Array, state: Hashes | None, dead: Any) -> Hashes:
    """`dead`: which are null for the sake of what they are a part of."""
    kind = values.type
    null = values.is_null().to_numpy(zero_copy_only=False)
    null = null if dead is None else null | dead
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            state = _fold(values.field(i), state, null)
        return state
    if pa.types.is_map(kind):
        low, ends = _ends(values, np.int32)
        count = int(ends[-1]) - low
        items = _fold(values.items.slice(low, count), _fold(values.keys.slice(low, count), None, None), None)
        return _fold_items(items, ends - low, null, state)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        low, ends = _ends(values, np.int32 if pa.types.is_list(kind) else np.int64)
        items = _fold(values.values.slice(low, int(ends[-1]) - low), None, None)
        return _fold_items(items, ends - low, null, state)
    hashes = np.where(null, np.uint64(NULL_HASH), _hashes(values))
    return hashes if state is None else _joined(state, hashes)


def _joined(before: Hashes, hashes: Hashes) -> Hashes:
    return (before ^ before >> _HALF) * _K ^ hashes


def _mixed(x: Hashes) -> Hashes:
    x = (x ^ x >> _HALF) * _K
    x = (x ^ x >> _HALF) * _K
    return x ^ x >> _HALF


def _ends(values: pa.Array, kind: Any) -> tuple[int, Any]:
    found = _buffer(values, 1, kind, len(values) + 1)
    return int(found[0]), found.astype(np.int64)


def _buffer(values: pa.Array, at: int, kind: Any, count: int) -> Any:
    buffer = values.buffers()[at]
    if buffer is None or not buffer.size:
        return np.zeros(count, kind)
    size = np.dtype(kind).itemsize
    return np.frombuffer(buffer, np.uint8)[values.offset * size : (values.offset + count) * size].view(kind)


def _fold_items(items: Hashes, ends: Any, null: Any, state: Hashes | None) -> Hashes:
    starts, left = ends[:-1], np.where(null, 0, np.diff(ends))
    position = 0
    if state is None:
        state = np.full(len(left), NULL_HASH, np.uint64)
        some = np.flatnonzero(left)
        state[some] = items[starts[some]]
        position = 1
    state = state.copy()
    rows = np.flatnonzero(left > position)
    while len(rows):
        state[rows] = _joined(state[rows], items[starts[rows] + position])
        position += 1
        rows = rows[left[rows] > position]
    return state


def _hashes(values: pa.Array) -> Hashes:
    kind, count = values.type, len(values)
    if pa.types.is_boolean(kind):
        return _mixed(values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64))
    if pa.types.is_decimal128(kind):
        words = _buffer(values, 1, np.dtype([("low", "<u8"), ("high", "<u8")]), count)
        if kind.precision <= 9:
            return _mixed(words["low"] & np.uint64(2**32 - 1))
        return _mixed(words["low"]) if kind.precision <= 18 else _mixed(words["low"]) ^ _mixed(words["high"])
    if pa.types.is_floating(kind):
        numbers = _buffer(values, 1, kind.to_pandas_dtype(), count)
        numbers = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), np.where(numbers == 0, 0, numbers))
        bits = numbers.astype(numbers.dtype).view(f"<u{kind.bit_width // 8}")
        return _mixed(bits.astype(np.uint64))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _bytes(values, np.int32)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _bytes(values, np.int64)
    numbers = _buffer(values, 1, f"<i{kind.bit_width // 8}", count)
    return _mixed(numbers.view(np.uint64) if kind.bit_width == 64 else numbers.astype(np.uint32).astype(np.uint64))


def _bytes(values: pa.Array, kind: Any) -> Hashes:
    low, ends = _ends(values, kind)
    data = values.buffers()[2]
    content = (b"" if data is None else data.slice(low, int(ends[-1]) - low).to_pybytes()) + bytes(8)
    words = np.ndarray(len(content) - 7, "<u8", content, strides=(1,))  # at every byte, those that follow it
    starts, lengths = ends[:-1] - low, np.diff(ends)
    state = np.uint64(_SEED) ^ lengths.astype(np.uint64) * np.uint64(_LENGTH)
    full = lengths // 8
    rows, position = np.flatnonzero(full), 0
    while len(rows) and position < _WORDS:
        state[rows] = (state[rows] ^ words[starts[rows] + 8 * position]) * _K
        position += 1
        rows = rows[full[rows] > position]
    for row in rows.tolist():
        state[row] = _long(int(state[row]), content, int(starts[row]) + 8 * position, int(full[row]) - position)
    rows = np.flatnonzero(lengths % 8)
    rest = (lengths[rows] % 8).astype(np.uint64)
    last = words[starts[rows] + 8 * full[rows]] & ((np.uint64(1) << np.uint64(8) * rest) - np.uint64(1))
    state[rows] = (state[rows] ^ last) * _K
    return _mixed(state)


def _long(state: int, content: bytes, start: int, words: int) -> int:
    for word in np.frombuffer(content, "<u8", words, start).tolist():
        state = (state ^ word) * MULTIPLIER & _MASK
    return state
