"""A file or prefix in an object store with the few methods of `pathlib.Path` that the demo looks with.

Who it is comes from the environment (`AWS_ACCESS_KEY_ID` and so on), where the demo puts it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from obstore.store import S3Store


@dataclass(frozen=True)
class S3Stat:
    """`st_ino` is always 0: objects have no numbers."""

    st_size: int
    st_mtime_ns: int
    st_ino: int = 0


@dataclass(frozen=True, order=True)
class S3Path:
    """`key` has no slash at either end."""

    bucket: str
    key: str

    @classmethod
    def of(cls, uri: str) -> S3Path:
        """From `s3://bucket/key`."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return cls(bucket, key.strip("/"))

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def __truediv__(self, name: str) -> S3Path:
        return S3Path(self.bucket, f"{self.key}/{name}")

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def is_dir(self) -> bool:
        return any(True for _ in self.rglob("*"))

    def is_file(self) -> bool:
        return self._found() is not None

    def iterdir(self) -> Iterator[S3Path]:
        listed = _store(self.bucket).list_with_delimiter(self.key)
        keys = [*listed["common_prefixes"], *(found["path"] for found in listed["objects"])]
        yield from (S3Path(self.bucket, key) for key in keys)

    def rglob(self, _pattern: str) -> Iterator[S3Path]:
        """Every file below, whatever the pattern."""
        for page in _store(self.bucket).list(self.key):
            yield from (S3Path(self.bucket, found["path"]) for found in page)

    def relative_to(self, other: S3Path) -> str:
        return self.key.removeprefix(f"{other.key}/")

    def stat(self) -> S3Stat:
        found = _store(self.bucket).head(self.key)
        return S3Stat(found["size"], int(found["last_modified"].timestamp() * 1e9))

    def open(self, _mode: str = "rb") -> BinaryIO:
        return io.BytesIO(bytes(_store(self.bucket).get(self.key).bytes()))

    def unlink(self) -> None:
        _store(self.bucket).delete(self.key)

    def _found(self) -> object | None:
        try:
            return _store(self.bucket).head(self.key)
        except FileNotFoundError:
            return None


@cache
def _store(bucket: str) -> S3Store:
    from obstore.store import S3Store

    return S3Store(bucket, client_options={"allow_http": True}, virtual_hosted_style_request=False)
