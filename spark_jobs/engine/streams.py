"""Streams into files that are opened late: many small files may be written at once, few are open on the filesystem."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO


class KeptOpen:
    """What pyarrow asks of a stream that it writes to, beside `write` and `tell`. pyarrow closes what it lets go of:
    here that does nothing: the file's opener closes it."""

    mode = "wb"
    closed = False

    def flush(self) -> None:
        """Nothing is promised before the file is closed."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """See above."""


class Tap(KeptOpen):
    """Passes bytes on to a stream; after `keep` they are kept instead: the end of a file that goes on."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self._position = stream, stream.tell()
        self._keeps = False
        self.kept: list[bytes] = []

    def keep(self) -> None:
        self._keeps = True

    def write(self, data: bytes) -> int:
        size = memoryview(data).nbytes
        if self._keeps:
            self.kept.append(bytes(data))
        else:
            self.stream.write(data)
        self._position += size
        return size

    def tell(self) -> int:
        return self._position


class Stream(KeptOpen):
    """What is written waits in memory until `spill`; after that it goes straight to the file. Bytes in `waiting`."""

    def __init__(self, open_file: Callable[[], BinaryIO]) -> None:
        self._open_file = open_file
        self._file: BinaryIO | None = None
        self._parts: list[bytes] = []
        self._position = self.waiting = 0

    @property
    def spilled(self) -> bool:
        return self._file is not None

    def write(self, data: bytes) -> int:
        size = memoryview(data).nbytes
        if self._file is None:
            self._parts.append(bytes(data))
            self.waiting += size
        else:
            self._file.write(data)
        self._position += size
        return size

    def spill(self) -> BinaryIO:
        """Open the file, if it is not open yet, and write what waits."""
        if self._file is None:
            self._file = self._open_file()
            self._file.write(b"".join(self._parts))
            self._parts, self.waiting = [], 0
        return self._file

    def abandon(self) -> None:
        """Let go of the file, whatever it holds."""
        self._parts, self.waiting = [], 0
        if self._file is not None:
            getattr(self._file, "abandon", self._file.close)()  # where closing would publish it

    def tell(self) -> int:
        return self._position
