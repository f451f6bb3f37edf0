"""A ledger that loses commits (R11): a history is lived once, then its database goes back to any of its commits.

Storage, Kafka and the catalogue stay as they were at the history's end.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.crash.faults import CHANGING
from tests.world import World
from tidegate.core.base.errors import StorageAhead
from tidegate.workflow.restore import adoption

PORTS = {name: CHANGING[name] for name in ("batches", "windows", "redrives", "reopenings")}


class Past:
    """A history that is over, and the database as it was after each of its commits."""

    def __init__(self, folder: Path, world: World, names: list[str]) -> None:
        self._folder, self._end, self.names = folder, world, names

    def drawn(self, share: float = 0.1) -> list[int]:
        """Commits: one of each kind, and a share of the others, which ones TIDEGATE_TEST_SEED says; all of them in
        `make test-faults`."""
        every = list(range(len(self.names)))
        if os.environ.get("TIDEGATE_FAULTS") == "all":
            return every
        dice = random.Random(os.environ["TIDEGATE_TEST_SEED"])
        dice.shuffle(every)
        first = {self.names[number]: number for number in every}
        return sorted({*first.values(), *every[: round(share * len(every))]})

    def again(self) -> World:
        """The end of the history once more, in the same folder: locations are absolute."""
        end = self._end
        end.close()
        shutil.rmtree(end.folder)
        shutil.copytree(self._folder / "after", end.folder)
        world = World(end.folder, end.pipeline)
        shutil.copy(self._folder / "after/ledger.db", world.database)
        world.kafka, world.catalogue, world.clock = (copy.deepcopy(s) for s in (end.kafka, end.catalogue, end.clock))
        return world

    def holds_from(self, numbers: Iterable[int], follow: Callable[[World], None]) -> None:
        """Let the database go back to each of these commits in turn; `follow` goes on from there and holds the end."""
        wrong = []
        for number in numbers:
            world = self.again()
            shutil.copy(self._folder / "commits" / str(number), world.database)
            try:
                follow(world)
            except Exception as e:
                name = f"back to commit {number} ({self.names[number]})"
                wrong.append(f"{name}: {type(e).__name__}: {e}\nsaid: {world.said[-8:]}")
            finally:
                world.close()
        assert wrong == [], "\n".join(wrong)


@contextmanager
def lived(
    folder: Path, history: Callable[[World], None], changing: Mapping[str, Collection[str]] = PORTS
) -> Iterator[Past]:
    """A new world in which `history` happens; `changing` names the calls of each port whose commits count."""
    commits = _Commits(folder / "commits", changing)
    (folder / "world").mkdir()
    world = World(folder / "world", wrap=commits.wrap)
    commits.world = world
    history(world)
    commits.world = None
    world.close()
    shutil.copytree(world.folder, folder / "after")
    yield Past(folder, world, commits.names)
    world.close()


class _Commits:
    """Copies the database after each commit."""

    def __init__(self, folder: Path, changing: Mapping[str, Collection[str]]) -> None:
        self.folder, self.changing, self.names = folder, changing, list[str]()
        self.world: World | None = None
        folder.mkdir()

    def wrap(self, name: str, port: Any) -> Any:
        return _Copying(self, name, port) if name in self.changing else port

    def copy(self, what: str) -> None:
        if self.world is not None:
            shutil.copy(self.world.database, self.folder / str(len(self.names)))
            self.names.append(what)


class _Copying:
    def __init__(self, commits: _Commits, name: str, port: Any) -> None:
        self._commits, self._name, self._port = commits, name, port

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._port, method)
        if method not in self._commits.changing[self._name]:
            return call

        def copied(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            self._commits.copy(f"{self._name}.{method}")
            return result

        return copied


def adopt(world: World) -> list[str]:
    """`repair --adopt`; returns what was done."""
    ctx = world.context()
    done = adoption.adopt(ctx, adoption.survey(ctx), "restored from a backup")
    world.close()
    return done


def go_on(world: World, tasks: Iterable[Callable[[], object]]) -> None:
    """The next runs; an operator adopts where one says that it is needed."""
    for task in tasks:
        try:
            task()
        except StorageAhead:
            world.close()
            assert adopt(world)
            task()
        world.close()
