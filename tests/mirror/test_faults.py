"""Every changing call of an apply fails in every way, or is overtaken by another whole apply: in the end each event of
each landed batch has counted once, and readers see the newest row of each key.

On disk, and in an object store, where nothing moves. `make test` takes one of each method and half of its ways, by the
run's seed, in the object store of those that it sees; `TIDEGATE_FAULTS=all` takes all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.crash.cases import OVERTAKINGS
from tests.crash.faults import KINDS, OF_A_MIRROR, Call, Faults
from tests.crash.short_life import Play, ShortLife, Step
from tests.mirror.test_purge import KEPT
from tests.mirror.worlds import MirrorWorld, event, mirror
from tidegate.core.mirror.applies import OPEN, Told
from tidegate.core.mirror.balance import imbalance

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
class Applies(Play[MirrorWorld]):
    """Each step is one apply. `place`: of the table."""

    place: str

    def __post_init__(self) -> None:
        self.steps = tuple(Step(partial(self._lands, number), (MirrorWorld.apply,)) for number in range(len(STEPS)))

    def _lands(self, number: int, world: MirrorWorld) -> None:
        world.clock.advance(LATER[number])
        self._cut(world, BUCKETS[number])
        for batch in STEPS[number]:
            world.land(*batch)

    def _cut(self, world: MirrorWorld, buckets: int) -> None:
        """The YAML names so many, and the ledger knows it: registering a spec is no part of an apply."""
        yaml = KEPT.replace("buckets: 3", f"buckets: {buckets}")
        world.pipeline = mirror(world.folder, yaml, PLACES[self.place])
        world.context()

    def opened(self, folder: Path, faults: Faults, kept: Any) -> MirrorWorld:
        store, clock, pipeline = kept or (None, None, None)
        world = MirrorWorld(folder, KEPT, wrap=faults.wrap, location=PLACES[self.place], store=store)
        if kept:
            world.clock, world.pipeline = clock, pipeline
        return world

    def keeps(self, world: MirrorWorld) -> Any:
        return world.store, world.clock, world.pipeline

    def ends(self, world: MirrorWorld, step: int) -> None:
        world.apply()

    def sound(self, world: MirrorWorld, step: int) -> None:
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


@pytest.fixture(scope="module", params=PLACES)
def life(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ShortLife[MirrorWorld]:
    return ShortLife(Applies(request.param), tmp_path_factory.mktemp("mirror"))


def counts(life: ShortLife[Any]) -> Callable[[Call], bool]:
    """In an object store: those that it sees."""
    return lambda call: life.play.place != "objects" or call.method.startswith(SEEN)  # type: ignore[attr-defined]


def test_the_life_meets_every_changing_call(life: ShortLife[MirrorWorld]) -> None:
    """No event of it is refused, and nobody is overtaken: `test_life.py` and `test_purge.py` do that."""
    assert life.methods >= (OF_A_MIRROR | {"iceberg.create", "iceberg.commit", "launcher.run"}) - {
        "applies.refuse",
        "applies.overtaken",
    }


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: ShortLife[MirrorWorld], kind: str) -> None:
    assert life.unhealed(kind, counts(life)) == []
