"""Files on their way to another cluster: copied byte by byte, read back there, and compared with their manifest."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Protocol

from tidegate.core.base.errors import DeliveryRefused, PathMissing
from tidegate.core.base.storage import Storage, can_rename
from tidegate.core.deliver.port import Rows
from tidegate.core.files.failure import JobError
from tidegate.core.files.merge import Source
from tidegate.core.files.overflow import MAX_KEY_BYTES, bytes_of_key
from tidegate.core.files.receipt import FileEntry
from tidegate.core.target.paths import is_uri

PIECE = 1 << 20


class Files(Storage, Protocol):
    """Storage whose files may be large, as workers open it."""

    def open_existing(self, path: str) -> BinaryIO:
        """Raises PathMissing."""
        ...

    def open_new(self, path: str) -> BinaryIO:
        """Raises PathExists."""
        ...


@dataclass(frozen=True)
class Copied:
    """A file as it arrived: its manifest's entry, with its path below the window's place there, and the SHA-256 of its
    bytes."""

    entry: FileEntry
    digest: str


def path_there(entry: FileEntry) -> str:
    """A file's path below its window's place; of one that its manifest names by a URI another name, its own alone."""
    if not is_uri(entry.path):
        return entry.path
    return f"{hashlib.sha256(entry.path.encode()).hexdigest()[:12]}-{entry.path.rpartition('/')[2]}"


def refuse_long_keys(paths: Iterable[str]) -> None:
    """Raises DeliveryRefused for files that an object store takes under no such name, before any of them is copied."""
    longest = max((path for path in paths if not can_rename(path)), key=bytes_of_key, default="")
    if longest and bytes_of_key(longest) > MAX_KEY_BYTES:
        raise DeliveryRefused(
            f"a key would have {bytes_of_key(longest):,} bytes, more than the {MAX_KEY_BYTES:,} bytes that an object "
            f"store takes, and nothing was copied: {longest}",
            advice="make the delivery's location shorter, then send what was refused by its name; or leave it out "
            "(tidegate deliver ... --skip)",
            retry=False,
        )


class Pace:
    """Lets `rate` bytes through a second; None: all of them."""

    def __init__(
        self,
        rate: int | None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate, self._now, self._sleep = rate, now, sleep
        self._free = now()

    def wait_for(self, count: int) -> None:
        """Return when these bytes may pass."""
        if self._rate is None:
            return
        now = self._now()
        self._free = max(self._free, now) + count / self._rate
        self._sleep(self._free - now)


class Copying:
    """Copies one generation's files to `there`."""

    def __init__(self, there: Files, rows: Rows, pace: Pace) -> None:
        self._there, self._rows, self._pace = there, rows, pace

    def copy(self, file: Source, path: str) -> Copied:
        """A new file at `path`. Raises DeliveryRefused, JobError for one that is not its manifest's, StorageError."""
        sent, count = hashlib.sha256(), 0
        with self._rows.opened(file) as here, self._there.open_new(path) as copy:
            for piece in pieces(here):
                self._pace.wait_for(len(piece))
                copy.write(piece)
                sent.update(piece)
                count += len(piece)
        if count != file.entry.bytes:
            raise DeliveryRefused(
                f"{file.uris[0]} has {count:,} bytes, its manifest says {file.entry.bytes:,}",
                advice="restore it from a backup of the filesystem, or rebuild the window: tidegate replay",
                retry=False,
            )
        return self._arrived(file, path, sent.hexdigest())

    def whole(self, file: Source, path: str) -> Copied | None:
        """What an earlier try has copied to `path`; None unless it is whole. The file here is read again: rows alone do
        not tell of a damaged footer."""
        sent = hashlib.sha256()
        with self._rows.opened(file) as here:
            for piece in pieces(here):
                sent.update(piece)
        try:
            return self._arrived(file, path, sent.hexdigest())
        except (DeliveryRefused, JobError, PathMissing):
            return None

    def _arrived(self, file: Source, path: str, sent: str) -> Copied:
        """Read back once, into a local file: its bytes are compared with those `sent`, its rows with the manifest."""
        found, count = hashlib.sha256(), 0
        with tempfile.TemporaryFile() as local, self._there.open_existing(path) as copy:
            for piece in pieces(copy):
                local.write(piece)
                found.update(piece)
                count += len(piece)
            if count != file.entry.bytes or sent != found.hexdigest():
                raise DeliveryRefused(f"{path}: other bytes arrived than were sent ({count:,} of {file.entry.bytes:,})")
            local.seek(0)
            self._rows.prove(file, local)
        return Copied(replace(file.entry, path=path_there(file.entry)), found.hexdigest())


def digest(there: Files, path: str) -> str:
    """SHA-256 of a file's bytes. Raises PathMissing, StorageError."""
    with there.open_existing(path) as file:
        return digest_of(file)


def digest_of(file: BinaryIO) -> str:
    """SHA-256 of all bytes."""
    found = hashlib.sha256()
    for piece in pieces(file):
        found.update(piece)
    return found.hexdigest()


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """A file's bytes in pieces that fit into memory."""
    while piece := file.read(PIECE):
        yield piece
