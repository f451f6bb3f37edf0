"""Files in an object store (`s3://bucket/prefix/...`), through obstore.

Nothing moves, directories are prefixes, and a write is a put-if-absent that carries a nonce: by it a write whose answer
was lost, or that was refused because of itself, is known again. Requests that change something are never repeated here.
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from tidegate.adapters.watchdog import Watchdog
from tidegate.core.base.errors import OutcomeUnknown, PathExists, PathMissing, StorageError
from tidegate.core.base.storage import FileStat
from tidegate.storage.objects_clients import CLIENTS
from tidegate.storage.objects_errors import Said, said
from tidegate.storage.objects_files import PART, UPLOADS, NewObject
from tidegate.storage.ranges import RangeReader

if TYPE_CHECKING:
    from obstore.store import S3Store

LIMIT_S = 240.0
"""For one call, repeated looks included; the client's own time-outs are shorter."""
WRITE = "tidegate-write"
"""Metadata of an object: the write that made it."""
_LOOKING = ("list", "look", "read", "part")
_CONFLICTS = 5
_SWEEPS = 20
_AT_ONCE = 1000
_READ_BUFFER = 512 << 10
_T = TypeVar("_T")


def split(uri: str) -> tuple[str, str]:
    """(bucket, key) of `s3://bucket/key`; nothing is decoded. Raises StorageError (final)."""
    bucket, slash, path = uri.removeprefix("s3://").partition("/")
    names = path.split("/")
    if not (uri.startswith("s3://") and bucket and slash) or "@" in bucket or ".." in names or "\x00" in path:
        raise StorageError(f"{uri!r}: not a URI of an object store (s3://<bucket>/<path>)", retry=False)
    return bucket, "/".join(name for name in names if name)


class ObjectStorage:
    """Implements `core.base.storage.Storage` for every bucket; any number of threads may share it."""

    renames = False

    def __init__(self, access: Mapping[str, str] | None = None, limit_s: float = LIMIT_S) -> None:
        """`access`: keys of `storage.access.KEYS`; without a login the environment's, or the instance's role."""
        self._access = dict(access or {})
        self._watchdog = Watchdog(limit_s, OutcomeUnknown, StorageError, _LOOKING)

    def list_files(self, directory: str) -> list[FileStat] | None:
        _, key = split(directory)
        start = len(key) + 1 if key else 0
        found = self._listed(directory)
        files = [FileStat(o["path"][start:], o["size"], int(o["last_modified"].timestamp() * 1000)) for o in found]
        return sorted(files) or None

    def list_names(self, directory: str) -> list[str] | None:
        """Some stores name a directory for a while after the last file below it is gone."""
        _, key = split(directory)
        answer = self._look("list", directory, lambda store: store.list_with_delimiter(key or None))
        paths = [*answer["common_prefixes"], *(o["path"] for o in answer["objects"] if o["path"] != key)]
        return sorted({path.rpartition("/")[2] for path in paths}) or None

    def exists(self, path: str) -> bool:
        return self._stat(path) is not None or self._something_below(path)

    def make_dirs(self, directory: str) -> None:
        """Do nothing: a directory is there while something is below it."""

    def rename_no_replace(self, source: str, destination: str) -> None:
        """Refuse (final)."""
        raise StorageError(f"{source}: cannot be moved to {destination}: in an object store nothing moves", retry=False)

    def delete(self, path: str) -> None:
        """Objects that others write below meanwhile may stay."""
        key = self._key(path)
        gone = [key]
        for _ in range(_SWEEPS):
            for at in range(0, len(gone), _AT_ONCE):
                some = gone[at : at + _AT_ONCE]
                answer = self._ask("delete", path, lambda store, some=some: store.delete(some))  # type: ignore[misc]
                if isinstance(answer, Said) and not answer.absent:
                    raise answer.of_a_change(path)
            gone = [o["path"] for o in self._listed(path)]
            if not gone:
                return
        raise StorageError(f"{path}: is still not empty: others write there", advice="find out who writes there")

    def read(self, path: str) -> bytes:
        key = self._key(path)
        return self._look("read", path, lambda store: bytes(store.get(key).bytes()))

    def open_existing(self, path: str) -> BinaryIO:
        """Open a file of any size to read pieces of it. Raises PathMissing."""
        found = self._stat(path)
        if found is None:
            self._something_below(path)  # raises for a bucket that is missing
            raise PathMissing(f"{path}: is not there")
        reader = RangeReader(path, found["size"], lambda at, count: self._range(path, at, min(count, PART)))
        return io.BufferedReader(reader, buffer_size=_READ_BUFFER)

    def write_new(self, path: str, content: bytes) -> None:
        """A put-if-absent: exactly one of its writers is told that it wrote."""
        key, nonce = self._key(path), secrets.token_hex(12)
        for _ in range(_CONFLICTS):
            answer = self._ask(
                "write",
                path,
                lambda store: store.put(key, content, mode="create", attributes={WRITE: nonce}, use_multipart=False),
            )
            if not isinstance(answer, Said):
                return
            if not (answer.taken or answer.unknown):
                raise answer.of_a_change(path)
            if self._is_ours(path, nonce, answer):
                return
            # refused because of one that is gone by now, or that is being written: ours will never come
        raise StorageError(f"{path}: others write and delete it again and again", advice="find out who writes there")

    def open_new(self, path: str) -> BinaryIO:
        """A file for a worker to write, seen by others once it is closed: refused with PathExists if the name is taken.

        A large one replaces what was written there meanwhile: names must be unique to the attempt."""
        self._key(path)
        if self._stat(path) is not None:
            raise PathExists(f"{path}: is already there")
        return cast(BinaryIO, NewObject(self, path))

    # ------------------------------------------------------------ for open files

    def _range(self, path: str, at: int, count: int) -> bytes:
        key = self._key(path)
        return self._look("read", path, lambda store: bytes(store.get_range(key, start=at, length=count)))

    def begin(self, path: str, nonce: str) -> Any:
        import obstore

        key, store = self._key(path), CLIENTS.get(split(path)[0], self._access).again
        return obstore.open_writer(store, key, attributes={WRITE: nonce}, buffer_size=PART, max_concurrency=UPLOADS)

    def send(self, path: str, upload: Any, piece: bytes) -> None:
        answer = self._ask("part", path, lambda _: upload.write(piece))
        if isinstance(answer, Said):
            raise answer.refusal(path)

    def complete(self, path: str, upload: Any, rest: bytes, nonce: str) -> None:
        """Raises OutcomeUnknown where the file may appear later."""
        if rest:
            self.send(path, upload, rest)
        answer = self._ask("write", path, lambda _: upload.close())
        # a repeated request finds that the upload is complete, and says that it is missing
        if isinstance(answer, Said) and not self._is_ours(path, nonce, answer):
            raise answer.refusal(path)

    def _is_ours(self, path: str, nonce: str, answer: Said) -> bool:
        """Whether the write of this nonce stands there, whatever its `answer` was; False: certainly nothing is there.

        Raises PathExists where another one stands, OutcomeUnknown."""
        key = self._key(path)
        unknown = answer.of_a_change(path)
        try:
            found = self._look("look", path, lambda store: store.get(key, options={"head": True}).attributes)
        except PathMissing:
            if answer.unknown:
                raise unknown from None
            return False
        except StorageError as error:
            why = f"{path}: {error.args[0]}; whether it was written before is not known"
            raise (unknown if answer.unknown else OutcomeUnknown(why)) from error
        if found.get(WRITE) != nonce:
            raise PathExists(f"{path}: is already there")
        return True

    # ------------------------------------------------------------ asking

    def _key(self, path: str) -> str:
        """Raises StorageError (final) for the bucket itself, which is no file and never deleted."""
        key = split(path)[1]
        if not key:
            raise StorageError(f"{path}: names a whole bucket", retry=False)
        return key

    def _stat(self, path: str) -> Any:
        """None if no object has exactly this name."""
        _, key = split(path)
        try:
            return self._look("look", path, lambda store: store.head(key)) if key else None
        except PathMissing:
            return None

    def _something_below(self, path: str) -> bool:
        _, key = split(path)
        first = self._look("list", path, lambda store: next(iter(store.list(key or None, chunk_size=1)), None))
        return bool(first)

    def _listed(self, directory: str) -> list[Any]:
        """Metadata of all objects below, but for a marker of the directory itself."""
        _, key = split(directory)
        chunks = self._look("list", directory, lambda store: list(store.list(key or None, chunk_size=_AT_ONCE)))
        return [o for chunk in chunks for o in chunk if o["path"] != key]

    def _look(self, name: str, path: str, ask: Callable[[S3Store], _T]) -> _T:
        """Ask what changes nothing. Raises PathMissing, StorageError."""
        answer = self._ask(name, path, ask)
        if isinstance(answer, Said):
            raise answer.refusal(path)
        return answer

    def _ask(self, name: str, path: str, ask: Callable[[S3Store], _T]) -> _T | Said:
        clients = CLIENTS.get(split(path)[0], self._access)
        store = clients.again if name in _LOOKING else clients.once
        try:
            return self._watchdog.call(name, lambda: ask(store), about=f" {path}")
        except StorageError as error:  # the watchdog's own
            if name in _LOOKING:
                raise
            return Said(0, "", str(error.args[0]), True)
        except Exception as error:
            return replace(said(error), connection=self._access.get("connection", ""))
