"""Where the storage contract runs, and what its tests ask of every place."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.objects import MemoryObjects
from fakes.storage import MemoryStorage

from dev.stack.info import StackInfo
from tidegate.core.base.storage import Storage
from tidegate.storage import HdfsStorage, LocalStorage, ObjectStorage

TREES = ["local", "memory", "hdfs"]
"""Adapters with directories that can be renamed."""
SERVERS = {"seaweedfs": "objects", "moto": "moto_objects"}
"""Fixtures of object stores, by what serves them: two, so that what one of them does alone is not taken for a rule."""
OBJECTS = ["objects", *SERVERS]
"""Adapters without."""


@contextmanager
def opened(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[Storage, str]]:
    """(storage, URI of an empty directory)"""
    storage: Storage
    if kind == "local":  # a disk's filesystem, while most tests write into memory
        on_disk = request.getfixturevalue("stack_roots") / folder.name
        on_disk.mkdir()
        yield LocalStorage(), f"file://{on_disk}"
    elif kind == "hdfs":
        storage, root = HdfsStorage(), f"{request.getfixturevalue('hdfs').hdfs_uri}/contract/{uuid.uuid4().hex}"
        storage.make_dirs(root)
        yield storage, root
        storage.delete(root)
    elif kind == "memory":
        storage = MemoryStorage()
        storage.make_dirs("mem:///base")
        yield storage, "mem:///base"
    elif kind in SERVERS:
        info = request.getfixturevalue(SERVERS[kind])
        storage, root = ObjectStorage(access_to(info)), f"{info.objects_uri}/{uuid.uuid4().hex}"
        yield storage, root
        storage.delete(root)
    else:
        yield MemoryObjects(), "s3://bucket/base"


def access_to(info: StackInfo, endpoint: str | None = None) -> dict[str, str]:
    """Access of the bucket's owner, by another endpoint if one is given."""
    return {
        "access_key_id": info.objects_key,
        "secret_access_key": info.objects_secret,
        "endpoint_url": endpoint or info.objects_endpoint,
        "region": "us-east-1",
    }


def names(storage: Storage, directory: str) -> list[str] | None:
    """Paths of all files below."""
    found = storage.list_files(directory)
    return None if found is None else [stat.path for stat in found]


def many(storage: Storage) -> int:
    """How many files a test may make: one on a server takes ten times as long."""
    return 1000 if isinstance(storage, LocalStorage | MemoryStorage | MemoryObjects) else 100
