"""Thrift's compact protocol, as far as a Parquet footer goes: bytes to a tree and back, nothing lost."""

from __future__ import annotations

from typing import Any

from spark_jobs.engine.varint import varint

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)

Field = list
"""[id, type, value]; a list is [type of its elements, values]."""


def decode(data: bytes) -> list[Field]:
    """A struct. Raises ValueError if `data` is not exactly one."""
    reader = _Reader(data)
    try:
        found = reader.struct()
    except IndexError:
        raise ValueError("a Thrift struct ends too early") from None
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} bytes after a Thrift struct")
    return found


def encode(struct: list[Field]) -> bytes:
    out = bytearray()
    _put(out, _STRUCT, struct)
    return bytes(out)


def get(struct: list[Field], number: int) -> Any:
    """The value of a field; None where there is none."""
    return next((value for n, _, value in struct if n == number), None)


def put(struct: list[Field], number: int, value: Any) -> None:
    """Replace the value of a field that is there."""
    next(field for field in struct if field[0] == number)[2] = value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self) -> list[Field]:
        fields: list[Field] = []
        number = 0
        while header := self._byte():
            kind, delta = header & 15, header >> 4
            number = number + delta if delta else _unzigzag(self._varint())
            fields.append([number, kind, self._value(kind)])
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return None  # the type says it
        if kind in _INTEGERS:
            return _unzigzag(self._varint())
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            header = self._byte()
            size, inner = header >> 4, header & 15
            size = self._varint() if size == 15 else size
            return [inner, [self._element(inner) for _ in range(size)]]
        if kind in (_BYTE, _DOUBLE):
            return self._take(1 if kind == _BYTE else 8)
        raise ValueError(f"a Parquet footer has no Thrift type {kind}")

    def _element(self, kind: int) -> Any:
        return self._take(1) if kind in (_TRUE, _FALSE) else self._value(kind)

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self._data):
            raise IndexError
        return self._data[self.at - size : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind == _STRUCT:
        last = 0
        for number, inner, each in value:
            if 0 < number - last < 16:
                out.append(number - last << 4 | inner)
            else:
                out.append(inner)
                out += varint(_zigzag(number))
            last = number
            if inner not in (_TRUE, _FALSE):
                _put(out, inner, each)
        out.append(0)
    elif kind in _INTEGERS:
        out += varint(_zigzag(value))
    elif kind == _BINARY:
        out += varint(len(value))
        out += value
    elif kind in (_LIST, _SET):
        inner, values = value
        out.append(min(len(values), 15) << 4 | inner)
        if len(values) >= 15:
            out += varint(len(values))
        for each in values:
            _put(out, inner, each)
    else:
        out += value


def _zigzag(value: int) -> int:
    return value << 1 ^ value >> 63


def _unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)
