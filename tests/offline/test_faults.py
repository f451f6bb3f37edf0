"""Every changing call of a table's life fails in every way, or is overtaken by another whole task: in the end each
window has one reading, whole, and the deep audit balances.

`make test` takes one of each method and half of its ways, by the run's seed; `TIDEGATE_FAULTS=all` takes all.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.crash.cases import OVERTAKINGS
from tests.crash.faults import KINDS, Faults
from tests.crash.scenario import calm
from tests.crash.short_life import Play, ShortLife, Step, nothing
from tests.offline.test_life import balanced, ids
from tests.offline.worlds import FakeTable, TableWorld
from tidegate.core.copy.port import Bound, SourceTable

SOON_MS, ANSWERED_MS = 60_000, 700_000
"""A request that nobody answered is over by then."""
KEYS = [*range(1, 9)]


class MovingTable(FakeTable):
    """Each attempt that cuts chunks meets other rows than the one before: none has the words of two."""

    attempts = itertools.count(1)  # of all worlds: a copy of a world goes on with them

    def bounds(self, table: SourceTable, after: Bound | None, rows: int, most: int) -> Sequence[Bound]:
        if after is None:
            word = f"attempt {next(self.attempts)}"
            self.rows = {key: (word, None) for key in KEYS}
        return super().bounds(table, after, rows, most)


class Table(Play[TableWorld]):
    """Two days, each read and published once it has ended; then the first one is read once more, and taken back."""

    steps = (
        Step(lambda world: world.ends(0), (lambda world: world.ingest("run 0"), lambda world: world.publish(0))),
        Step(
            lambda world: world.ends(1),
            (lambda world: world.ingest("run 1"), lambda world: world.publish(1), lambda world: world.publish(0)),
        ),
        Step(nothing, (lambda world: world.reread(0), lambda world: world.publish(0))),
        Step(nothing, (lambda world: world.back(0, 1),)),
    )

    def opened(self, folder: Path, faults: Faults, kept: Any) -> TableWorld:
        world = TableWorld(folder, wrap=faults.wrap)
        world.fake, self.soon = MovingTable(), False
        world.reach()
        if kept is None:
            with calm(world):
                world.context()  # registers the pipeline
        else:
            world.catalogue, world.clock = kept
        return world

    def keeps(self, world: TableWorld) -> Any:
        return world.catalogue, world.clock

    def waits(self, world: TableWorld, faults: Faults) -> None:
        """The first try after a request that hangs comes while it may still be executed, later ones when it is over
        (R8): of a second reading they may publish another generation."""
        self.soon = faults.in_flight and not self.soon
        if not self.soon:
            faults.arrive()
        world.clock.advance(SOON_MS if self.soon else ANSWERED_MS)

    def sound(self, world: TableWorld, step: int) -> None:
        """Each day has each key once, and of a reading that nobody overtook the words of one attempt."""
        for day in range(min(step + 1, 2)):
            assert ids(world, day) == KEYS
            if not world.said or not any("does not belong to attempt" in line for line in world.said):
                assert len({word for (word,) in world.rows(day, "word")}) == 1
        balanced(world)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> ShortLife[TableWorld]:
    return ShortLife(Table(), tmp_path_factory.mktemp("offline"))


def test_the_life_meets_what_reads_and_what_publishes(life: ShortLife[TableWorld]) -> None:
    assert life.methods >= {"batches.insert_plan", "batches.take", "batches.seal", "batches.land", "launcher.run"}
    assert life.methods >= {
        "windows.begin_close", "windows.publish", "storage.rename_no_replace", "catalogue.add_partitions",
        "windows.begin_generation", "rollbacks.begin",
    }  # fmt: skip


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: ShortLife[TableWorld], kind: str) -> None:
    assert life.unhealed(kind) == []
