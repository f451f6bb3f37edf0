"""Random lives of a pipeline with two sites: producers, a copier that repeats itself, one that goes on after a switch,
ingest, switches there and back, in any order; or an exact copier that writes no header, and somebody who knows pairs.
In the end each record has landed once. The run's seed repeats them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.audit.audits import look
from tests.failover.sites import NAMES, Copier, TwoSites
from tests.world import TOPIC
from tidegate.core.failover import counting
from tidegate.core.failover.crossing import RefusalKind
from tidegate.workflow.batch import ingest
from tidegate.workflow.failover import switch

LIVES = int(os.environ.get("TIDEGATE_FAILOVER_LIVES", "4"))
STEPS = 30
WELL = {RefusalKind.UNREAD_COPIES, RefusalKind.NOT_NOTED, RefusalKind.OPEN_BATCH, RefusalKind.NOT_BEGUN}
"""Refusals that pass by themselves, or by the next step; any other is a mistake of this life, or of the rules."""


COUNTED = {RefusalKind.NO_PROOF, RefusalKind.BEGINS_ABOVE}
"""Where copies are counted: too few rows have landed yet."""


class Life:
    well = WELL

    def __init__(self, world: TwoSites, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        self.here, self.there = NAMES
        self.copier: Copier | None = world.there
        self.stray: Copier | None = None  # to the active site: somebody has started it again
        self.starts = {0: 0, 1: 0}
        self.switches = self.count = 0

    def writes(self) -> None:
        ids = [f"{self.here}-{self.count + n:04}" for n in range(self.chance.randint(1, 3))]
        self.count += len(ids)
        self.world.write(self.here, *ids, partition=self.chance.randint(0, 1))

    def copies(self) -> None:
        if self.copier is None:
            return
        if self.chance.random() < 0.2:  # it begins again
            p = self.chance.randint(0, 1)
            self.copier.at[p] = self.chance.randint(self.starts[p], self.copier.at.get(p, self.starts[p]))
        self.copier.run(self.chance.randint(1, 4), transactions=self.chance.random() < 0.3)

    def strays(self) -> None:
        if self.stray is not None:
            self.stray.run(self.chance.randint(1, 2))

    def ingests(self) -> None:
        self.count += 1
        run = f"r{self.count}"
        ingest.plan(self.world.context(), run)
        if self.chance.random() < 0.7:
            ingest.write(self.world.context(), run)
            if self.chance.random() < 0.8:
                ingest.land(self.world.context(), run)
        self.world.close()

    def returns(self) -> None:
        """The site that was left, if nobody has noted its end."""
        if self.copier is None:
            certificate = self.world.context().ledger.failovers.newest("readings").certificate
            self.world.note(self.there)
            self.starts = {c.partition: c.mark for c in certificate.crossings}
            self.copier = Copier(self.world.at[self.here], self.world.at[self.there], starts=dict(self.starts))
            self.world.close()

    def switches_over(self) -> bool:
        decision = self.survey()
        if decision.refusals:
            assert {r.kind for r in decision.refusals} <= self.well, decision.refusals
            return False
        switch.apply(self.world.context(), decision, "by chance")
        self.world.close()
        self.here, self.there, self.copier, self.stray = self.there, self.here, None, self.copier
        self.switches += 1
        return True

    def survey(self) -> Any:
        return self.world.survey(self.there)

    def ends(self) -> None:
        """Both sites become active once more, so that what never crossed is read."""
        for n in range(2):
            self.world.drain(f"end{n}")
            self.returns()
            self.copier.run()  # type: ignore[union-attr]
            assert self.switches_over()
        self.world.drain("last")


class CountedLife(Life):
    """The copier is exact, and writes no header. Logs of both sites have control records anywhere."""

    well = WELL | COUNTED

    def __init__(self, world: TwoSites, seed: int) -> None:
        super().__init__(world, seed)
        world.stamped = world.there.plain = True
        self.ending = False
        self.home: dict[int, tuple[int, int]] = {}  # of the way back

    def writes(self) -> None:
        super().writes()
        if self.chance.random() < 0.4:
            self.world.at[self.here].skip(TOPIC, self.chance.randint(0, 1))

    def copies(self) -> None:
        if self.copier is not None:
            self.copier.run(self.chance.randint(1, 4), transactions=self.chance.random() < 0.3)

    def returns(self) -> None:
        if self.copier is None:
            super().returns()
            self.copier.plain = True  # type: ignore[attr-defined]
            newest = self.world.context().ledger.failovers.newest("readings")
            noted = self.world.context().ledger.failovers.noted("readings", newest.number, self.there)
            self.home = {p: (mark, noted[p]) for p, mark in self.starts.items()}
            self.world.close()

    def survey(self) -> Any:
        places = {} if self.copier is None else self.copier.places
        pairs = self.home or {p: known[0] if self.ending else self.chance.choice(known) for p, known in places.items()}
        return self.world.survey(self.there, known=self.world.pairs(*((p, *pair) for p, pair in pairs.items())))

    def ends(self) -> None:
        self.ending = True
        for n in range(3):
            ids = [[f"end{n}-{p}-{i}" for i in range(3)] for p in range(2)]
            for p in range(2):
                self.world.write(self.here, *ids[p], partition=p)
            self.world.drain(f"end{n}")
            self.returns()
            self.copier.run()  # type: ignore[union-attr]
            assert self.switches_over()
        self.world.drain("last")


def lived(life: Life, seed: int, switches: int, *more: Callable[[], Any]) -> None:
    """Steps by chance, and what has to be true at the end. `switches`: at least so many; `more`: further steps."""
    world = life.world
    steps = (life.writes, life.writes, life.copies, life.copies, life.ingests, life.returns, life.switches_over, *more)
    life.writes()
    life.ingests()
    for _ in range(STEPS):
        life.chance.choice(steps)()
    life.ends()
    assert world.rows() == sorted(world.produced), f"seed {seed}"
    assert not look(world).problems
    assert life.switches >= switches
    world.close()


@pytest.mark.parametrize("number", range(LIVES))
def test_each_record_lands_once_where_copies_are_counted(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "FEWEST", 2)
    seed = int(os.environ.get("TIDEGATE_TEST_SEED", "20261128")) + number
    world = TwoSites(tmp_path)
    life = CountedLife(world, seed)
    lived(life, seed, 3)


@pytest.mark.parametrize("number", range(LIVES))
def test_each_record_lands_once_in_any_life(number: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    seed = int(os.environ.get("TIDEGATE_TEST_SEED", "20261127")) + number
    world = TwoSites(tmp_path)
    life = Life(world, seed)
    lived(life, seed, 2, life.strays)
