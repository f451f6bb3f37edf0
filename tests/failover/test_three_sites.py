"""Three sites: any of them takes over from any other, and each that was left comes back; each record lands once."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.failover.sites import NAMES, Copier, FakeStandby, TwoSites
from tests.failover.test_there_and_back import landed
from tests.fakes.kafka import FakeKafka
from tests.world import TOPIC
from tidegate.cli.failover import _lines
from tidegate.core.failover.crossing import RefusalKind
from tidegate.core.failover.states import Certificate
from tidegate.core.spec.pipeline import Site
from tidegate.workflow.failover import switch
from tidegate.workflow.failover.survey import noted

ALL = (*NAMES, "tromso")
LIVES = int(os.environ.get("TIDEGATE_FAILOVER_LIVES", "2"))


class ThreeSites(TwoSites):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        third = FakeKafka()
        third._created = 200
        third.create(TOPIC, 2)
        self.at["tromso"], self.standbys["tromso"] = third, FakeStandby(third)
        sites = (*self.pipeline.source.sites, Site(name="tromso", conn_id="kafka_3"))
        self.change_spec(source=replace(self.pipeline.source, sites=sites))

    def copier(self, source: str, target: str, certificate: Certificate | None = None, tells: bool = True) -> Copier:
        """From the marks of the switch on by which the source became active."""
        starts = {} if certificate is None else {c.partition: c.mark for c in certificate.crossings}
        made = Copier(self.at[source], self.at[target], starts=starts)
        made.tells = tells
        return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ThreeSites]:
    """Oslo is lost, Bergen takes over; of Oslo d has not crossed. Oslo has returned, and c was copied back to it."""
    made = ThreeSites(tmp_path)
    made.write("oslo", "a", "b")
    made.drain("r1")
    made.there.run()
    made.write("oslo", "d")
    first = made.fail_over().certificate
    made.write("bergen", "c")
    made.drain("r2")
    made.note("oslo")
    made.copier("bergen", "oslo", first).run()
    yield made
    made.close()


def test_an_end_that_was_noted_holds_over_the_next_switch(world: ThreeSites) -> None:
    world.copier("bergen", "tromso").run()
    world.write("bergen", "e")
    second = world.fail_over("tromso").certificate
    world.write("tromso", "f")
    world.drain("r3")
    back = world.copier("tromso", "oslo", second)
    back.run()
    world.write("tromso", "g")
    back.run()
    world.fail_over("oslo")
    world.write("oslo", "h")
    world.drain("r4")
    landed(world, lost=("e",))  # it never crossed: Bergen has not been active again
    world.note("bergen")
    (crossing, *_) = world.context().ledger.failovers.newest("readings").certificate.crossings
    world.copier("oslo", "bergen", world.context().ledger.failovers.newest("readings").certificate).run()
    assert crossing.mark > crossing.base
    world.fail_over("bergen")
    world.drain("r5")
    landed(world)


def test_a_second_standby_has_copies_of_the_first_site(world: ThreeSites) -> None:
    """It was a copy of Oslo, and then of Bergen; Oslo's records that are there alone are read when Oslo returns."""
    world.copier("oslo", "tromso").run(3)  # a, b, d
    world.write("bergen", "e")
    world.copier("bergen", "tromso").run()
    plan = list(_lines(world.survey("tromso")))
    assert any(f"copies of topic id {world.at['oslo'].look(TOPIC).topic_id} there are skipped" in one for one in plan)
    second = world.fail_over("tromso").certificate
    world.write("tromso", "f")
    world.drain("r3")
    landed(world, lost=("d",))
    world.copier("tromso", "oslo", second).run()
    world.fail_over("oslo")
    world.drain("r4")
    landed(world)


def test_a_plan_names_sites_that_were_never_active(world: ThreeSites) -> None:
    world.copier("bergen", "tromso").run()
    said = "was never active: what is copied from it behind a mark is taken for new records"
    assert not any(said in one for one in _lines(world.survey("tromso")))
    assert f"site tromso {said}" in list(_lines(world.survey("oslo")))


# ---------------------------------------------------------------- any order


class Life:
    """A switch by chance to any other site, which has copies of all that were active, in any order of turns. `tells`:
    copiers say of what a record was a copy before; else the log of the site that is left is asked."""

    def __init__(self, world: ThreeSites, seed: int) -> None:
        self.world, self.chance, self.count = world, random.Random(seed), 0
        self.here, self.left, self.ending = "oslo", set[str](), False
        self.tells = self.chance.random() < 0.5
        self.strays: list[Copier] = []
        self.copiers: dict[str, Copier] = {name: self.copier("oslo", name) for name in ALL if name != "oslo"}
        self.certificate: Certificate | None = None

    def copier(self, source: str, target: str, certificate: Certificate | None = None) -> Copier:
        return self.world.copier(source, target, certificate, self.tells)

    def strays_come(self) -> None:
        """A copier to the active site, which was fenced, is started again."""
        if self.strays and not self.ending:
            self.chance.choice(self.strays).run(self.chance.randint(1, 2))

    def writes(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.count += 1
            self.world.write(self.here, f"{self.here}-{self.count}", partition=self.chance.randint(0, 1))

    def copies(self) -> None:
        if self.copiers:
            self.chance.choice([*self.copiers.values()]).run(
                self.chance.randint(1, 4), transactions=self.chance.random() < 0.3
            )

    def drains(self) -> None:
        self.count += 1
        self.world.drain(f"r{self.count}")

    def returns(self, name: str = "") -> None:
        """A site that was left: its end is noted, and a copier to it begins."""
        name = name or self.chance.choice(sorted(self.left) or [""])
        if name and name not in self.copiers:
            if name not in self.noted():
                self.world.note(name)
            self.copiers[name] = self.copier(self.here, name, self.certificate)

    def noted(self) -> set[str]:
        ctx = self.world.context()
        history = ctx.ledger.failovers.history("readings")
        return {name for name in self.left if noted(ctx, history, name)}

    def switches(self, to: str = "") -> bool:
        to = to or self.chance.choice(sorted(self.copiers) or [""])
        if not to:
            return False
        decision: Any = self.world.survey(to)
        if decision.refusals:
            assert {r.kind for r in decision.refusals} == {RefusalKind.UNREAD_COPIES}, decision.refusals
            return False
        self.certificate = switch.apply(self.world.context(), decision, "by chance").certificate
        if not self.ending and self.chance.random() < 0.5:
            self.writes()  # by producers that have not heard of the switch: these never cross
        fresh = {name for name in self.copiers if name not in self.left and name != to}
        self.here, self.left = to, (self.left | {self.here}) - {to}
        # a standby that was never active is copied to from now on by the site that has taken over, from its beginning
        self.strays = [self.copiers[to]]
        self.copiers = {name: self.copier(to, name) for name in fresh}
        return True


@pytest.mark.parametrize("number", range(LIVES))
def test_each_record_lands_once_in_any_order(number: int, tmp_path: Path) -> None:
    seed = int(os.environ.get("TIDEGATE_TEST_SEED", "20261128")) + number
    world = ThreeSites(tmp_path)
    life = Life(world, seed)
    life.writes()
    life.drains()
    steps = (life.writes, life.writes, life.copies, life.copies, life.drains, life.returns, life.switches)
    steps = (*steps, life.strays_come)
    for _ in range(30):
        life.chance.choice(steps)()
    life.ending = True
    for name in [*ALL, *ALL]:  # each is active once more, so that what never crossed is read
        if name == life.here:
            continue
        life.drains()
        if name in life.left:
            life.returns(name)
        life.copiers[name].run()
        assert life.switches(name)
    life.drains()
    landed(world)
    world.close()
