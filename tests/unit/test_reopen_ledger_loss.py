"""A ledger that lost commits around reopenings: rows come back where they are, from what storage recorded (R11)."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.test_redrive_ledger_loss import Commits
from tests.unit.test_reopen import balanced, reopened
from tests.world import World, record
from tidegate.core.errors import StorageAhead
from tidegate.core.pipeline import Column
from tidegate.workflow import adoption, reconcile
from tidegate.workflow.context import REQUEST_TTL_MS

DRAWN = 8


def history(world: World) -> None:
    """Late rows of two batches; the hour is reopened, rebuilt with other columns, and reopened by directory."""
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.produce(record("late 1", 0.2), record("late 2", 0.3, "new"))
    world.ingest("r2")
    reopened(world)
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other")))
    assert world.replay(0).new
    world.produce(record("later", 0.4))
    world.ingest("r3")
    reopened(world)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Commits]]:
    folder = tmp_path_factory.mktemp("reopened")
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
    world.clock.advance(REQUEST_TTL_MS + 1)  # changes that the database says are under way are over
    world.produce(record("next", 4.2), record("next late", 0.9))
    tasks: list[Callable[[], object]] = [
        lambda: world.ingest("r8"), lambda: world.ingest("r9"), lambda: world.archive(0), lambda: reopened(world),
        lambda: reconcile.maintain(world.context()),
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
        world.close()


def test_any_commits_that_are_lost_come_back(lived: tuple[World, Commits], rng: random.Random) -> None:
    """The database falls back to one of its commits, of which some are drawn: the end is the same."""
    original, commits = lived
    assert len(commits.names) > 40
    wrong = []
    for number in sorted(rng.sample(range(len(commits.names)), DRAWN)):
        name = commits.names[number]
        world = again(original)
        try:
            shutil.copy(commits.folder / str(number), world.database)
            goes_on(world)
            rows, late = world.by_window()["00"], world.table("__late")
            if (len(rows), len(set(rows)), late) != (6, 6, []):
                wrong.append(f"{number} {name}: {rows}, late {late}")
            balanced(world)
        except Exception as e:
            wrong.append(f"{number} {name}: {type(e).__name__}: {e}")
        finally:
            world.close()
    assert wrong == [], "\n".join(wrong)


def test_the_records_alone_are_enough(lived: tuple[World, Commits], tmp_path: Path) -> None:
    """All of the ledger is lost."""
    world = again(lived[0])
    (tmp_path / "empty").mkdir()
    fresh = World(tmp_path / "empty", world.pipeline)
    shutil.copy(fresh.database, world.database)
    fresh.close()
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the database is gone")
    world.close()
    reconcile.maintain(world.context())
    world.close()
    assert world.by_window()["00"] == [(0, n) for n in range(5)]
    assert world.table("__late") == []
    balanced(world)
    assert reopened(world).generation == 4  # that it was announced is no record of storage's
