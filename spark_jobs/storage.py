"""Storage as jobs open it: an object store is reached by what the job was given in secret."""

from __future__ import annotations

from spark_jobs.engine.secrets import storage_access
from tidegate.storage import HdfsStorage, LocalStorage, ObjectStorage, for_uri
from tidegate.storage.access import is_object


def open_storage(uri: str, user: str | None = None) -> LocalStorage | HdfsStorage | ObjectStorage:
    """The adapter for `uri`; `user` is who asks HDFS. Asked in each process anew: executors have secrets of their own.

    Raises StorageError, JobError."""
    access = storage_access() if is_object(uri) else {}
    return for_uri(uri, user, access)
