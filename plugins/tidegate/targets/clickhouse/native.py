"""Arrow columns as blocks of ClickHouse's format Native: by column, little-endian, nulls in a map before the values.

Every version reads it, and numpy writes it: no value becomes an object.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.uint8]


def block(columns: Sequence[tuple[str, str, pa.Array]]) -> bytes:
    """One block of (name, ClickHouse type, values as they are stored there)."""
    parts = [_varint(len(columns)), _varint(len(columns[0][2]))]
    for name, kind, values in columns:
        parts += [_text(name), _text(kind)]
        if kind.startswith("Nullable("):
            parts.append(pc.cast(values.is_null(), pa.uint8()).to_numpy(zero_copy_only=False).tobytes())
        parts.append(_values(values))
    return b"".join(parts)


def fixed(values: pa.Array) -> npt.NDArray[np.generic]:
    """Numbers, one for each row; zero for null. A decimal is two words of 64 bits."""
    if pa.types.is_decimal(values.type):
        words = np.frombuffer(values.buffers()[1], dtype=np.uint64).reshape(-1, 2)
        words = words[values.offset : values.offset + len(values)].copy()
        words[np.asarray(values.is_null())] = 0
        return words
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False))


def _values(values: pa.Array) -> bytes:
    if pa.types.is_large_binary(values.type):
        return _binaries(values)
    if pa.types.is_decimal(values.type):
        words = fixed(values)
        if values.type.precision > 18:
            return words.tobytes()
        return words[:, 0].astype(np.uint32 if values.type.precision <= 9 else np.uint64).tobytes()
    return fixed(values).tobytes()


def _binaries(values: pa.Array) -> bytes:
    """Each value after its length, a number of seven bits to a byte."""
    values = pc.fill_null(values, b"")
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    lengths = np.diff(offsets)
    heads = np.ones(len(lengths), dtype=np.int64)
    for bits in range(7, 64, 7):
        if not (longer := lengths >> bits > 0).any():
            break
        heads += longer
    begins = np.cumsum(lengths + heads) - lengths - heads
    out: Bytes = np.empty(int((lengths + heads).sum()), dtype=np.uint8)
    for i in range(int(heads.max(initial=0))):
        here = heads > i
        more = np.where(heads[here] > i + 1, 0x80, 0)
        out[begins[here] + i] = (lengths[here] >> 7 * i & 0x7F) | more
    if len(lengths) and (total := int(offsets[-1] - offsets[0])):
        data = np.frombuffer(values.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
        out[np.arange(total) + np.repeat(begins + heads - (offsets[:-1] - offsets[0]), lengths)] = data
    return out.tobytes()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _text(value: str) -> bytes:
    data = value.encode()
    return _varint(len(data)) + data
