"""The port to files: listed, read, written anew and renamed without replacing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

_NO_RENAME = ("s3://",)


def can_rename(uri: str) -> bool:
    """Whether storage of this URI's scheme moves a file or a directory by one atomic step; object stores do not."""
    return not uri.startswith(_NO_RENAME)


@dataclass(frozen=True, order=True)
class FileStat:
    """`path` is relative to the listed directory; `modified_ms` is informational."""

    path: str
    bytes: int
    modified_ms: int = 0


@runtime_checkable
class Storage(Protocol):
    """Paths are URIs (`file:///...`, `hdfs://...`)."""

    @property
    def renames(self) -> bool:
        """Whether a file or directory can be moved by one atomic step; without it nothing moves.

        An adapter that cannot is an object store's: a directory is there while something is below it, and what
        `open_new` writes is seen once it is closed without an error."""
        ...

    def list_files(self, directory: str) -> list[FileStat] | None:
        """Every file below, sorted by path; None if the directory is absent, [] if it holds no file."""
        ...

    def list_names(self, directory: str) -> list[str] | None:
        """Names of the direct children, sorted; None if the directory is absent."""
        ...

    def exists(self, path: str) -> bool: ...

    def make_dirs(self, directory: str) -> None:
        """Make a directory and its parents; done if it is there."""
        ...

    def rename_no_replace(self, source: str, destination: str) -> None:
        """Move a file or directory; never onto, into or over something. The destination's parent must be there.

        Raises PathMissing, PathExists (both definite), OutcomeUnknown."""
        ...

    def delete(self, path: str) -> None:
        """A file, or a directory with all below it; done if it is absent."""
        ...

    def read(self, path: str) -> bytes:
        """A small file whole. Raises PathMissing."""
        ...

    def write_new(self, path: str, content: bytes) -> None:
        """A small file that appears whole or not at all, with parents. Raises PathExists."""
        ...
