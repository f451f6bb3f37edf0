"""Random Avro data in Avro's binary encoding: what the mutated messages start from."""

from __future__ import annotations

import struct
from random import Random

from tests.value_rules.oracle_avro_binary import Schema

_LONGS = (0, 1, -1, 63, 64, -64, -65, 127, 128, 255, 32767, 65536, 2**31 - 1, -(2**31))
_FAR = (2**31, 2**32, 2**53 + 1, 2**63 - 1, -(2**63), 253_402_300_799_999, -62_135_596_800_000, 253_402_300_800_000)
_TIMES = (0, 1_357_358_706_123, -1, 1_357_358_706_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999)
_FLOATS = (0.0, -0.0, 1.5, -2.25, 1e300, 5e-324, 3.4e38, 0.1, 123.45, 1e39)
_ODD = (float("nan"), float("inf"), float("-inf"))
_TEXTS = ("", "x", "123", "-7", "1.5", "true", "aü😀", "2013-01-05", "2013-01-05T04:05:06Z", "null", "\x00", "x" * 200)


def varint(number: int) -> bytes:
    """Zigzag, as Avro's int and long."""
    left = (number << 1) ^ (number >> 63)
    left &= (1 << 64) - 1
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def datum(schema: Schema, rng: Random, depth: int = 0) -> bytes:
    kind = schema.kind
    if kind == "union":
        index = rng.randrange(len(schema.inner))
        if depth > 4 and any(branch.kind == "null" for branch in schema.inner):
            index = [branch.kind for branch in schema.inner].index("null")
        return varint(index) + datum(schema.inner[index], rng, depth + 1)
    if kind == "record":
        return b"".join(datum(inner, rng, depth + 1) for _, inner in schema.inner)
    if kind in ("array", "map"):
        return _blocks(schema, rng, depth)
    if kind == "null":
        return b""
    if kind == "boolean":
        return bytes([rng.randrange(2)])
    if kind in ("int", "long"):
        return varint(_integer(schema, rng))
    if kind in ("float", "double"):
        number = rng.choice(_ODD) if rng.random() < 0.1 else rng.choice((*_FLOATS, rng.uniform(-1000, 1000)))
        if kind == "double":
            return struct.pack("<d", number)
        return struct.pack("<f", number if abs(number) < 3.5e38 or number in _ODD else 1.0)
    if kind == "enum":
        return varint(rng.randrange(len(schema.inner)))
    if kind == "fixed":
        return _number_bytes(schema.size, rng) if schema.logical == "decimal" else rng.randbytes(schema.size)
    return _sized(schema, rng)


def _sized(schema: Schema, rng: Random) -> bytes:
    if schema.logical == "decimal":
        found = _number_bytes(rng.choice((0, 1, 2, 4, 9, 17)), rng)
    elif schema.logical == "uuid":
        raw = rng.randbytes(16).hex()
        found = f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}".encode()
    elif schema.kind == "string":
        found = rng.choice(_TEXTS).encode()
    else:
        found = rng.choice((b"", b"x", rng.randbytes(5), "ü".encode(), b"\xff\x00"))
    return varint(len(found)) + found


def _number_bytes(size: int, rng: Random) -> bytes:
    """A number of two's complement, often a small one."""
    if not size:
        return b""
    small = rng.randint(-(10 ** rng.randint(0, 6)), 10 ** rng.randint(0, 6))
    if rng.random() < 0.7 and -(1 << (8 * size - 1)) <= small < 1 << (8 * size - 1):
        return small.to_bytes(size, "big", signed=True)
    return rng.randbytes(size)


def _integer(schema: Schema, rng: Random) -> int:
    if schema.kind == "int":
        if schema.logical == "date":
            return rng.choice((0, 15_710, -719_162, -719_163, 2_932_896, 2_932_897, rng.randint(-800_000, 3_000_000)))
        return rng.choice((*_LONGS, rng.randint(-(2**31), 2**31 - 1), rng.randint(0, 86_400_000)))
    if schema.logical:
        return rng.choice((*_TIMES, rng.choice(_TIMES) * 1000 % 2**62, rng.randint(-(10**13), 10**13), *_FAR[-3:]))
    return rng.choice((*_LONGS, *_FAR, *_TIMES, rng.randint(-(2**63), 2**63 - 1)))


def _blocks(schema: Schema, rng: Random, depth: int) -> bytes:
    out = bytearray()
    left = rng.choice((0, 1, 2, 3)) if depth < 5 else 0
    while left:
        count = rng.randint(1, left)
        items = b"".join(_item(schema, rng, depth) for _ in range(count))
        out += varint(-count) + varint(len(items)) if rng.random() < 0.3 else varint(count)
        out += items
        left -= count
    return bytes(out) + b"\x00"


def _item(schema: Schema, rng: Random, depth: int) -> bytes:
    key = b""
    if schema.kind == "map":
        text = rng.choice(("a", "b", "7", "", "ü")).encode()
        key = varint(len(text)) + text
    return key + datum(schema.inner, rng, depth + 1)
