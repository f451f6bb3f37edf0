"""Files on HDFS (`hdfs://host:port/...`, `hdfs://nameservice/...`), through hdfs-native.

A nameservice's NameNodes are those of hdfs-site.xml in HADOOP_CONF_DIR. Every call has a limit: the library itself
waits for ever on a NameNode that is frozen.
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from tidegate.adapters.watchdog import Watchdog
from tidegate.core.base.errors import OutcomeUnknown, PathExists, PathMissing, StorageError
from tidegate.core.base.storage import FileStat
from tidegate.storage.hdfs_clients import CLIENTS, USERS
from tidegate.storage.hdfs_errors import leads_through_a_file, of_a_change, translated
from tidegate.storage.ranges import RangeReader

if TYPE_CHECKING:
    from hdfs_native import Client, FileWriter
    from typing_extensions import Buffer

_TEMPORARY = "._tidegate."
"""Start of the names that `write_new` writes under; what a crash leaves of them is never listed, only deleted."""
LIMIT_S = 120.0
"""For one call to a NameNode, or for one piece of a file to its DataNodes."""
# what ends without an answer is not unknown here: a file that was not closed is in no receipt
_LOOKING = ("list", "stat", "read", "write", "close")
_WALKS = 5
_BUFFER = 1 << 20
_READ_BUFFER = 128 << 10
_T = TypeVar("_T")


def split(uri: str) -> tuple[str, str]:
    """(authority, path) of `hdfs://authority/path`; nothing is decoded. Raises StorageError (final)."""
    authority, slash, path = uri.removeprefix("hdfs://").partition("/")
    names = path.split("/")
    if not (uri.startswith("hdfs://") and authority and slash) or "@" in authority or ".." in names or "\x00" in path:
        raise StorageError(f"{uri!r}: not an HDFS URI (hdfs://<nameservice or host:port>/...)", retry=False)
    return authority, "/" + "/".join(name for name in names if name)


class HdfsStorage:
    """Implements `core.base.storage.Storage` for every nameservice; any number of threads may share it."""

    renames = True

    def __init__(self, user: str | None = None, limit_s: float = LIMIT_S) -> None:
        """`user` asks instead of the process's own (HADOOP_USER_NAME, else the operating system's)."""
        self._user, self._limit_s = user, limit_s
        self._watchdog = Watchdog(limit_s, OutcomeUnknown, StorageError, _LOOKING)

    def list_files(self, directory: str) -> list[FileStat] | None:
        _, path = split(directory)
        for last in (*[False] * (_WALKS - 1), True):
            if not self._is_directory(directory):
                return None
            try:
                found = self._call("list", directory, lambda client: list(client.list_status(path, recursive=True)))
            except PathMissing:  # a directory below was moved or removed while it was walked
                if last:
                    raise
                continue
            start = len(path.rstrip("/")) + 1
            files = [FileStat(s.path[start:], s.length, s.modification_time) for s in found if not s.isdir]
            return sorted(f for f in files if not f.path.rpartition("/")[2].startswith(_TEMPORARY))
        raise AssertionError("unreachable")

    def list_names(self, directory: str) -> list[str] | None:
        _, path = split(directory)
        if not self._is_directory(directory):
            return None
        try:
            found = self._call("list", directory, lambda client: list(client.list_status(path)))
        except PathMissing:
            return None
        names = (s.path.rpartition("/")[2] for s in found)
        return sorted(name for name in names if not name.startswith(_TEMPORARY))

    def exists(self, path: str) -> bool:
        return self._stat(path) is not None

    def make_dirs(self, directory: str) -> None:
        """Raises PathExists if a file is in the way."""
        _, path = split(directory)
        self._change("make_dirs", directory, lambda client: client.mkdirs(path, create_parent=True))

    def rename_no_replace(self, source: str, destination: str) -> None:
        (authority, old), (other, new) = split(source), split(destination)
        if authority != other:
            raise StorageError(f"{source}: cannot be moved to another nameservice ({destination})", retry=False)
        if new.startswith(old + "/"):
            raise StorageError(f"{source}: cannot be moved into itself ({destination})", retry=False)
        try:
            self._call("rename", source, lambda client: client.rename(old, new, overwrite=False), f" -> {destination}")
        except OutcomeUnknown:
            raise
        except PathMissing as error:
            raise self._missing_for_rename(source, destination) from error
        except PathExists as error:
            raise PathExists(f"{destination}: is already there ({source} stays)") from error
        except StorageError as error:  # a file onto a directory, or the other way round: a plain IOException
            if self.exists(destination):
                raise PathExists(f"{destination}: is already there ({source} stays)") from error
            raise

    def delete(self, path: str) -> None:
        _, local = split(path)
        try:
            self._call("delete", path, lambda client: client.delete(local, recursive=True))
        except PathMissing:  # below a file
            return

    def read(self, path: str) -> bytes:
        with self.open_existing(path) as file:
            return file.read()

    def open_existing(self, path: str) -> BinaryIO:
        """Open a file of any size to read pieces of it. Raises PathMissing."""
        _, local = split(path)
        found = self._stat(path)
        if found is None:
            raise PathMissing(f"{path}: is not there")
        if found.isdir:
            raise StorageError(f"{path}: is a directory", retry=False)
        reader = self._call("read", path, lambda client: client.read(local))

        def piece(at: int, count: int) -> bytes:
            return self._guarded("read", path, lambda: reader.read_range(at, count))

        return io.BufferedReader(RangeReader(path, len(reader), piece), buffer_size=_READ_BUFFER)

    def write_new(self, path: str, content: bytes) -> None:
        authority, local = split(path)
        parent, _, _ = local.rpartition("/")
        temporary = f"hdfs://{authority}{parent}/{_TEMPORARY}{secrets.token_hex(12)}"
        if self.exists(path):
            raise PathExists(f"{path}: is already there")
        try:
            with self.open_new(temporary) as file:
                file.write(content)
            self.rename_no_replace(temporary, path)
        except BaseException:
            self._delete_quietly(temporary)
            raise

    def open_new(self, path: str) -> BinaryIO:
        """A file for a worker to write: created with its parents, refused with PathExists if the name is taken.

        Others see it without content until it is closed, but for what fills a block. Not written whole or not at
        all: names must be unique to the attempt. A failed call may have left an empty file.
        """
        _, local = split(path)
        writer = self._change("create", path, lambda client: client.create(local))
        return io.BufferedWriter(_NewFile(self, path, writer), buffer_size=_BUFFER)

    # ------------------------------------------------------------ asking

    def _is_directory(self, path: str) -> bool:
        found = self._stat(path)
        if found is not None and not found.isdir:
            raise StorageError(f"{path}: not a directory", retry=False)
        return found is not None

    def _stat(self, path: str) -> Any:
        """None only if the path is absent for certain."""
        _, local = split(path)
        try:
            return self._call("stat", path, lambda client: client.get_file_info(local or "/"))
        except PathMissing:
            return None

    def _change(self, name: str, path: str, ask: Callable[[Client], _T]) -> _T:
        """Call what needs parents: a file among them is in the way."""
        try:
            return self._call(name, path, ask)
        except PathMissing as error:
            if error.__cause__ is not None and leads_through_a_file(error.__cause__):
                raise PathExists(f"{path}: a file is where a directory should be") from error
            raise

    def _call(self, name: str, path: str, ask: Callable[[Client], _T], more: str = "") -> _T:
        try:
            client = CLIENTS.get(split(path)[0], self._user)
        except (OSError, RuntimeError, ValueError) as error:  # its configuration: nothing was sent
            raise translated(error, path) from error
        return self._guarded(name, path + more, lambda: ask(client), client)

    def _guarded(self, name: str, what: str, ask: Callable[[], _T], client: Client | None = None) -> _T:
        hung = self._watchdog.stuck
        try:
            with USERS.acting(self._user, self._limit_s):
                return self._watchdog.call(name, ask, about=f" {what}")
        except StorageError:
            if client is not None and self._watchdog.stuck > hung:
                CLIENTS.drop(client)
            raise
        except (OSError, RuntimeError, ValueError) as error:
            raise (translated if name in _LOOKING else of_a_change)(error, what) from error

    def _missing_for_rename(self, source: str, destination: str) -> PathMissing:
        if not self.exists(source):
            return PathMissing(f"{source}: is not there (to be moved to {destination})")
        return PathMissing(f"{destination.rpartition('/')[0]}: is not a directory, so {source} cannot be moved into it")

    def _delete_quietly(self, path: str) -> None:
        try:
            self.delete(path)
        except StorageError:
            pass


class _NewFile(io.RawIOBase):
    def __init__(self, storage: HdfsStorage, path: str, writer: FileWriter) -> None:
        self._storage, self._path, self._writer = storage, path, writer
        self._size = 0
        self._failed = False

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        # the buffer's memory is used again when this returns, and a call that hangs outlives it
        piece = bytes(data)
        self._ask("write", lambda: self._writer.write(piece))
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        """Raises StorageError when it may not be whole; a file whose writing failed is not closed as if it were."""
        if self.closed:
            return
        try:
            if not self._failed:
                self._ask("close", self._writer.close)
        finally:
            super().close()

    def _ask(self, name: str, call: Callable[[], object]) -> None:
        try:
            self._storage._guarded(name, self._path, call)
        except BaseException:
            self._failed = True
            raise
