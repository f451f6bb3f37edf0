"""The end of an ORC file, made to say more than pyarrow can write there: labels, and by which calendar dates count.

    ... | stripe statistics | footer | postscript | length of the postscript, 1 byte

The footer is a protobuf message, so fields can be appended to it; where the file is compressed they are one more chunk
of its stream, stored as it is. The postscript names the footer's length and is never compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spark_jobs.engine.varint import varint

_FOOTER_LENGTH, _COMPRESSION, _BLOCK_SIZE = 1, 2, 3  # fields of the postscript
_METADATA, _CALENDAR = 5, 11  # fields of the footer
_PROLEPTIC_GREGORIAN = 2
_VARINT, _BYTES = 0, 2  # protobuf's wire types
_MIB = 1024 * 1024


def with_labels(end: bytes, labels: Mapping[str, str]) -> bytes:
    """`end`: the last bytes of a file, the footer among them. Raises ValueError if they are no end of an ORC file."""
    length = end[-1] if end else 0
    postscript = end[-1 - length : -1]
    fields = list(_fields(postscript))
    told = {number: value for number, value, _ in fields}
    footer_length, at = told.get(_FOOTER_LENGTH), len(end) - 1 - length
    if b"ORC" not in postscript or not isinstance(footer_length, int) or footer_length > at:
        raise ValueError("this is not the end of an ORC file")
    added = _key(_CALENDAR, _VARINT) + varint(_PROLEPTIC_GREGORIAN)
    for name, value in labels.items():
        added += _field(_METADATA, _field(1, name.encode()) + _field(2, value.encode()))
    block = told.get(_BLOCK_SIZE, _MIB)
    assert isinstance(block, int)
    stored = _chunks(added, block) if told.get(_COMPRESSION, 0) else added
    rest = b"".join(raw for number, _, raw in fields if number != _FOOTER_LENGTH)
    postscript = _key(_FOOTER_LENGTH, _VARINT) + varint(footer_length + len(stored)) + rest
    if len(postscript) > 255:
        raise ValueError("the postscript has grown too long")
    return end[:at] + stored + postscript + bytes([len(postscript)])


def _chunks(content: bytes, block: int) -> bytes:
    """Chunks of a compressed stream that are not compressed: a length and a flag in three bytes, little-endian."""
    parts = [content[i : i + block] for i in range(0, len(content), block)]
    return b"".join((len(part) << 1 | 1).to_bytes(3, "little") + part for part in parts)


def _field(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + varint(len(content)) + content


def _key(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    """(number, value, the field as it is spelled)"""
    at = 0
    while at < len(message):
        start = at
        key, at = _number(message, at)
        if key & 7 == _VARINT:
            value, at = _number(message, at)
            yield key >> 3, value, message[start:at]
        elif key & 7 == _BYTES:
            size, at = _number(message, at)
            at += size
            yield key >> 3, message[at - size : at], message[start:at]
        else:
            raise ValueError("this is not the end of an ORC file")


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("this is not the end of an ORC file")
