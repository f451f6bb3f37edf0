"""Storage adapters, chosen by a URI's scheme. Workers and the control plane use the same ones.

Paths are taken literally: `carrier=%2F` is the name of a directory, not an encoded slash (as in Hadoop's `Path`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.base.errors import StorageError
from tidegate.storage.hdfs import HdfsStorage
from tidegate.storage.local import LocalStorage
from tidegate.storage.objects import ObjectStorage

__all__ = ["HdfsStorage", "LocalStorage", "ObjectStorage", "for_uri"]


def for_uri(
    uri: str, user: str | None = None, access: Mapping[str, str] | None = None
) -> LocalStorage | HdfsStorage | ObjectStorage:
    """The adapter for `uri`'s scheme: `hdfs://...`, `s3://...`, `file:///...` or a plain absolute path; none connects
    before it is used.

    `user` is who asks HDFS, where that is not the process's own. `access` (`storage.access`) reaches object stores;
    without it the environment's credentials do, or the host's role. Raises StorageError for another scheme."""
    scheme, colon, _ = uri.partition(":")
    if uri.startswith("/") or (colon and scheme == "file"):
        return LocalStorage()
    if colon and scheme == "hdfs":
        return HdfsStorage(user)
    if colon and scheme == "s3":
        return ObjectStorage(access)
    raise StorageError(
        f"{uri}: not a URI that Tidegate can store files at",
        advice="set sink.location to hdfs://<nameservice>/<path>, s3://<bucket>/<path> or file:///<absolute path>",
        retry=False,
    )
