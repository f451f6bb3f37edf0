"""Messages as a broker stores and sends them: one frame after another in the answer to a pull."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from tidegate.core.source.records import Headers

_FORMS = {  # by which of two hosts has an address of IPv6: 16 bytes instead of 4
    v6: struct.Struct(f">iiI4x4xq8xiq{20 if v6 & 16 else 8}xq{20 if v6 & 32 else 8}x4x8xi") for v6 in (0, 16, 32, 48)
}
_V6, _COMPRESSED, _SEVERAL = 0x30, 0x1, 0x80
_TOPIC_BYTES = {-626843481: 1, -626843477: 2}  # by magic: how many bytes say the topic's length


class Damaged(Exception):
    """The bytes from here on aren't a message."""


class Message(NamedTuple):
    """`stored_ms` is the broker's time, `born_ms` the producer's."""

    offset: int
    stored_ms: int
    born_ms: int
    body: bytes
    properties: list[tuple[bytes, bytes]]

    @property
    def key(self) -> bytes | None:
        """What a producer gave as the message's keys, with blanks between them."""
        return next((value for name, value in self.properties if name == b"KEYS"), None)

    def headers(self) -> Headers | None:
        """All properties, then BORN_TIMESTAMP (epoch ms). A name that isn't UTF-8 makes all of them unknown."""
        try:
            found: Headers = [(name.decode(), value) for name, value in self.properties]
        except UnicodeDecodeError:
            return [(None, None)]
        return [*found, ("BORN_TIMESTAMP", str(self.born_ms).encode())]


def message_at(frames: bytes, start: int) -> tuple[Message, int]:
    """The message that begins there, and where it ends. Raises Damaged."""
    try:
        (flags,) = struct.unpack_from(">i", frames, start + 36)
        form = _FORMS[flags & _V6]
        size, magic, crc, offset, _, born_ms, stored_ms, length = form.unpack_from(frames, start)
        at, end = start + form.size, start + size
        body = frames[at : at + length]
        topic_bytes = _TOPIC_BYTES[magic]
        at += length
        at += topic_bytes + int.from_bytes(frames[at : at + topic_bytes], "big")
        properties = frames[at + 2 : end]
        if length < 0 or not at + 2 + (frames[at] << 8 | frames[at + 1]) == end <= len(frames):
            raise Damaged("its parts are not as long as the message")
    except (struct.error, IndexError, KeyError):
        raise Damaged("no message begins there") from None
    if zlib.crc32(body) & 0x7FFFFFFF != crc:
        raise Damaged("its checksum differs")
    if flags & _SEVERAL:
        raise Damaged("several messages lie in one: topics of type BatchCQ can't be read")
    if flags & _COMPRESSED:
        body = _decompressed(body, flags >> 8 & 7)
    pairs = [pair.partition(b"\x01") for pair in properties.split(b"\x02")]
    return Message(offset, stored_ms, born_ms, body, [(name, value) for name, mark, value in pairs if mark]), end


def _decompressed(body: bytes, kind: int) -> bytes:
    """`kind`: 0 of producers before 5.0, which is zlib too."""
    try:
        if kind in (0, 3):
            return zlib.decompress(body)
        if kind in (1, 2):
            import pyarrow as pa

            found: bytes = pa.CompressedInputStream(pa.BufferReader(body), "lz4" if kind == 1 else "zstd").read()
            return found
    except (zlib.error, OSError) as e:
        raise Damaged(f"it can't be decompressed: {e}") from None
    raise Damaged(f"it is compressed in an unknown way ({kind})")
