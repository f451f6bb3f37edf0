"""Files and directories on HDFS and in object stores, with the few methods of `pathlib.Path` that the demo looks with.

Who it is in an object store comes from the environment (`AWS_ACCESS_KEY_ID` and so on), where the demo puts it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus
    from obstore.store import S3Store


@dataclass(frozen=True)
class RemoteStat:
    """`st_ino` is always 0: objects have no numbers, and the protocol of HDFS does not tell those of its files."""

    st_size: int
    st_mtime_ns: int
    st_ino: int = 0


@dataclass(frozen=True, order=True)
class RemotePath:
    """`root` is what a URI has before the path, which has no slash at either end."""

    scheme: ClassVar[str]
    root: str
    path: str

    @classmethod
    def of(cls, uri: str) -> Self:
        root, _, path = uri.removeprefix(f"{cls.scheme}://").partition("/")
        return cls(root, path.strip("/"))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.root}/{self.path}"

    def __truediv__(self, name: str) -> Self:
        return type(self)(self.root, f"{self.path}/{name}")

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def relative_to(self, other: RemotePath) -> str:
        return self.path.removeprefix(f"{other.path}/")


class HdfsPath(RemotePath):
    scheme = "hdfs"

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

    def stat(self) -> RemoteStat:
        found = _client(self.root).get_file_info(f"/{self.path}")
        return RemoteStat(found.length, found.modification_time * 1_000_000)

    def open(self, _mode: str = "rb") -> BinaryIO:
        return _client(self.root).read(f"/{self.path}")  # type: ignore[return-value]

    def unlink(self) -> None:
        _client(self.root).delete(f"/{self.path}")

    def _listed(self, *, recursive: bool) -> Iterator[HdfsPath]:
        try:
            found = list(_client(self.root).list_status(f"/{self.path}", recursive))
        except FileNotFoundError:
            return
        yield from (HdfsPath(self.root, each.path.strip("/")) for each in found)

    def _found(self) -> FileStatus | None:
        try:
            return _client(self.root).get_file_info(f"/{self.path}")
        except FileNotFoundError:
            return None


class S3Path(RemotePath):
    scheme = "s3"

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def is_dir(self) -> bool:
        return any(True for _ in self.rglob("*"))

    def is_file(self) -> bool:
        try:
            return bool(self._head())
        except FileNotFoundError:
            return False

    def iterdir(self) -> Iterator[S3Path]:
        listed = _store(self.root).list_with_delimiter(self.path)
        keys = [*listed["common_prefixes"], *(found["path"] for found in listed["objects"])]
        yield from (S3Path(self.root, key) for key in keys)

    def rglob(self, _pattern: str) -> Iterator[S3Path]:
        """Every file below, whatever the pattern."""
        for page in _store(self.root).list(self.path):
            yield from (S3Path(self.root, found["path"]) for found in page)

    def stat(self) -> RemoteStat:
        found = self._head()
        return RemoteStat(found["size"], int(found["last_modified"].timestamp() * 1e9))

    def open(self, _mode: str = "rb") -> BinaryIO:
        return io.BytesIO(bytes(_store(self.root).get(self.path).bytes()))

    def unlink(self) -> None:
        _store(self.root).delete(self.path)

    def _head(self) -> Any:
        return _store(self.root).head(self.path)


@cache
def _client(authority: str) -> Client:
    from hdfs_native import Client

    return Client(f"hdfs://{authority}")


@cache
def _store(bucket: str) -> S3Store:
    from obstore.store import S3Store

    return S3Store(bucket, client_options={"allow_http": True}, virtual_hosted_style_request=False)
