"""A ledger that lost commits while a range was replayed: storage remembers, and the range is gone on with."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.unit.test_redrive_ledger_loss import Commits
from tests.unit.test_replay_range import other_columns, spread, well
from tests.world import TOPIC, World, record, window
from tidegate.core.errors import JobFailed, StorageAhead
from tidegate.workflow import adoption, reconcile, rehearsal, replay
from tidegate.workflow.context import REQUEST_TTL_MS

DRAWN = 5
HOURS = range(3)


def history(world: World) -> None:
    """Three hours of two batches, rebuilt together; then once more, one batch of them from our own files."""
    spread(world, HOURS, batches=2)
    other_columns(world)
    replayed(world)
    for partition, end in ((0, 5), (1, 3)):
        world.kafka.trim(TOPIC, partition, end)
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(site, id_))
    rehearsal.rehearse(world.context(), [window(0)])
    replayed(world)


def replayed(world: World) -> None:
    found = replay.replay_range(world.context(), [window(h) for h in HOURS])
    if not all(o.well for o in found):
        raise JobFailed(str([o.why for o in found if not o.well]))


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Commits]]:
    folder = tmp_path_factory.mktemp("replayed")
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
    world.produce(record("next", 44.2), record("next", 44.3))
    world.produce(record("next", 44.2), partition=1)
    tasks: list[Callable[[], object]] = [
        lambda: world.ingest("r8"), lambda: world.ingest("r9"), *(lambda h=h: world.archive(h) for h in HOURS),
        lambda: replayed(world), lambda: reconcile.maintain(world.context()),
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
    """The database falls back to one of its commits since the hours were published, of which some are drawn."""
    original, commits = lived
    first = len(commits.names) - commits.names[::-1].index("windows.announced")
    assert len(commits.names) - first > 40
    wrong = []
    for number in sorted(rng.sample(range(first, len(commits.names)), DRAWN)):
        name = commits.names[number]
        world = again(original)
        expected = world.by_window()
        try:
            shutil.copy(commits.folder / str(number), world.database)
            goes_on(world)
            if world.by_window() != expected:
                wrong.append(f"{number} {name}: {world.by_window()}")
            well(world)
        except Exception as e:
            wrong.append(f"{number} {name}: {type(e).__name__}: {e}")
        finally:
            world.close()
    assert wrong == [], "\n".join(wrong)
