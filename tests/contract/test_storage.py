"""What every storage adapter must do, the fake included."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.storage import MemoryStorage

from tidegate.core.base.errors import PathExists, PathMissing, StorageError
from tidegate.core.base.storage import FileStat, Storage
from tidegate.storage import HdfsStorage, LocalStorage


@pytest.fixture(params=["local", "memory", "hdfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Storage, str]]:
    """(storage, URI of an empty directory)"""
    if request.param == "local":
        yield LocalStorage(), f"file://{tmp_path}"
    elif request.param == "hdfs":
        storage, root = HdfsStorage(), f"{request.getfixturevalue('hdfs').hdfs_uri}/contract/{uuid.uuid4().hex}"
        storage.make_dirs(root)
        yield storage, root
        storage.delete(root)
    else:
        storage = MemoryStorage()
        storage.make_dirs("mem:///base")
        yield storage, "mem:///base"


def names(storage: Storage, directory: str) -> list[str] | None:
    found = storage.list_files(directory)
    return None if found is None else [stat.path for stat in found]


def many(storage: Storage) -> int:
    """How many files a test may make: one on HDFS takes ten times as long."""
    return 100 if isinstance(storage, HdfsStorage) else 1000


def test_implements_the_port(place):
    assert isinstance(place[0], Storage)


class TestListing:
    def test_absent_and_empty_are_different(self, place):
        storage, root = place
        storage.make_dirs(f"{root}/empty/below")
        assert storage.list_files(f"{root}/nothing") is None
        assert storage.list_names(f"{root}/nothing") is None
        assert storage.list_files(f"{root}/nothing/below") is None
        assert storage.list_files(f"{root}/empty") == []
        assert storage.list_names(f"{root}/empty") == ["below"]
        assert storage.list_names(f"{root}/empty/below") == []

    def test_nested_files_have_relative_paths_and_sizes(self, place):
        storage, root = place
        storage.write_new(f"{root}/d/b/2", b"22")
        storage.write_new(f"{root}/d/a", b"1")
        storage.write_new(f"{root}/d/b/c/3", b"")
        assert [(s.path, s.bytes) for s in storage.list_files(f"{root}/d")] == [("a", 1), ("b/2", 2), ("b/c/3", 0)]
        assert storage.list_names(f"{root}/d") == ["a", "b"]

    def test_a_trailing_slash_changes_nothing(self, place):
        storage, root = place
        storage.write_new(f"{root}/d/a", b"1")
        assert names(storage, f"{root}/d/") == ["a"]
        assert storage.exists(f"{root}/d/")

    def test_many_files_come_sorted(self, place, rng):
        storage, root = place
        paths = [f"{n % 7}/{n:04d}" for n in range(many(storage))]
        shuffled = rng.sample(paths, len(paths))
        for path in shuffled:
            with storage.open_new(f"{root}/d/{path}"):
                pass
        assert names(storage, f"{root}/d") == sorted(paths)

    def test_a_file_is_not_a_directory(self, place):
        storage, root = place
        storage.write_new(f"{root}/f", b"")
        with pytest.raises(StorageError, match="not a directory"):
            storage.list_files(f"{root}/f")
        assert storage.list_files(f"{root}/f/below") is None
        assert not storage.exists(f"{root}/f/below")

    def test_hidden_names_are_listed(self, place):
        """`_receipt.json` and `_SUCCESS` matter to us, whatever Hive thinks of them."""
        storage, root = place
        for name in ("_SUCCESS", "_receipt.json", ".part"):
            storage.write_new(f"{root}/d/{name}", b"")
        assert names(storage, f"{root}/d") == [".part", "_SUCCESS", "_receipt.json"]

    @pytest.mark.parametrize(
        "name", ["carrier=%2F", "carrier=%252F", "città=日本", "e\u0301", "\u00e9", "a b+c", "x=%2E%2E", "q?#&"]
    )
    def test_names_are_literal(self, place, name):
        storage, root = place
        storage.write_new(f"{root}/d/{name}/f", b"content")
        storage.rename_no_replace(f"{root}/d/{name}/f", f"{root}/d/{name}/{name}")
        assert storage.list_names(f"{root}/d") == [name]
        assert names(storage, f"{root}/d") == [f"{name}/{name}"]
        assert storage.read(f"{root}/d/{name}/{name}") == b"content"
        storage.delete(f"{root}/d/{name}")
        assert storage.list_names(f"{root}/d") == []


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


class TestDelete:
    def test_recursive_and_again(self, place):
        storage, root = place
        storage.write_new(f"{root}/d/a/b", b"")
        storage.write_new(f"{root}/f", b"")
        for path in ("d", "f", "d", "f", "never/was", "f/below"):
            storage.delete(f"{root}/{path}")
        assert storage.list_names(root) == []

    def test_two_at_once(self, place):
        storage, root = place
        for n in range(many(storage) // 5):
            with storage.open_new(f"{root}/d/{n % 5}/{n}"):
                pass
        failures = []

        def run() -> None:
            try:
                storage.delete(f"{root}/d")
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert not storage.exists(f"{root}/d")


class TestSmallFiles:
    def test_written_with_parents_and_read_back(self, place):
        storage, root = place
        content = bytes(range(256)) * 1000
        storage.write_new(f"{root}/a/b/f", content)
        assert storage.read(f"{root}/a/b/f") == content
        assert storage.exists(f"{root}/a/b/f")

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

    def test_readers_see_all_of_it_or_nothing(self, place):
        """Many writers of one name: exactly one is told that it wrote, and nobody ever sees a part."""
        storage, root = place
        contents = [bytes([n]) * 300_000 for n in range(4)]
        seen, wrote, done = set(), [], threading.Event()

        def write(content: bytes) -> None:
            try:
                storage.write_new(f"{root}/f", content)
                wrote.append(content)
            except PathExists:
                pass

        def look() -> None:
            while not done.is_set():
                seen.update(names(storage, root))
                try:
                    assert storage.read(f"{root}/f") in contents
                except PathMissing:
                    continue

        reader = threading.Thread(target=look)
        writers = [threading.Thread(target=write, args=(content,)) for content in contents]
        for thread in (reader, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        reader.join()
        assert [storage.read(f"{root}/f")] == wrote
        assert seen <= {"f"}


class TestReadingPieces:
    def test_from_anywhere_in_a_file(self, place, rng):
        storage, root = place
        content = rng.randbytes(700_000)
        storage.write_new(f"{root}/f", content)
        with storage.open_existing(f"{root}/f") as file:
            assert file.seek(0, 2) == len(content)
            assert file.read(1) == b""
            for _ in range(10):
                at, count = rng.randrange(len(content)), rng.randrange(300_000)
                assert file.seek(at) == at
                assert file.read(count) == content[at : at + count]
                assert file.tell() == min(at + count, len(content))
            file.seek(-4, 2)
            assert file.read() == content[-4:]

    def test_what_is_not_there(self, place):
        storage, root = place
        with pytest.raises(PathMissing):
            storage.open_existing(f"{root}/gone")


class TestWorkersFiles:
    def test_exclusive_with_parents(self, place):
        storage, root = place
        with storage.open_new(f"{root}/a/b/f") as file:
            file.write(b"x" * 3_000_000)
            file.write(b"y")
        assert [(s.path, s.bytes) for s in storage.list_files(root)] == [("a/b/f", 3_000_001)]
        with pytest.raises(PathExists):
            storage.open_new(f"{root}/a/b/f")

    def test_parents_may_be_made_by_many(self, place):
        storage, root = place
        failures, barrier = [], threading.Barrier(4)

        def run(n: int) -> None:
            barrier.wait()
            try:
                with storage.open_new(f"{root}/a/b/c/d/{n}"):
                    pass
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert names(storage, f"{root}/a/b/c/d") == ["0", "1", "2", "3"]
