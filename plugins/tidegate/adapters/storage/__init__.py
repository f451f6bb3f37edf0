"""Storage adapters, chosen by a URI's scheme. Workers and the control plane use the same ones.

Paths are taken literally: `carrier=%2F` is the name of a directory, not an encoded slash (as in Hadoop's `Path`).
"""

from __future__ import annotations

from tidegate.adapters.storage.local import LocalStorage
from tidegate.core.errors import StorageError

__all__ = ["LocalStorage", "for_uri"]


def for_uri(uri: str) -> LocalStorage:
    """The adapter for `uri`'s scheme: `file:///...` or a plain absolute path. Raises StorageError for another one."""
    scheme, colon, _ = uri.partition(":")
    if uri.startswith("/") or (colon and scheme == "file"):
        return LocalStorage()
    if colon and scheme == "hdfs":
        message = f"{uri}: this version has no adapter for HDFS"
    else:
        message = f"{uri}: not a URI that Tidegate can store files at"
    error = StorageError(message, advice="set sink.location to file:///<absolute path>")
    error.retry = False
    raise error
