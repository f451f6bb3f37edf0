"""A ledger that lost commits after redrives: rows come back with their owners, from what storage recorded (R11)."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.faults import CHANGING
from tests.unit.test_redrive import balanced, mend, odd, once, redriven
from tests.world import World, record
from tidegate.core.errors import StorageAhead
from tidegate.workflow import adoption, reconcile

_PORTS = ("batches", "windows", "redrives", "reopenings")


class Commits:
    """Copies the database after each commit of the history."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.names = folder, list[str]()
        self.world: World | None = None
        folder.mkdir()

    def wrap(self, name: str, port: Any) -> Any:
        return _Copying(self, name, port) if name in _PORTS else port

    def copy(self, what: str) -> None:
        if self.world is not None:
            shutil.copy(self.world.database, self.folder / str(len(self.names)))
            self.names.append(what)


class _Copying:
    def __init__(self, commits: Commits, name: str, port: Any) -> None:
        self._commits, self._name, self._port = commits, name, port

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._port, method)
        if method not in CHANGING[self._name]:
            return call

        def copied(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            self._commits.copy(f"{self._name}.{method}")
            return result

        return copied


def history(world: World) -> None:
    """A redrive, one of rows that it had left dirty, a published hour that has rows of both and is rebuilt."""
    world.produce(odd("e0", 0.3) | {"other": "text", "third": 3})
    first_records(world)
    mend(world)
    assert redriven(world, "redrive 1") is not None
    mend(world, "$.third")
    found = redriven(world, "redrive 2")
    assert found is not None
    assert (found.sources, found.data, found.dirty) == ((2,), 1, 1)
    world.archive(0)
    mend(world, "$.none")
    assert world.replay(0).new


def first_records(world: World) -> None:
    world.produce(record("a0", 0.1), odd("a1", 0.5), odd("b0", 1.2, "b"), record("b1", 1.3), b"not json")
    world.produce(record("c0", 2.0), odd("c1", 2.5), record("d0", 3.5), partition=1)
    world.ingest("r1")


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Commits]]:
    folder = tmp_path_factory.mktemp("redriven")
    commits = Commits(folder / "commits")
    (folder / "world").mkdir()
    world = World(folder / "world", wrap=commits.wrap)
    commits.world = world
    history(world)
    commits.world = None
    world.close()
    shutil.copytree(world.folder, folder / "after")
    yield world, commits
    world.close()


def again(original: World) -> World:
    """The end of the history once more, in the same folder: locations are absolute."""
    original.close()
    shutil.rmtree(original.folder)
    shutil.copytree(original.folder.parent / "after", original.folder)
    world = World(original.folder, original.pipeline)
    world.kafka, world.catalogue, world.clock = (
        copy.deepcopy(s) for s in (original.kafka, original.catalogue, original.clock)
    )
    return world


def goes_on(world: World) -> None:
    """The next runs; an operator adopts where one says that it is needed."""
    world.produce(record("next", 4.2), record("next", 4.3), partition=1)
    tasks: list[Callable[[], object]] = [
        lambda: world.ingest("r8"), lambda: redriven(world, "redrive 8"), lambda: world.ingest("r9"),
        lambda: world.archive(0), lambda: world.archive(1), lambda: reconcile.maintain(world.context()),
    ]  # fmt: skip
    for task in tasks:
        try:
            task()
        except StorageAhead:
            world.close()
            ctx = world.context()
            assert adoption.adopt(ctx, adoption.survey(ctx), "restored from a backup")
            world.close()
            task()


def settled(world: World) -> None:
    once(world)
    balanced(world)
    assert world.table("__dirty") == [(0, 5)]
    assert world.by_window()["00"] == [(0, 0), (0, 1), (0, 2)]


def test_the_history_has_commits_of_every_kind(lived: tuple[World, Commits]) -> None:
    assert {"redrives.cleared", "batches.insert_plan", "batches.land"} <= set(lived[1].names)


@pytest.mark.parametrize("part", range(2))
def test_a_ledger_that_goes_back_to_any_of_its_commits_is_rebuilt(lived: tuple[World, Commits], part: int) -> None:
    original, commits = lived
    for n in range(part, len(commits.names), 2):
        world = again(original)
        shutil.copy(commits.folder / str(n), world.database)
        try:
            goes_on(world)
            settled(world)
        except Exception as e:
            raise AssertionError(f"back to commit {n} ({commits.names[n]}): {e}\nsaid: {world.said[-8:]}") from e
        finally:
            world.close()


def test_a_ledger_that_is_gone_is_rebuilt_from_nothing(lived: tuple[World, Commits], tmp_path: Path) -> None:
    world = again(lived[0])
    shutil.copy(World(tmp_path).database, world.database)
    with pytest.raises(StorageAhead, match="next batch is 1"):
        world.ingest("r9")
    world.close()
    goes_on(world)
    settled(world)
    ctx = world.context()
    rows = ctx.ledger.reads.batch_pages("readings", 1, 9)  # type: ignore[attr-defined]
    owners = {b.batch_id: (b.kind, b.sources, b.redriven_by) for page in rows for b in page.batches}
    assert owners[1] == ("ingest", (), 2)
    assert owners[2] == ("redrive", (1,), 3)
    assert owners[3][:2] == ("redrive", (2,))
    world.close()
