"""Every changing call of an apply fails in every way, or is overtaken by another whole apply: in the end each event of
each landed batch has counted once, and readers see the newest row of each key.

On disk, and in an object store, where nothing moves. `make test` takes one of each method and way, by the run's seed,
in the object store of those that it sees; `TIDEGATE_FAULTS=all` takes all.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.crash.cases import OVERTAKINGS, unhealed
from tests.crash.faults import KINDS, OF_A_MIRROR, Call, Faults
from tests.crash.scenario import calm, until_done
from tests.mirror.test_purge import KEPT
from tests.mirror.worlds import MirrorWorld, event, mirror
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.storage import Storage
from tidegate.core.mirror.applies import OPEN, Told
from tidegate.core.mirror.balance import imbalance
from tidegate.spec import fingerprint

TRIES = 8
STEPS = (
    ((event(1, "a", 10), event(2, "b", 11), event(3, "c", 12)), (event(1, "a2", 20), event(3, None, 21))),
    ((event(2, "b", 11), event(3, "late", 20), event(4, "d", 30)),),
    ((event(5, "e", 40),),),
    ((event(6, "f", 50),),),
)
"""Batches that land before each apply; in the second step a repeat, and an event that is older than its delete. The
third is so much later that it purges a tombstone, too; before the fourth the table is cut into more buckets."""
WANTED: tuple[dict[int, str], ...] = ({1: "a2", 2: "b"}, {1: "a2", 2: "b", 4: "d"}, {1: "a2", 2: "b", 4: "d", 5: "e"})
WANTED = (*WANTED, WANTED[-1] | {6: "f"})
EVENTS = (5, 8, 9, 10)
PURGED = (0, 0, 1, 1)
LATER = (0, 0, 4 * 86_400_000, 0)
BUCKETS = (3, 3, 3, 6)


PLACES = {"disk": "", "objects": "s3://lake/readings"}
"""Locations of the table."""
SEEN = ("storage", "iceberg", "launcher")
"""Ports whose calls an object store answers otherwise than a disk."""


@dataclass
class Life:
    """A folder for each step as it is before its apply: paths are absolute, so the world's own is used again. `stores`:
    what the world's storage holds then."""

    folder: Path
    place: str
    calls: list[list[Call]]
    stores: list[Storage]

    def world(self, step: int, faults: Faults) -> MirrorWorld:
        here = self.folder / "world"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.folder / f"before-{step}", here)
        world = _opened(here, faults, self.place, copy.deepcopy(self.stores[step]))
        world.clock.advance(sum(LATER[: step + 1]))
        _cut(world, self.place, BUCKETS[step])
        return world


def _cut(world: MirrorWorld, place: str, buckets: int) -> None:
    """The YAML names so many, and the ledger knows it: registering a spec is no part of an apply."""
    yaml = KEPT.replace("buckets: 3", f"buckets: {buckets}")
    world.pipeline = mirror(world.folder, yaml, PLACES[place])
    with calm(world):
        world.context()


def _opened(folder: Path, faults: Faults, place: str, store: Storage | None = None) -> MirrorWorld:
    """A world whose folder is there already."""
    kept = (folder / "ledger.db").read_bytes() if (folder / "ledger.db").exists() else None
    folder.mkdir(exist_ok=True)
    world = MirrorWorld(folder, KEPT, wrap=faults.wrap, location=PLACES[place], store=store)
    if kept is not None:
        (folder / "ledger.db").write_bytes(kept)
        world.registered.add(fingerprint(world.pipeline))
    return world


@pytest.fixture(scope="module", params=PLACES)
def life(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """The fault-free life."""
    folder = tmp_path_factory.mktemp("mirror")
    with mock.patch.object(os, "fsync"):
        faults, calls, stores = Faults(), [], []
        world = _opened(folder / "world", faults, request.param)
        for number, batches in enumerate(STEPS):
            world.clock.advance(LATER[number])
            _cut(world, request.param, BUCKETS[number])
            for batch in batches:
                world.land(*batch)
            world.close()
            shutil.copytree(world.folder, folder / f"before-{number}")
            stores.append(copy.deepcopy(world.store))
            start = len(faults.calls)
            world.apply()
            calls.append(faults.calls[start:])
            _sound(world, number)
        yield Life(folder, request.param, calls, stores)


def counts(life: Any) -> Callable[[Call], bool]:
    """In an object store: those that it sees."""
    return lambda call: life.place != "objects" or call.method.startswith(SEEN)


def test_the_life_meets_every_changing_call(life: Life) -> None:
    """No event of it is refused, and nobody is overtaken: `test_life.py` and `test_purge.py` do that."""
    met = {call.method for calls in life.calls for call in calls}
    assert met >= (OF_A_MIRROR | {"iceberg.create", "iceberg.commit", "launcher.run"}) - {
        "applies.refuse",
        "applies.overtaken",
    }


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: Life, kind: str) -> None:
    assert unhealed(life.calls, kind, partial(_lived, life), counts(life)) == []


def _lived(life: Life, step: int, at: int, kind: str) -> str | None:
    faults = Faults.one(at, kind)
    world = life.world(step, faults)
    faults.rival = lambda _: _rival(world)
    try:
        until_done(world.apply, faults, TRIES)
        if faults.fired != [life.calls[step][at].site]:
            return f"the fault did not fire, but {faults.fired}"
        faults.arrive()
        world.wrap = lambda name, port: port
        world.apply()
        _sound(world, step)
    except Exception as e:
        return f"{type(e).__name__}: {e}; said: {world.said[-6:]}"
    finally:
        faults.arrive()
        world.close()
    return None


def _rival(world: MirrorWorld) -> None:
    """Another process, in the middle of the first one's try."""
    with calm(world):
        try:
            world.apply()
        except TidegateError as e:
            if not e.retry:
                raise AssertionError(f"the other one would need a human: {e}") from e


def _sound(world: MirrorWorld, step: int) -> None:
    """Readers, the table's sums and the ledger agree."""
    assert world.rows() == WANTED[step]
    ctx = world.context()
    assert ctx.keyed is not None
    stands = ctx.keyed.standing()
    assert imbalance(stands) is None
    assert (stands.purged, stands.buckets) == (PURGED[step], BUCKETS[step])
    assert stands.events == EVENTS[step] == ctx.ledger.applies.rows(ctx.name, stands.upto), "an event counts twice"
    assert ctx.ledger.applies.told(ctx.name) == Told.by(stands)
    newest = ctx.ledger.applies.newest(ctx.name)
    assert newest is not None
    assert newest.state != OPEN, "a try was left open"
    world.close()
