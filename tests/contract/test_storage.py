"""What every storage adapter must do, the fake included."""

from __future__ import annotations

import threading

import pytest

from tests.contract.storage_places import many, names
from tidegate.core.base.errors import PathExists, PathMissing
from tidegate.core.base.storage import Storage


def test_implements_the_port(place):
    assert isinstance(place[0], Storage)


class TestListing:
    def test_what_is_absent(self, place):
        storage, root = place
        storage.write_new(f"{root}/f", b"")
        for absent in ("nothing", "nothing/below", "f/below"):
            assert storage.list_files(f"{root}/{absent}") is None
            assert storage.list_names(f"{root}/{absent}") is None
            assert not storage.exists(f"{root}/{absent}")

    def test_a_directory_is_there_while_something_is_below(self, place):
        storage, root = place
        storage.make_dirs(f"{root}/d")
        storage.write_new(f"{root}/d/a/f", b"")
        assert storage.exists(f"{root}/d")
        assert storage.exists(f"{root}/d/a")
        storage.delete(f"{root}/d/a/f")
        storage.delete(f"{root}/d")
        assert not storage.exists(f"{root}/d/a")

    def test_names_that_begin_alike_are_others(self, place):
        storage, root = place
        for path in ("1/f", "10/f", "1.late/f", "1f"):
            storage.write_new(f"{root}/{path}", b"")
        assert names(storage, f"{root}/1") == ["f"]
        storage.delete(f"{root}/1")
        assert names(storage, root) == ["1.late/f", "10/f", "1f"]
        storage.delete(f"{root}/10/")
        assert names(storage, root) == ["1.late/f", "1f"]

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
        storage.write_new(f"{root}/d/{name}/{name}", b"content")
        storage.delete(f"{root}/d/{name}/f")
        assert storage.list_names(f"{root}/d") == [name]
        assert names(storage, f"{root}/d") == [f"{name}/{name}"]
        assert storage.read(f"{root}/d/{name}/{name}") == b"content"
        storage.delete(f"{root}/d/{name}")
        assert not names(storage, f"{root}/d")


class TestDelete:
    def test_recursive_and_again(self, place):
        storage, root = place
        storage.write_new(f"{root}/d/a/b", b"")
        storage.write_new(f"{root}/f", b"")
        for path in ("d", "f", "d", "f", "never/was", "f/below"):
            storage.delete(f"{root}/{path}")
        assert not names(storage, root)

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
                seen.update(names(storage, root) or ())
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

    def test_never_over_a_file(self, place):
        storage, root = place
        storage.write_new(f"{root}/f", b"first")
        for content in (b"second", b"first"):
            with pytest.raises(PathExists):
                storage.write_new(f"{root}/f", content)
        assert storage.read(f"{root}/f") == b"first"

    def test_what_is_not_there(self, place):
        storage, root = place
        for absent in ("gone", "gone/below"):
            with pytest.raises(PathMissing):
                storage.read(f"{root}/{absent}")


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
