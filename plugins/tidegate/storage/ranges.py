"""A file as a stream whose pieces are each read by a request of its own."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from tidegate.core.base.errors import StorageError


class RangeReader(io.RawIOBase):
    """`read(at, count)` gives at least one byte, at most `count`."""

    def __init__(self, path: str, size: int, read: Callable[[int, int], bytes]) -> None:
        self._path, self._size, self._read, self._at = path, size, read, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._at)
        if count <= 0:
            return 0
        found = self._read(self._at, count)
        if not 0 < len(found) <= count:
            raise StorageError(f"{self._path}: {len(found)} bytes came where {count} were asked for")
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)
