"""Every changing call of a copy's life fails in every way, or is overtaken by another whole task: in the end the mirror
is what the source has, its sums are right, and no chunk was merged twice.

On disk, and in an object store, where nothing moves. `make test` takes one of each method and way, by the run's seed,
in the object store of those that it sees; `TIDEGATE_FAULTS=all` takes all.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from tests.copies.checks import merged_once
from tests.copies.worlds import COPYING, CopyWorld
from tests.crash.cases import OVERTAKINGS, unhealed
from tests.crash.faults import KINDS, OF_A_COPY, Call, Faults
from tests.crash.scenario import calm, until_done
from tests.fakes.source_table import FakeSource, position
from tests.mirror.test_faults import PLACES, counts
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.storage import Storage
from tidegate.core.copy.rounds import ChunkState, RoundState
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.balance import imbalance
from tidegate.core.mirror.copied import numbers
from tidegate.spec import fingerprint
from tidegate.targets.iceberg.live import said_by
from tidegate.targets.mirror.prefix import UPTO
from tidegate.workflow.apply.taking_back import take_back
from tidegate.workflow.copy.copy import to_compare

TRIES = 8
Task = Callable[[CopyWorld], object]


@dataclass(frozen=True)
class Step:
    """`happens`: in a world without faults. `tasks`: each is run until it comes to its end."""

    happens: Task
    tasks: tuple[Task, ...]


def _begins(world: CopyWorld) -> None:
    world.source_table.rows = {key: f"old {key}" for key in range(1, 11)}
    world.source_table.set(3, "first event")
    world.deliver()
    world.apply()


def _changes(world: CopyWorld) -> None:
    for change in ((5, "newer"), (6, None), (11, "new")):
        world.source_table.set(*change)
    world.deliver()


def _differs(world: CopyWorld) -> None:
    """What no event tells, and a copy that is half read and half merged."""
    world.source_table.lose(4)
    world.source_table.sneak(7, "sneaked")
    world.source_table.set(8, "told")
    world.deliver()
    world.apply()
    world.again()
    world.source_table.rows |= {key: f"more {key}" for key in range(20, 40)}
    world.read(go_on=lambda: False)
    world.apply()


def _goes_back(world: CopyWorld) -> None:
    """The table is taken back before all that was copied, and the next copy is read from a replica that lags: its
    chunks are too old once those of before are in again (S5)."""
    loaded = world.loaded()
    assert loaded is not None
    first = next(s for s in loaded.metadata.snapshots if UPTO in said_by(s))
    with calm(world):
        take_back(world.context(), str(first.snapshot_id), "test")
    world.again()
    world.source_table.end -= 15
    world.read()


def _replica_has_caught_up(world: CopyWorld) -> None:
    world.source_table.end = 1000


def _is_compared(world: CopyWorld) -> None:
    """A copy that was read to be compared, and differs."""
    world.source_table.lose(9)
    with calm(world):
        to_compare(world.context(), world.source_table)
    world.read(compared=True)


def _is_to_be_merged(world: CopyWorld) -> None:
    ctx = world.context()
    newest = ctx.ledger.copies.newest(ctx.name)
    assert newest is not None
    if newest.state == RoundState.COMPARED:
        ctx.ledger.copies.merge(newest, "test")
    world.close()


STEPS = (
    Step(_begins, (CopyWorld.read,)),
    Step(_changes, (CopyWorld.apply,)),
    Step(_differs, (CopyWorld.again, CopyWorld.read, CopyWorld.apply)),
    Step(_goes_back, (CopyWorld.apply,)),
    Step(_replica_has_caught_up, (CopyWorld.read, CopyWorld.apply)),
    Step(_is_compared, (_is_to_be_merged, CopyWorld.apply)),
)


@dataclass
class Life:
    """A folder for each step as it is before its tasks: paths are absolute, so the world's own is used again. `stores`
    and `sources`: what the world's storage and database hold then."""

    folder: Path
    place: str
    calls: list[list[Call]]
    stores: list[Storage]
    sources: list[FakeSource]

    def world(self, step: int, faults: Faults) -> CopyWorld:
        here = self.folder / "world"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.folder / f"before-{step}", here)
        world = _opened(here, faults, self.place, copy.deepcopy(self.stores[step]))
        world.source_table = copy.deepcopy(self.sources[step])
        world.sent = len(world.source_table.log)
        return world


def _opened(folder: Path, faults: Faults, place: str, store: Storage | None = None) -> CopyWorld:
    """A world whose folder is there already."""
    kept = (folder / "ledger.db").read_bytes() if (folder / "ledger.db").exists() else None
    folder.mkdir(exist_ok=True)
    world = CopyWorld(folder, COPYING, wrap=faults.wrap, location=PLACES[place], store=store)
    if kept is not None:
        (folder / "ledger.db").write_bytes(kept)
        world.registered.add(fingerprint(world.pipeline))
    world.connector = lambda: (position(world.source_table.end), world.source_table.position())  # all is delivered
    return world


@pytest.fixture(scope="module", params=PLACES)
def life(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Life]:
    """The fault-free life."""
    folder = tmp_path_factory.mktemp("copy")
    with mock.patch.object(os, "fsync"):
        faults = Faults()
        world = _opened(folder / "world", faults, request.param)
        made = Life(folder, request.param, [], [], [])
        for number, step in enumerate(STEPS):
            with calm(world):
                step.happens(world)
            shutil.copytree(world.folder, folder / f"before-{number}")
            made.stores.append(copy.deepcopy(world.store))
            made.sources.append(copy.deepcopy(world.source_table))
            start = len(faults.calls)
            for task in step.tasks:
                task(world)
            made.calls.append(faults.calls[start:])
        _sound(world)
        yield made


def test_the_life_meets_every_changing_call(life: Life) -> None:
    met = {call.method for calls in life.calls for call in calls}
    assert met >= OF_A_COPY | {"applies.begin", "applies.applied", "applies.stands", "iceberg.commit", "launcher.run"}


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: Life, kind: str) -> None:
    assert unhealed(life.calls, kind, partial(_lived, life), counts(life)) == []


def _lived(life: Life, step: int, at: int, kind: str) -> str | None:
    faults = Faults.one(at, kind)
    world = life.world(step, faults)
    faults.rival = lambda _: _rival(world)
    try:
        for task in STEPS[step].tasks:
            until_done(partial(task, world), faults, TRIES)
            if step < 2:
                _not_by_half(world)
        if faults.fired != [life.calls[step][at].site]:
            return f"the fault did not fire, but {faults.fired}"
        faults.arrive()
        world.wrap = lambda name, port: port
        _finish(world)
        _sound(world)
    except Exception as e:
        return f"{type(e).__name__}: {e}; said: {world.said[-6:]}"
    finally:
        faults.arrive()
        world.close()
    return None


def _not_by_half(world: CopyWorld) -> None:
    """Readers see nothing of the first copy, which these steps bring, before it is whole."""
    copied = world.standing().copied
    assert copied.whole is not None or (copied.hidden and world.shown() == {})
    world.close()


def _rival(world: CopyWorld) -> None:
    """Another process, in the middle of the first one's try."""
    with calm(world):
        try:
            world.read()
            world.apply()
        except TidegateError as e:
            if not e.retry:
                raise AssertionError(f"the other one would need a human: {e}") from e


def _finish(world: CopyWorld) -> None:
    """Further runs, as the schedule starts them: a chunk may have to be read again."""
    world.source_table.end = max(world.source_table.end, 1000)
    for _ in range(2):
        world.read()
        world.apply()


def _sound(world: CopyWorld) -> None:
    """Readers, the table's sums and the ledger agree."""
    assert world.rows() == world.shown() == world.source_table.rows
    ctx = world.context()
    assert ctx.keyed is not None
    stands = ctx.keyed.standing()
    assert imbalance(stands) is None
    assert stands.below_purge == 0
    assert stands.events == ctx.ledger.applies.rows(ctx.name, stands.upto), "an event counts twice, or a copied row"
    assert ctx.ledger.applies.told(ctx.name) == Told.by(stands)
    rounds = ctx.ledger.copies.rounds(ctx.name)
    assert stands.copied.whole is not None
    assert (stands.copied.newest, rounds[-1].state) == (rounds[-1].number, RoundState.WHOLE)
    assert stands.copied.whole.number == rounds[-1].number
    for one in stands.copied.rounds:
        chunks = {c.number: c for c in ctx.ledger.copies.chunks(ctx.name, one.number)}
        assert {chunks[n].state for n in numbers(one.chunks)} == {ChunkState.READ}
    world.close()
    merged_once(world)
