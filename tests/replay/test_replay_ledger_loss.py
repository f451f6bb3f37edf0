"""A ledger that lost commits while a range was replayed: storage remembers, and the range is gone on with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tests.ledger_loss import Past, go_on, lived
from tests.replay.test_replay_range import other_columns, spread, well
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import JobFailed
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.replay import rehearsal, replay

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
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    with lived(tmp_path_factory.mktemp("replayed"), history) as past:
        yield past


def goes_on(world: World) -> None:
    world.clock.advance(REQUEST_TTL_MS + 1)  # changes that the database says are under way are over
    world.produce(record("next", 44.2), record("next", 44.3))
    world.produce(record("next", 44.2), partition=1)
    tasks: list[Callable[[], object]] = [
        lambda: world.ingest("r8"), lambda: world.ingest("r9"), *(lambda h=h: world.archive(h) for h in HOURS),
        lambda: replayed(world), lambda: reconcile.maintain(world.context()),
    ]  # fmt: skip
    go_on(world, tasks)


def test_any_commits_that_are_lost_come_back(past: Past, rng: random.Random) -> None:
    """The database falls back to one of its commits since the hours were published, of which some are drawn."""

    def follow(world: World) -> None:
        expected = world.by_window()
        goes_on(world)
        assert world.by_window() == expected
        well(world)

    first = len(past.names) - past.names[::-1].index("windows.announced")
    assert len(past.names) - first > 40
    past.holds_from(sorted(rng.sample(range(first, len(past.names)), DRAWN)), follow)
