"""Whole numbers as protobuf, ORC and Thrift spell them: seven bits a byte, the low ones first."""

from __future__ import annotations


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
