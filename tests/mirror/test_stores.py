"""A mirror in an object store: nothing moves there, and a batch lands by its record. `test_faults.py` kills its merges
at every call; `tests/contract/test_mirror_stores.py` has the same life on real stores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.objects import MemoryObjects
from tests.mirror import stores, test_cleaning, test_life, test_tries
from tests.mirror.worlds import MirrorWorld

CLAUSES: tuple[Callable[[MirrorWorld], None], ...] = (
    test_life.test_m4_a_table_that_was_taken_back_goes_on_from_there,
    test_life.test_r11_a_table_beyond_the_ledger_is_refused,
    test_life.test_r11_a_ledger_that_was_restored_takes_up_what_has_landed_and_goes_on,
    test_life.test_m7_a_contradiction_is_refused_and_nothing_is_committed,
    test_tries.test_r9_a_try_has_a_directory_of_its_own,
    test_cleaning.test_files_that_a_kept_snapshot_names_stay,
    test_cleaning.test_files_that_no_snapshot_names_any_more_go,
    test_cleaning.test_a_try_that_is_open_stays,
    test_cleaning.test_a_refused_try_goes,
    test_cleaning.test_what_the_ledger_does_not_know_stays_and_is_told,
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path, location="s3://lake/readings")
    stores.children_read(monkeypatch, made.store)
    yield made
    made.close()


class Remembers(MemoryObjects):
    """Goes on naming directories whose last file was deleted, as some stores do."""

    def __init__(self) -> None:
        super().__init__()
        self._names = defaultdict[str, set[str]](set)

    def write_new(self, path: str, content: bytes) -> None:
        super().write_new(path, content)
        at, _, name = path.rpartition("/")
        while "//" in at.rpartition("/")[0]:
            at, _, name = at.rpartition("/")
            self._names[at].add(name)

    def list_names(self, directory: str) -> list[str] | None:
        return sorted({*(super().list_names(directory) or ()), *self._names[directory.rstrip("/")]}) or None


@pytest.mark.parametrize("kind", [MemoryObjects, Remembers])
def test_a_life(kind: type[MemoryObjects], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = MirrorWorld(tmp_path, location="s3://lake/readings", store=kind())
    stores.children_read(monkeypatch, world.store)
    stores.lived(world)
    below = {f.path.split("/")[0] for f in world.store.list_files("s3://lake/readings/_tidegate") or []}
    assert below == {"apply", "hwm", "tmp"}, "landed files stay in the attempts that wrote them"
    world.close()


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__.removeprefix("test_"))
def test_what_is_said_of_a_disk_is_true_here(world: MirrorWorld, clause: Callable[[MirrorWorld], None]) -> None:
    clause(world)
