"""An object store in memory: nothing moves, no directories, and a file is seen once it is whole."""

from __future__ import annotations

import io
import re
import threading

from tidegate.core.base.errors import PathExists, PathMissing, StorageError
from tidegate.core.base.storage import FileStat, Storage


class MemoryObjects:
    """Implements `core.base.storage.Storage` for any scheme, for many threads, with answers as `ObjectStorage` gives.

    Modification times are a counter: two writes never share one.
    """

    renames = False

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.RLock()
        self._writes = 0

    def __deepcopy__(self, _: object) -> MemoryObjects:
        """What the store holds now: a snapshot for another world."""
        made = type(self)()
        with self._lock:
            made._objects, made._writes = dict(self._objects), self._writes
        return made

    def list_files(self, directory: str) -> list[FileStat] | None:
        below = _key(directory) + "/"
        with self._lock:
            found = {key: stored for key, stored in self._objects.items() if key.startswith(below)}
        files = [FileStat(key.removeprefix(below), len(content), at) for key, (content, at) in found.items()]
        return sorted(files) or None

    def list_names(self, directory: str) -> list[str] | None:
        files = self.list_files(directory)
        return files and sorted({file.path.partition("/")[0] for file in files})

    def exists(self, path: str) -> bool:
        return _key(path) in self._objects or self.list_files(path) is not None

    def make_dirs(self, directory: str) -> None:
        """Do nothing: a directory is there while something is below it."""

    def rename_no_replace(self, source: str, destination: str) -> None:
        error = StorageError(f"{source}: cannot be moved to {destination}: in an object store nothing moves")
        error.retry = False
        raise error

    def delete(self, path: str) -> None:
        key = _key(path)
        with self._lock:
            for one in [one for one in self._objects if one == key or one.startswith(key + "/")]:
                del self._objects[one]

    def read(self, path: str) -> bytes:
        with self._lock:
            if _key(path) not in self._objects:
                raise PathMissing(f"{path}: is not there")
            return self._objects[_key(path)][0]

    def open_existing(self, path: str) -> io.BytesIO:
        return io.BytesIO(self.read(path))

    def write_new(self, path: str, content: bytes) -> None:
        if len(_key(path).encode()) > 1024:
            raise StorageError(f"{path}: KeyTooLongError: Your key is too long")
        with self._lock:
            if _key(path) in self._objects:
                raise PathExists(f"{path}: is already there")
            self._writes += 1
            self._objects[_key(path)] = bytes(content), self._writes

    def open_new(self, path: str) -> io.BytesIO:
        """Seen by others once it is closed without an error."""
        return upload(self, path)

    def files(self, directory: str = "/") -> dict[str, bytes]:
        """Content of every file below, by relative path: for assertions."""
        below = _key(directory) + "/" if _key(directory) else ""
        with self._lock:
            return {key.removeprefix(below): c for key, (c, _) in self._objects.items() if key.startswith(below)}


def upload(storage: Storage, path: str) -> io.BytesIO:
    """What a store's `open_new` returns: it looks, and its close sends the one request that changes something.
    `storage`: any that takes a write."""
    if storage.exists(path):
        raise PathExists(f"{path}: is already there")
    return _Writer(storage, path)


class _Writer(io.BytesIO):
    def __init__(self, storage: Storage, path: str) -> None:
        super().__init__()
        self._storage, self._path = storage, path

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()
            self._storage.write_new(self._path, content)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            super().close()
        self.close()

    def __del__(self) -> None:
        super().close()


def _key(path: str) -> str:
    return "/".join(part for part in re.sub(r"^[a-z0-9]+:(//[^/]*)?", "", path).split("/") if part)
