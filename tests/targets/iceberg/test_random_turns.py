"""Three workers at two hours of one table, in orders that a seed draws: commits die, lose their answers and come late.

Readers of every snapshot meet one generation of each hour, never an older one after a newer; in the end it is the one
that the ledger has in force, and each row is in one place. A failure names its seed: `TIDEGATE_TEST_SEED=... pytest
tests/targets/iceberg/test_random_turns.py` plays it again; `make test-faults` plays some hundreds.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from unittest import mock

import pytest

from tests.crash import lakehouse
from tests.crash.faults import Faults
from tests.crash.kept import KEPT
from tests.crash.matrix import problems
from tests.crash.scenario import Snapshot
from tests.targets.iceberg.turns import Turns
from tests.world import World, record, window
from tidegate.core.base.errors import NotReady, ReplayRefused, TidegateError
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.spec.pipeline import Column, Reopening
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.base.turn import Turn
from tidegate.workflow.batch import ingest
from tidegate.workflow.late import reopen
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay, rollback

GAMES = 300 if os.environ.get("TIDEGATE_FAULTS") == "all" else 5
HOURS = (0, 1)
TRIES = 8


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Turns], World]]:
    """Hour 0 is published and has a late row in its table, hour 1 can be published, a batch with another late row can
    land."""
    folder = tmp_path_factory.mktemp("turns")
    (folder / "world").mkdir()
    with mock.patch.object(os, "fsync"), mock.patch.object(Turn, "give_way", return_value=None):
        world = lakehouse.install(World(folder / "world"))
        world.change_spec(reopening=Reopening(after_ms=0))
        world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), record("b1", 1.4, "b"))
        world.produce(record("far", 5.5))
        world.produce(record("far", 5.5), partition=1)
        world.ingest("r1")
        world.archive(0)
        world.produce(record("late", 0.7), b"dirty")
        world.ingest("r2")
        world.produce(record("later", 0.8), record("late 1", 1.8))
        ingest.plan(world.context(), "r3")
        ingest.write(world.context(), "r3")
        snapshot = Snapshot.of(world, folder / "snapshot", linked=True)

        def restored(turns: Turns) -> World:
            found = snapshot.restore(folder / "world", Faults())
            found.wrap = turns.wrap
            return found

        yield restored


def steps(world: World, rng: random.Random) -> list[tuple[str, Callable[[], object]]]:
    """What one worker does: two or three tasks as people and schedulers begin them."""
    found: list[tuple[str, Callable[[], object]]] = []
    for _ in range(rng.choice((2, 3))):
        hour, path = rng.choice(HOURS), rng.choice(("$.value", "$.other", "$.third"))
        kind = rng.choice(("publish", "replay", "replay", "reopen", "rollback", "land", "maintain"))
        found.append((f"{kind} {hour} {path}", lambda k=kind, h=hour, p=path: _step(world, k, h, p)))
    return found


def _step(world: World, kind: str, hour: int, path: str) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path=path)))
    ctx = world.context()
    key = window(hour)
    try:
        if kind == "publish":
            archive.publish(ctx, key)
        elif kind == "replay":
            replay.replay(ctx, key)
        elif kind == "reopen":
            reopen.reopen(ctx, key)
        elif kind == "rollback":
            rollback.rollback(ctx, key, 1, "not wanted")
        elif kind == "land":
            ingest.land(ctx, "r3")
        else:
            reconcile.maintain(ctx)
    except (NotReady, ReplayRefused):
        pass  # late rows that were taken up stay: a generation without them is not brought back


def settle(world: World) -> None:
    """As schedulers do: until all is done, each try later than any request of the one before."""
    world.wrap = lambda name, port: port
    tasks: list[Callable[[], object]] = [
        lambda: ingest.land(world.context(), "r3"),
        *(lambda h=hour: archive.publish(world.context(), window(h)) for hour in HOURS),
        lambda: reconcile.maintain(world.context()),
    ]
    for task in tasks:
        for n in range(TRIES):
            try:
                task()
                break
            except TidegateError as e:
                if not e.retry or n + 1 == TRIES:
                    raise
            finally:
                world.close()
            world.clock.advance(REQUEST_TTL_MS + 1)


@pytest.mark.parametrize("game", range(GAMES))
def test_workers_in_any_order(begun: Callable[[Turns], World], game: int) -> None:
    seed = f"{os.environ['TIDEGATE_TEST_SEED']}:{game}"
    turns = Turns(seed)
    world = begun(turns)
    rng = random.Random(f"{seed}:steps")
    try:
        turns.run([steps(world, rng) for _ in range(3)])
        assert turns.trouble == []
        settle(world)
        shown = lakehouse.each_snapshot_shows_one_generation(world)
        ctx = world.context()
        for hour in HOURS:
            number = ctx.ledger.windows.get(ctx.name, window(hour)).current
            current = ctx.ledger.windows.generation(ctx.name, window(hour), number)
            assert current.location == shown[window(hour).start_ms]
        rows = Counter(at for kind in (DATA, LATE) for at in _rows(world, kind))
        assert set(rows.values()) == {1}, rows
        assert rows.keys() == {(0, n) for n in (0, 1, 2, 3, 5, 7, 8)}
        assert problems(world) == []
    except BaseException:
        print(f"seed {seed}", *turns.told, *world.said, sep="\n")
        raise
    finally:
        world.close()


def _rows(world: World, kind: str) -> list[tuple[int, int]]:
    return [at for f in lakehouse.live(world, kind) for at in KEPT.coordinates(world.store, f.file_path)]
