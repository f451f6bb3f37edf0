"""Files on a local disk, or on anything mounted that behaves like one (`file:///...`).

Files that are on the disk when a call returns stay there after a power cut: files, directories and renames are synced
before they are reported as done, because the ledger, which remembers them, is durable too.
"""

from __future__ import annotations

import ctypes
import errno
import io
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from tidegate.core.base.errors import OutcomeUnknown, PathExists, PathMissing, StorageError
from tidegate.core.base.storage import FileStat

if TYPE_CHECKING:
    from typing_extensions import Buffer


_TEMPORARY = "._tidegate."
"""Start of the names that `write_new` writes under; what a crash leaves of them is never listed, only deleted."""

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_WORDS = {
    errno.ENOSPC: "no space left on the filesystem",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EROFS: "the filesystem is read-only",
    errno.EXDEV: "the work directory must be on the same filesystem as the table",
    errno.ENAMETOOLONG: "a name in the path is too long",
}
THEN = "; then clear the task"
"""End of an advice: of no use to who asks before any task has failed."""
_ADVICE = {
    errno.ENOSPC: f"free space on it (`tidegate clean <pipeline> --dry-run` shows what could go){THEN}",
    errno.EDQUOT: f"raise the quota, or free space under it{THEN}",
    errno.EACCES: f"let the user that runs tasks and jobs read and write there{THEN}",
    errno.EPERM: f"let the user that runs tasks and jobs read and write there{THEN}",
    errno.EROFS: f"find out why (a failing disk is often remounted so) and mount it writable{THEN}",
    errno.EXDEV: "set sink.workdir to a directory on the table's filesystem",
}
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_NO_SUCH_CALL = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
_REFUSED = (*_WORDS, errno.EBUSY, errno.ELOOP, errno.EMLINK, errno.ENOMEM)
_FINAL = (errno.EXDEV, errno.EROFS, errno.ENAMETOOLONG, *_NO_SUCH_CALL)


def local_path(uri: str) -> str:
    """The operating system's path of `file:///...`, `file:/...` or a plain absolute path; nothing is decoded."""
    path = uri.removeprefix("file:")
    if path.startswith("//"):
        path = path[2:]
    if not path.startswith("/") or ".." in path.split("/") or "\x00" in path:
        raise StorageError(f"{uri!r}: not an absolute local path (file:///...)", retry=False)
    return path.rstrip("/") or "/"


class LocalStorage:
    """Implements `core.base.storage.Storage`. Holds no state: any number of threads and processes may use it."""

    renames = True

    def list_files(self, directory: str) -> list[FileStat] | None:
        path = local_path(directory)
        if not self._is_directory(path):
            return None
        return sorted(_walk(path, ""))

    def list_names(self, directory: str) -> list[str] | None:
        path = local_path(directory)
        if not self._is_directory(path):
            return None
        try:
            return sorted(name for name in os.listdir(path) if not name.startswith(_TEMPORARY))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _refused(error, path) from error

    def exists(self, path: str) -> bool:
        return _stat(local_path(path)) is not None

    def make_dirs(self, directory: str) -> None:
        """Raises PathExists if a file is in the way."""
        _make_dirs(local_path(directory))

    def rename_no_replace(self, source: str, destination: str) -> None:
        old, new = local_path(source), local_path(destination)
        if new.startswith(old + "/"):
            raise StorageError(f"{old}: cannot be moved into itself ({new})", retry=False)
        _rename_no_replace(old, new)
        try:
            for parent in {os.path.dirname(new), os.path.dirname(old)}:
                _sync_directory(parent)
        except FileNotFoundError:
            pass  # somebody has moved or removed a parent since: its own call syncs what is above it
        except OSError as error:
            message = f"{old} -> {new}: renamed, but perhaps not yet on the disk: {error.strerror}"
            raise OutcomeUnknown(message) from error

    def delete(self, path: str) -> None:
        """A symbolic link is removed, not followed."""
        local = local_path(path)
        try:
            found = os.lstat(local)
            if stat.S_ISDIR(found.st_mode):
                shutil.rmtree(local, onerror=_unless_gone)
            else:
                os.unlink(local)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise _refused(error, local) from error

    def read(self, path: str) -> bytes:
        local = local_path(path)
        try:
            with open(local, "rb") as file:
                return file.read()
        except OSError as error:
            raise _refused(error, local) from error

    def open_existing(self, path: str) -> BinaryIO:
        """Open a file of any size to read pieces of it. Raises PathMissing."""
        local = local_path(path)
        try:
            return open(local, "rb")
        except OSError as error:
            raise _refused(error, local) from error

    def write_new(self, path: str, content: bytes) -> None:
        local = local_path(path)
        parent = os.path.dirname(local)
        _make_dirs(parent)
        temporary = os.path.join(parent, _TEMPORARY + secrets.token_hex(12))
        try:
            with _NewFile(temporary) as file:
                file.write(content)
            self.rename_no_replace(temporary, local)
        except BaseException:
            _unlink_quietly(temporary)
            raise

    def open_new(self, path: str) -> BinaryIO:
        """A file for a worker to write: created with its parents, refused with PathExists if the name is taken.

        Synced when it is closed. Not written whole or not at all: names must be unique to the attempt.
        """
        local = local_path(path)
        _make_dirs(os.path.dirname(local))
        return io.BufferedWriter(_NewFile(local), buffer_size=1 << 20)

    def _is_directory(self, path: str) -> bool:
        found = _stat(path, follow=True)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            raise StorageError(f"{path}: not a directory", retry=False)
        return found is not None


class _NewFile(io.FileIO):
    """A file that did not exist before, synced together with its directory entry when closed."""

    def __init__(self, path: str) -> None:
        try:
            super().__init__(path, "xb")
        except OSError as error:
            raise _refused(error, path) from error
        self._path = path
        self._failed = False

    def write(self, data: Buffer) -> int:
        """All of `data`: a raw file may write less than it is given, when the disk is nearly full."""
        view = memoryview(data).cast("B")
        written = 0
        try:
            while written < len(view):
                written += super().write(view[written:])
        except OSError as error:
            self._failed = True
            raise _refused(error, self._path) from error
        return written

    def close(self) -> None:
        if self.closed:
            return
        try:
            if not self._failed:  # else the error of the write is the one to be seen
                os.fsync(self.fileno())
                _sync_directory(os.path.dirname(self._path))
        except OSError as error:
            raise _refused(error, self._path) from error
        finally:
            super().close()


def _walk(root: str, below: str) -> Iterator[FileStat]:
    """Files below `root`; what disappears while it is walked was never there."""
    directory = os.path.join(root, below) if below else root
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                path = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(root, path)
                elif not entry.name.startswith(_TEMPORARY):
                    yield from _file_stat(entry, path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _refused(error, directory) from error


def _file_stat(entry: os.DirEntry[str], path: str) -> Iterator[FileStat]:
    try:
        found = entry.stat()
    except FileNotFoundError:
        return
    yield FileStat(path, found.st_size, found.st_mtime_ns // 1_000_000)


def _stat(path: str, *, follow: bool = False) -> os.stat_result | None:
    """None only if the path is absent for certain: what cannot be looked at is an error, not an absence."""
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise _refused(error, path) from error


def _make_dirs(path: str) -> None:
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        try:
            os.mkdir(directory)
        except FileExistsError as error:
            if not os.path.isdir(directory):
                raise PathExists(f"{directory}: a file is where a directory should be") from error
            continue
        except OSError as error:
            raise _refused(error, directory) from error
        try:
            _sync_directory(os.path.dirname(directory))
        except OSError as error:
            raise _refused(error, directory) from error


def _sync_directory(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_libc = ctypes.CDLL(None, use_errno=True)


def _rename_no_replace(old: str, new: str) -> None:
    """`renameat2`, because `rename` replaces files and empty directories, and a look beforehand would be a race."""
    call = getattr(_libc, "renameat2", None)
    if call is None:
        number = errno.ENOSYS
    elif call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), _RENAME_NOREPLACE) == 0:
        return
    else:
        number = ctypes.get_errno()
    if number in (errno.EEXIST, errno.ENOTEMPTY):
        raise PathExists(f"{new}: is already there ({old} stays)")
    if number in _ABSENT:
        raise _missing_for_rename(old, new)
    if number in _NO_SUCH_CALL:
        message = f"{new}: this filesystem cannot rename without replacing (renameat2: {os.strerror(number)})"
        raise StorageError(
            message, advice="use a filesystem such as ext4, xfs, btrfs or tmpfs for the table", retry=False
        )
    if number not in _REFUSED:  # EIO, ESTALE, EINTR: a mounted network filesystem may still have done it
        raise OutcomeUnknown(f"{old} -> {new}: {os.strerror(number)}")
    raise _refused(OSError(number, os.strerror(number)), f"{old} -> {new}")


def _missing_for_rename(old: str, new: str) -> PathMissing:
    if _stat(old) is None:
        return PathMissing(f"{old}: is not there (to be moved to {new})")
    return PathMissing(f"{os.path.dirname(new)}: is not a directory, so {old} cannot be moved into it")


def _refused(error: OSError, path: str) -> StorageError:
    if error.errno in _ABSENT:
        return PathMissing(f"{path}: is not there")
    if error.errno == errno.EEXIST:
        return PathExists(f"{path}: is already there")
    number = error.errno or 0
    words = _WORDS.get(number, error.strerror or str(error))
    retry = False if error.errno in _FINAL else None
    return StorageError(f"{path}: {words}", advice=_ADVICE.get(number, ""), retry=retry)


def _unless_gone(_call: object, path: str, failure: tuple[Any, ...]) -> None:
    error = failure[1]
    if not isinstance(error, FileNotFoundError):
        raise error


def _unlink_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
