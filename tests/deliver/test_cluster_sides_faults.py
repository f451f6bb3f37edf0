"""Every changing call of a life with late and dirty rows fails in every way, or is overtaken by another whole task: in
the end the copy has each row where the pipeline's own tables have it, and on the way no row was met in two of them.

`make test` takes one kind of table, five ways to fail, and one call of each method, by the run's seed;
`TIDEGATE_FAULTS=all` (`make test-faults`) all.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.crash.cases import ALL, OVERTAKINGS
from tests.crash.faults import KINDS, Faults
from tests.crash.scenario import SOON_MS
from tests.crash.short_life import Play, ShortLife, Step
from tests.deliver.side_lab import KINDS as TABLES
from tests.deliver.side_lab import Sides, as_at_home, begun, none_twice, redrives_all, reopens, sends, states
from tests.world import World
from tidegate.core.base.errors import LostComparison
from tidegate.workflow.base.context import REQUEST_TTL_MS

DAY_MS = 86_400_000
WAYS = [*KINDS, *OVERTAKINGS]
_BY_SEED = random.Random(os.environ["TIDEGATE_TEST_SEED"])
_ONE = _BY_SEED.choice(list(TABLES))


def sends_all(lab: Sides) -> None:
    """An hour that waits for its rows to leave is sent by a later run."""
    found = sends(lab)
    if {"failed", "overtaken", "waits"} & {what for each in found.values() for what in each}:
        raise LostComparison(f"not all of it: {found}")


def redriven(lab: Sides) -> None:
    redrives_all(lab.world)
    lab.world.archive(1)


@dataclass
class Beside(Play[Sides]):
    """`kind`: of the tables."""

    kind: str
    steps = (
        Step(begun, (sends_all,)),
        Step(lambda lab: reopens(lab.world), (sends_all,)),
        Step(redriven, (sends_all,)),
        Step(lambda lab: lab.world.clock.advance(DAY_MS + 1), (sends_all,)),
    )
    tries = 12

    def opened(self, folder: Path, faults: Faults, kept: Any) -> Sides:
        near = lambda name, port: faults.wrap(name, port) if name == "deliveries" else port  # noqa: E731
        lab = TABLES[self.kind](folder, wrap=near, wrap_far=faults.wrap)
        if kept is not None:
            lab.far, lab.storage, lab.world.clock, lab.world.pipeline = kept[:4]
            lab.world.catalogue, lab.world.kafka, lab.world.store = kept[4:]
        return lab

    def keeps(self, lab: Sides) -> Any:
        world = lab.world
        return lab.far, lab.storage, world.clock, lab.pipeline, world.catalogue, world.kafka, world.store

    def of(self, lab: Sides) -> World:
        return lab.world

    def waits(self, lab: Sides, faults: Faults) -> None:
        """Between two tries readers look; several tries fit into a request's life, or none."""
        self._look(lab)
        lab.world.clock.advance(SOON_MS if faults.in_flight else REQUEST_TTL_MS + 1)

    def calm(self, lab: Sides) -> None:
        lab.world.wrap = lab.wrap_far = lambda name, port: port
        self._look(lab)

    def rival(self, lab: Sides, step: int) -> None:
        """Another process, in the middle of the first one's try."""
        far, lab.wrap_far = lab.wrap_far, lambda name, port: port
        try:
            super().rival(lab, step)
        finally:
            lab.wrap_far = far
        self._look(lab)

    def ends(self, lab: Sides, step: int) -> None:
        lab.world.clock.advance(REQUEST_TTL_MS + 1)
        for _ in range(2):
            sends(lab)

    def sound(self, lab: Sides, step: int) -> None:
        as_at_home(lab)
        assert all(" STANDING " in one for side in ("late", "dirty") for one in states(lab, side))
        assert lab.names("copies") == lab.names("beside/late/copies") == lab.names("beside/dirty/copies") == []
        if step == 3:
            assert lab.names("beside/late/replaced") == lab.names("beside/dirty/replaced") == []

    def _look(self, lab: Sides) -> None:
        far, lab.wrap_far = lab.wrap_far, lambda name, port: port
        try:
            none_twice(lab)
        finally:
            lab.wrap_far = far


@pytest.fixture(scope="module", params=list(TABLES) if ALL else [_ONE])
def life(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ShortLife[Sides]:
    return ShortLife(Beside(request.param), tmp_path_factory.mktemp("beside"))


def test_the_life_meets_every_change_of_the_other_cluster(
    life: ShortLife[Sides], request: pytest.FixtureRequest
) -> None:
    met = {method.partition(".")[2] for method in life.methods}
    hive = {"ensure_table", "add_partitions", "drop_partitions"}
    assert met >= ({"create", "commit"} if "iceberg" in request.node.callspec.params["life"] else hive)


@pytest.mark.parametrize("kind", WAYS if ALL else sorted(_BY_SEED.sample(WAYS, 5)))
def test_any_fault_heals(life: ShortLife[Sides], kind: str) -> None:
    assert life.unhealed(kind) == []
