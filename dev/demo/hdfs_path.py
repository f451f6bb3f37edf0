"""A file or directory on HDFS with the few methods of `pathlib.Path` that the demo looks with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus


@dataclass(frozen=True)
class HdfsStat:
    """`st_ino` is always 0: HDFS numbers its files, but its protocol's client does not tell."""

    st_size: int
    st_mtime_ns: int
    st_ino: int = 0


@dataclass(frozen=True, order=True)
class HdfsPath:
    """`authority` as in a URI; `path` begins with a slash."""

    authority: str
    path: str

    @classmethod
    def of(cls, uri: str) -> HdfsPath:
        """From `hdfs://authority/path`."""
        authority, _, path = uri.removeprefix("hdfs://").partition("/")
        return cls(authority, "/" + path.rstrip("/"))

    def __str__(self) -> str:
        return f"hdfs://{self.authority}{self.path}"

    def __truediv__(self, name: str) -> HdfsPath:
        return HdfsPath(self.authority, f"{self.path}/{name}")

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def exists(self) -> bool:
        return self._found() is not None

    def is_dir(self) -> bool:
        found = self._found()
        return found is not None and found.isdir

    def is_file(self) -> bool:
        found = self._found()
        return found is not None and not found.isdir

    def iterdir(self) -> Iterator[HdfsPath]:
        return self._listed(recursive=False)

    def rglob(self, _pattern: str) -> Iterator[HdfsPath]:
        """Everything below, whatever the pattern; nothing where there is no such directory."""
        return self._listed(recursive=True)

    def relative_to(self, other: HdfsPath) -> str:
        return self.path.removeprefix(f"{other.path}/")

    def stat(self) -> HdfsStat:
        found = _client(self.authority).get_file_info(self.path)
        return HdfsStat(found.length, found.modification_time * 1_000_000)

    def open(self, _mode: str = "rb") -> BinaryIO:
        return _client(self.authority).read(self.path)  # type: ignore[return-value]

    def unlink(self) -> None:
        _client(self.authority).delete(self.path)

    def _listed(self, *, recursive: bool) -> Iterator[HdfsPath]:
        try:
            found = list(_client(self.authority).list_status(self.path, recursive))
        except FileNotFoundError:
            return
        yield from (HdfsPath(self.authority, each.path) for each in found)

    def _found(self) -> FileStatus | None:
        try:
            return _client(self.authority).get_file_info(self.path)
        except FileNotFoundError:
            return None


@cache
def _client(authority: str) -> Client:
    from hdfs_native import Client

    return Client(f"hdfs://{authority}")
