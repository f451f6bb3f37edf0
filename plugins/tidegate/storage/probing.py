"""A probe of a filesystem that leaves nothing: make, write, read, rename and delete below a pipeline's `_tidegate`."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tidegate.core.base.errors import PathExists, StorageError, TidegateError
from tidegate.core.base.storage import Storage
from tidegate.core.target.paths import join
from tidegate.storage import for_uri
from tidegate.storage.local import THEN, local_path

CONTENT = b"tidegate doctor\n"


@dataclass
class Probe:
    """`done`: steps in words; `failed`: the one that was not, what the filesystem `said`, and what helps by a local
    disk's kind of error."""

    done: list[str] = field(default_factory=list)
    failed: str = ""
    said: str = ""
    advice: str = ""


def probe_storage(workdir: str, user: str | None, access: Mapping[str, str] | None = None) -> Probe:
    """Try what the protocol needs; where `workdir` is not there yet, in the nearest parent that is: what was not there
    before is not there after. `user` is who asks HDFS, `access` reaches an object store.

    Raises nothing of the filesystem's."""
    found, step, place = Probe(), "reach it", ""
    try:
        storage = for_uri(workdir, user, access)
        parent = _existing_parent(storage, workdir) if storage.renames else workdir
        place = join(parent, f"_tidegate-doctor-{secrets.token_hex(6)}")
        try:
            if storage.renames:
                step = "create directories"
                storage.make_dirs(place)
                found.done.append("create")
            step = "write files"
            storage.write_new(join(place, "a"), CONTENT)
            found.done.append("write")
            step = "read files"
            if storage.read(join(place, "a")) != CONTENT:
                raise StorageError("what was read is not what was written")
            found.done.append("read")
            if storage.renames:
                step = "rename"
                storage.rename_no_replace(join(place, "a"), join(place, "b"))
                found.done.append("rename")
            else:
                step = "keep the first of two writes"
                _write_again(storage, join(place, "a"))
                found.done.append("write if absent")
        except BaseException:
            with suppress(TidegateError):
                storage.delete(place)
            raise
        step = "delete"
        storage.delete(place)
        found.done.append("delete")
    except TidegateError as e:
        found.failed, found.said = step, " ".join(str(e.args[0]).split())
        found.advice = e.advice.removesuffix(THEN) if _is_local(workdir) else ""
    return found


def _write_again(storage: Storage, path: str) -> None:
    with suppress(PathExists):
        storage.write_new(path, CONTENT + CONTENT)
        raise StorageError("it takes a write on condition that nothing is there (If-None-Match) over what is there")
    if storage.read(path) != CONTENT:
        raise StorageError("a write that it refused has changed the file")


def _existing_parent(storage: Storage, directory: str) -> str:
    top = 1 if directory.startswith("/") else 4  # slashes of file:///x, hdfs://nameservice/x
    while not storage.exists(directory) and directory.count("/") >= top:
        directory = directory.rpartition("/")[0]
    return directory


def same_filesystem(location: str, workdir: str) -> bool | None:
    """Whether two places are in one; None where that cannot be told yet. HDFS is one filesystem for each authority, an
    object store for each bucket."""
    if not (_is_local(location) and _is_local(workdir)):
        return location.split("/")[:3] == workdir.split("/")[:3]
    a, b = _device(location), _device(workdir)
    return None if a is None or b is None else a == b


def free_space(location: str) -> tuple[int, int] | None:
    """Free and all bytes of a local disk; None elsewhere."""
    if not _is_local(location):
        return None
    existing = _existing(location)
    usage = shutil.disk_usage(existing)
    return usage.free, usage.total


def _is_local(location: str) -> bool:
    return location.startswith(("/", "file:"))


def _device(location: str) -> int | None:
    try:
        return os.stat(_existing(location)).st_dev
    except OSError:
        return None


def _existing(location: str) -> str:
    path = local_path(location)
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    return path


def reach(host: str, port: int, timeout_s: float) -> str:
    """Why no TCP connection can be had; "" if one can."""
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except OSError as e:
        return f"{host}:{port}: {e.strerror or e}"
    return ""
