"""Every changing call of a copy's life fails in every way, or is overtaken by another whole task: in the end the mirror
is what the source has, its sums are right, and no chunk was merged twice.

On disk, and in an object store, where nothing moves. `make test` takes one of each method and half of its ways, by the
run's seed, in the object store of those that it sees; `TIDEGATE_FAULTS=all` takes all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.copies.checks import merged_once
from tests.copies.worlds import COPYING, CopyWorld
from tests.crash.cases import OVERTAKINGS
from tests.crash.faults import KINDS, OF_A_COPY, Faults
from tests.crash.scenario import calm
from tests.crash.short_life import Play, ShortLife, Step
from tests.fakes.source_table import place
from tests.mirror.test_faults import PLACES, counts
from tidegate.core.base.errors import TidegateError
from tidegate.core.copy.rounds import ChunkState, Claim, RoundState
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.balance import imbalance
from tidegate.core.mirror.copied import numbers
from tidegate.targets.iceberg.live import said_by
from tidegate.targets.mirror.prefix import UPTO
from tidegate.workflow.apply.taking_back import take_back
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.copy.copy import to_compare


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


def _is_confirmed(world: CopyWorld) -> None:
    """As by a comparison of all keys that finds no difference in a column that came later."""
    ctx = world.context()
    newest = ctx.ledger.copies.newest(ctx.name)
    assert newest is not None
    ctx.ledger.copies.confirm(ctx.name, newest.number, newest.number + 1, Claim(0, (), ("shade",)))
    world.close()


def _is_still(world: CopyWorld) -> None:
    """Nothing more happens at the source."""


def _is_cleaned(world: CopyWorld) -> None:
    """Nine days later."""
    world.clock.advance(9 * 86_400_000)
    clean(world.context())
    world.close()


STEPS: tuple[Step[CopyWorld], ...] = (
    Step(_begins, (CopyWorld.read,)),
    Step(_changes, (CopyWorld.apply,)),
    Step(_differs, (CopyWorld.again, CopyWorld.read, CopyWorld.apply)),
    Step(_goes_back, (CopyWorld.apply,)),
    Step(_replica_has_caught_up, (CopyWorld.read, CopyWorld.apply)),
    Step(_is_compared, (_is_to_be_merged, CopyWorld.apply)),
    Step(_is_still, (_is_confirmed, _is_cleaned)),
)


@dataclass
class Copies(Play[CopyWorld]):
    """`place`: of the table."""

    place: str
    steps = STEPS
    settles = False

    def opened(self, folder: Path, faults: Faults, kept: Any) -> CopyWorld:
        store, source, topic = kept or (None, None, None)
        world = CopyWorld(folder, COPYING, wrap=faults.wrap, location=PLACES[self.place], store=store)
        if source is not None:
            world.source_table, world.sent, world.kafka = source, len(source.log), topic
        world.connector = lambda: place(world.source_table, world.source_table.end)  # all is delivered
        return world

    def keeps(self, world: CopyWorld) -> Any:
        return world.store, world.source_table, world.kafka

    def meanwhile(self, world: CopyWorld, step: int) -> None:
        """Readers see nothing of the first copy, which two steps bring, before it is whole."""
        if step < 2:
            copied = world.standing().copied
            assert copied.whole is not None or (copied.hidden and world.shown() == {})
            world.close()

    def rival(self, world: CopyWorld, step: int) -> None:
        """Another process, in the middle of the first one's try."""
        with calm(world):
            try:
                world.read()
                world.apply()
            except TidegateError as e:
                if not e.retry:
                    raise AssertionError(f"the other one would need a human: {e}") from e

    def ends(self, world: CopyWorld, step: int) -> None:
        """Further runs, as the schedule starts them: a chunk may have to be read again."""
        world.source_table.end = max(world.source_table.end, 1000)
        for _ in range(2):
            world.read()
            world.apply()

    def sound(self, world: CopyWorld, step: int) -> None:
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
        if step == len(STEPS) - 1:
            clean(ctx)  # a fault may have left something to the next one
            (left,) = ctx.ledger.copies.rounds(ctx.name)
            known = left.as_of(Told.by(stands)).columns
            assert (left.number, known) == (rounds[-1].number, ("id", "word", "shade"))
        world.close()
        merged_once(world)


@pytest.fixture(scope="module", params=PLACES)
def life(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ShortLife[CopyWorld]:
    return ShortLife(Copies(request.param), tmp_path_factory.mktemp("copy"))


def test_the_life_meets_every_changing_call(life: ShortLife[CopyWorld]) -> None:
    assert life.methods >= OF_A_COPY | {
        "applies.begin", "applies.applied", "applies.stands", "iceberg.commit", "launcher.run",
    }  # fmt: skip


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: ShortLife[CopyWorld], kind: str) -> None:
    assert life.unhealed(kind, counts(life)) == []
