"""What a storage adapter with directories must do: they may be empty, and they move as a whole."""

from __future__ import annotations

import threading

import pytest

from tests.contract.storage_places import many, names
from tidegate.core.base.errors import PathExists, PathMissing, StorageError
from tidegate.core.base.storage import FileStat, Storage


@pytest.fixture
def place(tree: tuple[Storage, str]) -> tuple[Storage, str]:
    return tree


def test_says_that_it_renames(place):
    assert place[0].renames


class TestDirectories:
    def test_absent_and_empty_are_different(self, place):
        storage, root = place
        storage.make_dirs(f"{root}/empty/below")
        assert storage.list_files(f"{root}/nothing") is None
        assert storage.list_names(f"{root}/nothing") is None
        assert storage.list_files(f"{root}/nothing/below") is None
        assert storage.list_files(f"{root}/empty") == []
        assert storage.list_names(f"{root}/empty") == ["below"]
        assert storage.list_names(f"{root}/empty/below") == []

    def test_a_file_is_not_a_directory(self, place):
        storage, root = place
        storage.write_new(f"{root}/f", b"")
        with pytest.raises(StorageError, match="not a directory"):
            storage.list_files(f"{root}/f")
        assert storage.list_files(f"{root}/f/below") is None
        assert not storage.exists(f"{root}/f/below")

    def test_never_over_something(self, place):
        storage, root = place
        storage.write_new(f"{root}/f", b"first")
        storage.make_dirs(f"{root}/d")
        for taken in ("f", "d"):
            with pytest.raises(PathExists):
                storage.write_new(f"{root}/{taken}", b"second")
        assert storage.read(f"{root}/f") == b"first"
        assert names(storage, root) == ["f"]

    def test_a_file_in_the_way_of_a_directory(self, place):
        storage, root = place
        storage.write_new(f"{root}/f", b"first")
        for call in (storage.make_dirs, lambda path: storage.write_new(path, b"")):
            with pytest.raises(PathExists):
                call(f"{root}/f/below")
        assert storage.read(f"{root}/f") == b"first"

    def test_reading_what_is_not_a_file(self, place):
        storage, root = place
        storage.make_dirs(f"{root}/d")
        for absent in ("gone", "gone/below"):
            with pytest.raises(PathMissing):
                storage.read(f"{root}/{absent}")
        with pytest.raises(StorageError) as refused:
            storage.read(f"{root}/d")
        assert not isinstance(refused.value, PathMissing)


class TestRename:
    def test_a_file_moves_with_its_modification_time(self, place):
        storage, root = place
        storage.write_new(f"{root}/a/f", b"content")
        (before,) = storage.list_files(f"{root}/a")
        storage.make_dirs(f"{root}/b")
        storage.rename_no_replace(f"{root}/a/f", f"{root}/b/g")
        assert storage.list_files(f"{root}/b") == [FileStat("g", 7, before.modified_ms)]
        assert storage.list_files(f"{root}/a") == []

    def test_a_directory_moves_with_all_below(self, place):
        storage, root = place
        storage.write_new(f"{root}/a/x/1", b"1")
        storage.write_new(f"{root}/a/2", b"2")
        storage.rename_no_replace(f"{root}/a", f"{root}/b")
        assert names(storage, f"{root}/b") == ["2", "x/1"]
        assert not storage.exists(f"{root}/a")

    @pytest.mark.parametrize("taken", ["file", "empty directory", "full directory"])
    @pytest.mark.parametrize("moved", ["file", "empty directory", "full directory"])
    def test_nothing_is_ever_replaced_or_nested_into(self, place, moved, taken):
        storage, root = place
        self._make(storage, f"{root}/source", moved)
        self._make(storage, f"{root}/destination", taken)
        before = names(storage, root), storage.list_names(root)
        with pytest.raises(PathExists):
            storage.rename_no_replace(f"{root}/source", f"{root}/destination")
        assert (names(storage, root), storage.list_names(root)) == before
        if taken != "file":
            assert storage.list_names(f"{root}/destination") == (["kept"] if taken == "full directory" else [])

    def test_the_parent_must_be_there(self, place):
        storage, root = place
        storage.write_new(f"{root}/a/f", b"content")
        for kind in ("a", "a/f"):
            with pytest.raises(PathMissing, match="nowhere"):
                storage.rename_no_replace(f"{root}/{kind}", f"{root}/nowhere/b")
        assert names(storage, root) == ["a/f"]
        assert not storage.exists(f"{root}/nowhere")

    def test_a_file_is_no_parent(self, place):
        storage, root = place
        storage.write_new(f"{root}/a", b"a")
        storage.write_new(f"{root}/f", b"f")
        with pytest.raises(PathMissing):
            storage.rename_no_replace(f"{root}/a", f"{root}/f/a")
        assert names(storage, root) == ["a", "f"]

    def test_a_missing_source(self, place):
        storage, root = place
        storage.make_dirs(f"{root}/there")
        for destination in ("new", "there"):
            with pytest.raises(PathMissing, match="gone"):
                storage.rename_no_replace(f"{root}/gone", f"{root}/{destination}")
        assert storage.list_names(root) == ["there"]

    def test_onto_itself_and_into_itself(self, place):
        storage, root = place
        storage.write_new(f"{root}/a/f", b"content")
        with pytest.raises(PathExists):
            storage.rename_no_replace(f"{root}/a", f"{root}/a")
        with pytest.raises(StorageError):
            storage.rename_no_replace(f"{root}/a", f"{root}/a/b")
        assert names(storage, root) == ["a/f"]

    def test_of_two_racers_exactly_one_wins(self, place):
        storage, root = place
        for turn in range(many(storage) // 20):
            self._race(storage, f"{root}/{turn}")

    def _race(self, storage: Storage, root: str) -> None:
        for racer in ("a", "b"):
            storage.write_new(f"{root}/{racer}/{racer}", b"")
        barrier, outcomes = threading.Barrier(2), {}

        def run(racer: str) -> None:
            barrier.wait()
            try:
                storage.rename_no_replace(f"{root}/{racer}", f"{root}/goal")
                outcomes[racer] = "won"
            except PathExists:
                outcomes[racer] = "lost"

        threads = [threading.Thread(target=run, args=(racer,)) for racer in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winner = next((racer for racer, outcome in outcomes.items() if outcome == "won"), None)
        loser = "b" if winner == "a" else "a"
        assert sorted(outcomes.values()) == ["lost", "won"]
        assert names(storage, root) == sorted([f"goal/{winner}", f"{loser}/{loser}"])

    @staticmethod
    def _make(storage: Storage, path: str, kind: str) -> None:
        if kind == "file":
            storage.write_new(path, b"kept")
        elif kind == "empty directory":
            storage.make_dirs(path)
        else:
            storage.write_new(f"{path}/kept", b"kept")
