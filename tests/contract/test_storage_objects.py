"""What a storage adapter for an object store must do besides: nothing moves, and nothing is seen in part."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from tests.contract.storage_places import names
from tidegate.core.base.errors import PathExists, StorageError
from tidegate.core.files.overflow import MAX_KEY_BYTES

LARGE = b"x" * 3_000_000


def test_refuses_to_rename(store):
    storage, root = store
    storage.write_new(f"{root}/a", b"a")
    assert not storage.renames
    with pytest.raises(StorageError, match="moves") as refused:
        storage.rename_no_replace(f"{root}/a", f"{root}/b")
    assert not refused.value.retry
    assert names(storage, root) == ["a"]


def test_an_empty_directory_is_absent(store):
    storage, root = store
    storage.make_dirs(f"{root}/d")
    assert storage.list_files(f"{root}/d") is None
    assert not storage.exists(f"{root}/d")


class TestWorkersFiles:
    def test_a_file_is_seen_once_it_is_whole(self, store):
        storage, root = store
        with storage.open_new(f"{root}/f") as file:
            for _ in range(10):
                file.write(LARGE)
            assert file.tell() == 10 * len(LARGE)
            assert not storage.exists(f"{root}/f")
        assert [(s.path, s.bytes) for s in storage.list_files(root)] == [("f", 10 * len(LARGE))]
        file.close()

    @pytest.mark.parametrize("pieces", [1, 10])
    def test_an_exception_publishes_nothing(self, store, pieces):
        storage, root = store
        with suppress(ZeroDivisionError), storage.open_new(f"{root}/f") as file:
            for _ in range(pieces):
                file.write(LARGE)
            raise ZeroDivisionError
        assert not storage.exists(f"{root}/f")
        with storage.open_new(f"{root}/f") as file:
            file.write(b"again")
        assert storage.read(f"{root}/f") == b"again"

    def test_a_file_that_was_left_open_is_not_published(self, store):
        storage, root = store
        storage.open_new(f"{root}/f").write(LARGE)
        gc.collect()
        assert not storage.exists(f"{root}/f")

    def test_of_two_writers_one_is_told_that_it_wrote(self, store):
        storage, root = store
        first, second = storage.open_new(f"{root}/f"), storage.open_new(f"{root}/f")
        first.write(b"first")
        second.write(b"second")
        first.close()
        with pytest.raises(PathExists):
            second.close()
        assert storage.read(f"{root}/f") == b"first"


@pytest.mark.parametrize("letter", ["y", "\u6f22"])
def test_a_key_has_1024_bytes_at_most(store, request, letter):
    """Of the whole path in its bucket, in UTF-8."""
    storage, root = store
    if request.node.callspec.params["store"] == "moto":
        pytest.skip("moto takes longer ones")
    prefix, folder = root.removeprefix("s3://").partition("/")[2], f"{letter * 60}%2F/"
    folders, rest = divmod(MAX_KEY_BYTES - len(f"{prefix}/x".encode()), len(folder.encode()))
    longest = folder * folders + "z" * rest + "x"
    storage.write_new(f"{root}/{longest}", b"a")
    with pytest.raises(StorageError, match="too long"):
        storage.write_new(f"{root}/{longest}y", b"b")
    with pytest.raises(StorageError, match="too long"), storage.open_new(f"{root}/{longest}z") as file:
        file.write(b"c")
    assert names(storage, root) == [longest]
