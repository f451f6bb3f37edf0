"""What only a local disk does: how its errors read, what a crash leaves, which URIs are its own."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from tidegate import storage as adapters
from tidegate.core.base.errors import OutcomeUnknown, PathMissing, StorageError
from tidegate.storage import LocalStorage, for_uri, local


@pytest.mark.parametrize("uri", ["file:///a/b", "file:/a/b", "/a/b", "file:///a/b/"])
def test_spellings_of_one_path(uri):
    assert isinstance(for_uri(uri), LocalStorage)
    assert local.local_path(uri) == "/a/b"


def test_nothing_is_decoded():
    assert local.local_path("file:///t/carrier=%2F") == "/t/carrier=%2F"


@pytest.mark.parametrize("uri", ["file://host/a", "a/b", "file:a", "", "file:///a/../b", "file:///a\x00b"])
def test_what_is_not_an_absolute_path_is_refused(uri):
    with pytest.raises(StorageError) as refused:
        LocalStorage().exists(uri)
    assert not refused.value.retry


@pytest.mark.parametrize(("uri", "said"), [("s3a://b/t", "not a URI"), ("hdfs", "not a URI")])
def test_other_schemes(uri, said):
    with pytest.raises(StorageError, match=said) as refused:
        adapters.for_uri(uri)
    assert not refused.value.retry


def test_leftovers_of_a_crashed_write_are_invisible_and_go_with_their_directory(tmp_path, monkeypatch):
    storage = LocalStorage()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "_rename_no_replace", crash)
    monkeypatch.setattr(local, "_unlink_quietly", lambda path: None)
    with pytest.raises(KeyboardInterrupt):
        storage.write_new(f"{tmp_path}/d/f", b"content")
    assert len(os.listdir(tmp_path / "d")) == 1
    assert storage.list_files(f"{tmp_path}/d") == []
    assert storage.list_names(f"{tmp_path}/d") == []
    storage.delete(f"{tmp_path}/d")
    assert not os.path.exists(tmp_path / "d")


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="no space left"):
        LocalStorage().write_new(f"{tmp_path}/f", b"content")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_while_a_worker_writes(monkeypatch):
    class Full(local._NewFile):
        def __init__(self, path: str) -> None:
            super(local._NewFile, self).__init__("/dev/full", "wb")
            self._path, self._failed = path, False

    with pytest.raises(StorageError, match="/x/f: no space left"), Full("/x/f") as file:
        file.write(b"content")


@pytest.mark.parametrize(
    ("number", "kind", "said", "retry"),
    [
        (errno.EXDEV, StorageError, "the work directory must be on the same filesystem", False),
        (errno.ENOSPC, StorageError, "no space left", True),
        (errno.EDQUOT, StorageError, "quota", True),
        (errno.EACCES, StorageError, "permission denied", True),
        (errno.EINVAL, StorageError, "cannot rename without replacing", False),
        (errno.ENOSYS, StorageError, "cannot rename without replacing", False),
        (errno.EIO, OutcomeUnknown, "Input/output error", True),
        (errno.ESTALE, OutcomeUnknown, "Stale", True),
        (errno.EINTR, OutcomeUnknown, "Interrupted", True),
    ],
)
def test_rename_errors_say_what_to_do(tmp_path, monkeypatch, number, kind, said, retry):
    class Refusing:
        @staticmethod
        def renameat2(*_: object) -> int:
            ctypes.set_errno(number)
            return -1

    monkeypatch.setattr(local, "_libc", Refusing)
    storage = LocalStorage()
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(kind, match=said) as refused:
        storage.rename_no_replace(f"{tmp_path}/a", f"{tmp_path}/b")
    assert type(refused.value) is kind
    assert refused.value.retry is retry


def test_without_the_system_call_nothing_is_renamed(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_libc", object())
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot rename without replacing"):
        LocalStorage().rename_no_replace(f"{tmp_path}/a", f"{tmp_path}/b")
    assert os.listdir(tmp_path) == ["a"]


def test_a_rename_that_could_not_be_synced_is_unknown(tmp_path, monkeypatch):
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "a").write_bytes(b"")
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OutcomeUnknown, match="renamed"):
        LocalStorage().rename_no_replace(f"{tmp_path}/a", f"{tmp_path}/b")
    assert os.listdir(tmp_path) == ["b"]


def test_another_filesystem(tmp_path, stack_roots):
    (tmp_path / "a").mkdir()
    there = [folder for folder in ("/dev/shm", stack_roots) if os.path.isdir(folder)]
    other = [folder for folder in there if os.stat(folder).st_dev != os.stat(tmp_path).st_dev]
    if not other:
        pytest.skip("needs a second filesystem")
    with pytest.raises(StorageError, match="same filesystem") as refused:
        LocalStorage().rename_no_replace(f"{tmp_path}/a", f"{other[0]}/{tmp_path.name}-never")
    assert not refused.value.retry


def test_files_and_both_parents_are_synced_before_the_answer(tmp_path, monkeypatch):
    synced: list[str] = []
    real = os.fsync

    def note(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(os, "fsync", note)
    storage = LocalStorage()
    with storage.open_new(f"{tmp_path}/a/f"):
        pass
    assert synced == [str(tmp_path), f"{tmp_path}/a/f", f"{tmp_path}/a"]
    storage.make_dirs(f"{tmp_path}/b")
    synced.clear()
    storage.rename_no_replace(f"{tmp_path}/a/f", f"{tmp_path}/b/f")
    assert sorted(synced) == [f"{tmp_path}/a", f"{tmp_path}/b"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look anywhere")
def test_what_cannot_be_looked_at_is_not_absent(tmp_path):
    (tmp_path / "closed" / "d").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    try:
        with pytest.raises(StorageError, match="permission denied"):
            LocalStorage().exists(f"{tmp_path}/closed/d")
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_links_are_removed_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "f").write_bytes(b"")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "link").symlink_to(kept)
    LocalStorage().delete(f"{tmp_path}/d")
    (tmp_path / "link").symlink_to(kept)
    LocalStorage().delete(f"{tmp_path}/link")
    assert (kept / "f").exists()


def test_a_listing_survives_what_disappears_meanwhile(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_bytes(b"")
    real = os.scandir

    def vanishing(path: str):
        if path == str(tmp_path / "b"):
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert [stat.path for stat in LocalStorage().list_files(str(tmp_path))] == ["a/f"]


def test_a_missing_parent_is_named(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(PathMissing, match=r"/no/where: is not a directory"):
        LocalStorage().rename_no_replace(f"{tmp_path}/a", f"{tmp_path}/no/where/b")
