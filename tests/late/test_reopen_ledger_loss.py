"""A ledger that lost commits around reopenings: rows come back where they are, from what storage recorded (R11)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.late.reopenings import balanced, reopened
from tests.ledger_loss import Past, go_on, lived
from tests.world import World, record
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.restore import adoption

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
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    assert world.replay(0).new
    world.produce(record("later", 0.4))
    world.ingest("r3")
    reopened(world)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    with lived(tmp_path_factory.mktemp("reopened"), history) as past:
        yield past


def goes_on(world: World) -> None:
    world.clock.advance(REQUEST_TTL_MS + 1)  # changes that the database says are under way are over
    world.produce(record("next", 4.2), record("next late", 0.9))
    tasks: list[Callable[[], object]] = [
        lambda: world.ingest("r8"), lambda: world.ingest("r9"), lambda: world.archive(0), lambda: reopened(world),
        lambda: reconcile.maintain(world.context()),
    ]  # fmt: skip
    go_on(world, tasks)


def test_any_commits_that_are_lost_come_back(past: Past, rng: random.Random) -> None:
    """The database falls back to one of its commits, of which some are drawn: the end is the same."""

    def follow(world: World) -> None:
        goes_on(world)
        rows = world.by_window()["00"]
        assert (len(rows), len(set(rows)), world.table("__late")) == (6, 6, []), rows
        balanced(world)

    assert len(past.names) > 40
    past.holds_from(sorted(rng.sample(range(len(past.names)), DRAWN)), follow)


def test_the_records_alone_are_enough(past: Past, tmp_path: Path) -> None:
    """All of the ledger is lost."""
    world = past.again()
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
