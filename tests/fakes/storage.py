"""A filesystem in memory that behaves as HDFS does where local disks differ: renames refuse, deletes are atomic."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.core.base.errors import PathExists, PathMissing, StorageError
from tidegate.core.base.storage import FileStat


@dataclass
class _File:
    content: bytes
    modified_ms: int


@dataclass
class _Directory:
    children: dict[str, _File | _Directory] = field(default_factory=dict)


class MemoryStorage:
    """Implements `core.base.storage.Storage` for any scheme (the scheme and authority are ignored), for many threads.

    Modification times are a counter: two writes never share one, and a rename keeps it.
    """

    renames = True

    def __init__(self) -> None:
        self._root = _Directory()
        self._lock = threading.RLock()
        self._writes = 0

    def list_files(self, directory: str) -> list[FileStat] | None:
        with self._lock:
            found = self._directory(directory)
            return None if found is None else sorted(_walk(found, ""))

    def list_names(self, directory: str) -> list[str] | None:
        with self._lock:
            found = self._directory(directory)
            return None if found is None else sorted(found.children)

    def exists(self, path: str) -> bool:
        with self._lock:
            return self._find(_parts(path)) is not None

    def make_dirs(self, directory: str) -> None:
        with self._lock:
            self._make(_parts(directory))

    def rename_no_replace(self, source: str, destination: str) -> None:
        old, new = _parts(source), _parts(destination)
        with self._lock:
            moved = self._find(old)
            if moved is None:
                raise PathMissing(f"{source}: is not there")
            if len(new) > len(old) and new[: len(old)] == old:
                raise StorageError(f"{source}: cannot be moved into itself ({destination})")
            parent = self._find(new[:-1])
            if not isinstance(parent, _Directory):
                raise PathMissing(f"{destination}: the parent is not a directory")
            if new[-1] in parent.children:
                raise PathExists(f"{destination}: is already there")
            self._parent(old).children.pop(old[-1])
            parent.children[new[-1]] = moved

    def delete(self, path: str) -> None:
        parts = _parts(path)
        with self._lock:
            if self._find(parts) is not None:
                self._parent(parts).children.pop(parts[-1])

    def read(self, path: str) -> bytes:
        with self._lock:
            found = self._find(_parts(path))
            if found is None:
                raise PathMissing(f"{path}: is not there")
            if isinstance(found, _Directory):
                raise StorageError(f"{path}: is a directory")
            return found.content

    def open_existing(self, path: str) -> io.BytesIO:
        return io.BytesIO(self.read(path))

    def write_new(self, path: str, content: bytes) -> None:
        parts = _parts(path)
        with self._lock:
            parent = self._make(parts[:-1])
            if parts[-1] in parent.children:
                raise PathExists(f"{path}: is already there")
            parent.children[parts[-1]] = _File(bytes(content), self._stamp())

    def open_new(self, path: str) -> io.BytesIO:
        """Seen by others as an empty file until it is closed."""
        self.write_new(path, b"")
        found = self._find(_parts(path))
        assert isinstance(found, _File)
        return _Writer(self, found)

    def files(self, directory: str = "/") -> dict[str, bytes]:
        """Content of every file below, by relative path: for assertions."""
        return {
            stat.path: self.read(f"{directory.rstrip('/')}/{stat.path}") for stat in self.list_files(directory) or ()
        }

    def _stamp(self) -> int:
        self._writes += 1
        return self._writes

    def _find(self, parts: list[str]) -> _File | _Directory | None:
        at: _File | _Directory | None = self._root
        for part in parts:
            if not isinstance(at, _Directory):
                return None
            at = at.children.get(part)
        return at

    def _parent(self, parts: list[str]) -> _Directory:
        parent = self._find(parts[:-1])
        assert isinstance(parent, _Directory)
        return parent

    def _directory(self, path: str) -> _Directory | None:
        found = self._find(_parts(path))
        if isinstance(found, _File):
            raise StorageError(f"{path}: not a directory")
        return found

    def _make(self, parts: list[str]) -> _Directory:
        at = self._root
        for part in parts:
            child = at.children.setdefault(part, _Directory())
            if isinstance(child, _File):
                raise PathExists(f"{'/'.join(parts)}: a file is where a directory should be")
            at = child
        return at


class _Writer(io.BytesIO):
    def __init__(self, storage: MemoryStorage, file: _File) -> None:
        super().__init__()
        self._storage, self._file = storage, file

    def close(self) -> None:
        if not self.closed:
            with self._storage._lock:
                self._file.content = self.getvalue()
                self._file.modified_ms = self._storage._stamp()
        super().close()


def _parts(path: str) -> list[str]:
    return [part for part in re.sub(r"^[a-z]+:(//[^/]*)?", "", path).split("/") if part]


def _walk(directory: _Directory, below: str) -> Iterator[FileStat]:
    for name, child in directory.children.items():
        path = f"{below}/{name}" if below else name
        if isinstance(child, _Directory):
            yield from _walk(child, path)
        else:
            yield FileStat(path, len(child.content), child.modified_ms)
