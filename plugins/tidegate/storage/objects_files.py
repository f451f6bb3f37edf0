"""A file of an object store as a stream: it appears once it is whole."""

from __future__ import annotations

import io
import secrets
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

PART = 8 << 20
"""Bytes of one part of an upload; a smaller file is written by one request."""
UPLOADS = 4
"""Parts of a file that are under way at once."""


class Objects(Protocol):
    """What the stream asks of the storage."""

    def write_new(self, path: str, content: bytes) -> None: ...

    def begin(self, path: str, nonce: str) -> Any:
        """An upload in parts."""
        ...

    def send(self, path: str, upload: Any, piece: bytes) -> None: ...

    def complete(self, path: str, upload: Any, rest: bytes, nonce: str) -> None:
        """Publish what was sent, and `rest`."""
        ...


class NewObject(io.RawIOBase):
    """A file that others see once it is closed without an error: never in part, and never after an exception."""

    def __init__(self, storage: Objects, path: str) -> None:
        self._storage, self._path = storage, path
        self._waiting = bytearray()
        self._upload: Any = None
        self._nonce = secrets.token_hex(12)
        self._size = 0
        self._given_up = False

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        if self.closed:
            raise ValueError(f"{self._path}: the file is closed")
        view = memoryview(data).cast("B")
        try:
            self._take(view)
        except BaseException:
            self._given_up = True
            raise
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        return self._size

    def abandon(self) -> None:
        """Let go of what was written: there will be no file. The store's own rule clears parts that were sent."""
        self._given_up = True
        self.close()

    def close(self) -> None:
        """Publish the file, unless it was given up. Raises PathExists, OutcomeUnknown and other errors of a write."""
        if self.closed:
            return
        waiting, upload = bytes(self._waiting), self._upload
        self._waiting, self._upload = bytearray(), None
        super().close()
        if self._given_up:
            return
        if upload is None:
            self._storage.write_new(self._path, waiting)
        else:
            self._storage.complete(self._path, upload, waiting, self._nonce)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self.abandon()
        self.close()

    def __del__(self) -> None:
        self._given_up = True  # left open: nobody has said that it is whole
        super().__del__()

    def _take(self, view: memoryview) -> None:
        self._waiting += view
        if len(self._waiting) < PART:
            return
        if self._upload is None:
            self._upload = self._storage.begin(self._path, self._nonce)
        whole = len(self._waiting) - len(self._waiting) % PART
        piece, self._waiting = bytes(self._waiting[:whole]), self._waiting[whole:]
        self._storage.send(self._path, self._upload, piece)
