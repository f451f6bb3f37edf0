"""Every changing call of a table's life fails in every way, or is overtaken by another whole task: in the end each
window has one reading, whole, and the deep audit balances.

`make test` takes one of each method and way, by the run's seed; `TIDEGATE_FAULTS=all` takes all.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from tests.crash.cases import OVERTAKINGS, unhealed
from tests.crash.faults import KINDS, Call, Faults
from tests.crash.scenario import calm, until_done
from tests.fakes.catalogue import FakeCatalogue
from tests.offline.test_life import balanced, ids
from tests.offline.worlds import FakeTable, TableWorld
from tidegate.core.base.errors import TidegateError
from tidegate.core.copy.port import Bound, SourceTable
from tidegate.spec import fingerprint

TRIES = 8
ANSWERED_MS = 700_000
"""A request that nobody answered is over by then."""
KEYS = [*range(1, 9)]
Task = Callable[[TableWorld], object]


class MovingTable(FakeTable):
    """Each attempt that cuts chunks meets other rows than the one before: none has the words of two."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0

    def bounds(self, table: SourceTable, after: Bound | None, rows: int, most: int) -> Sequence[Bound]:
        if after is None:
            self.attempts += 1
            self.rows = {key: (f"attempt {self.attempts}", None) for key in KEYS}
        return super().bounds(table, after, rows, most)


STEPS: tuple[tuple[int, tuple[Task, ...]], ...] = (
    (0, (lambda world: world.ingest("run 0"), lambda world: world.publish(0))),
    (1, (lambda world: world.ingest("run 1"), lambda world: world.publish(1), lambda world: world.publish(0))),
)
"""(the day that ends, tasks): each is run until it comes to its end."""


@dataclass
class Life:
    """A folder for each step as it is before its tasks, and what the catalogue has then."""

    folder: Path
    calls: list[list[Call]]
    catalogues: list[FakeCatalogue]

    def world(self, step: int, faults: Faults) -> TableWorld:
        here = self.folder / "world"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.folder / f"before-{step}", here)
        world = _opened(here, faults)
        world.catalogue = copy.deepcopy(self.catalogues[step])
        return world


def _opened(folder: Path, faults: Faults) -> TableWorld:
    kept = (folder / "ledger.db").read_bytes() if (folder / "ledger.db").exists() else None
    folder.mkdir(exist_ok=True)
    world = TableWorld(folder, wrap=faults.wrap)
    if kept is not None:
        (folder / "ledger.db").write_bytes(kept)
        world.registered.add(fingerprint(world.pipeline))
    world.fake = MovingTable()
    world.reach()
    return world


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """The fault-free life."""
    folder = tmp_path_factory.mktemp("offline")
    with mock.patch.object(os, "fsync"):
        faults = Faults()
        world = _opened(folder / "world", faults)
        made = Life(folder, [], [])
        with calm(world):
            world.context()  # registers the pipeline
        for number, (day, tasks) in enumerate(STEPS):
            world.ends(day)
            shutil.copytree(world.folder, folder / f"before-{number}")
            made.catalogues.append(copy.deepcopy(world.catalogue))
            start = len(faults.calls)
            for task in tasks:
                task(world)
            made.calls.append(faults.calls[start:])
        _sound(world, 1)
        yield made


def test_the_life_meets_what_reads_and_what_publishes(life: Life) -> None:
    met = {call.method for calls in life.calls for call in calls}
    assert met >= {"batches.insert_plan", "batches.take", "batches.seal", "batches.land", "launcher.run"}
    assert met >= {"windows.begin_close", "windows.publish", "storage.rename_no_replace", "catalogue.add_partitions"}


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: Life, kind: str) -> None:
    assert unhealed(life.calls, kind, partial(_lived, life)) == []


def _lived(life: Life, step: int, at: int, kind: str) -> str | None:
    faults = Faults.one(at, kind)
    world = life.world(step, faults)
    world.ends(STEPS[step][0])
    faults.rival = lambda _: _rival(world, step)
    try:
        for task in STEPS[step][1]:
            until_done(partial(task, world), faults, TRIES, lambda: world.clock.advance(ANSWERED_MS))
        if faults.fired != [life.calls[step][at].site]:
            return f"the fault did not fire, but {faults.fired}"
        faults.arrive()
        world.wrap = lambda name, port: port
        _sound(world, step)
    except Exception as e:
        return f"{type(e).__name__}: {e}; said: {world.said[-6:]}"
    finally:
        faults.arrive()
        world.close()
    return None


def _rival(world: TableWorld, step: int) -> None:
    """Another process, in the middle of the first one's try."""
    with calm(world):
        for task in STEPS[step][1][:2]:
            try:
                task(world)
            except TidegateError as e:
                if not e.retry:
                    raise AssertionError(f"the other one would need a human: {e}") from e


def _sound(world: TableWorld, step: int) -> None:
    """Each day has each key once, and of a reading that nobody overtook the words of one attempt."""
    for day in range(step + 1):
        assert ids(world, day) == KEYS
        if not world.said or not any("does not belong to attempt" in line for line in world.said):
            assert len({word for (word,) in world.rows(day, "word")}) == 1
    balanced(world)
